import { describe, expect, it } from 'vitest';
import { openKvInspector } from '../../src/datastore/kv/kv-inspector.ts';
import { openOrchInspector } from '../../src/datastore/orch/orch-inspector.ts';
import { declaredAccess } from '../../src/install/cluster/declared-access.ts';
import { openOrchStore } from '../../src/datastore/orch/orch-store.ts';
import { startEtcd } from '../support/etcd.ts';
import { freePort } from '../support/free-port.ts';
import { nodeName } from '../support/fixtures.ts';
import { startOrchApiServer } from '../support/orch-datastore.ts';
import { makeTlsFolder } from '../support/tls.ts';

const never = new AbortController().signal;
const plain = (...urls: string[]): Parameters<typeof openKvInspector>[0] => ({
  endpoints: { from: 'list', urls },
  keyFile: undefined,
  certFile: undefined,
  caCertFile: undefined,
});

describe('a look at etcd', () => {
  it('reports version, size, quota and clock, from the first member that responds', async () => {
    await using etcd = await startEtcd();
    await using inspector = openKvInspector(plain(`http://127.0.0.1:${String(await freePort())}`, etcd.url));
    const report = await inspector.inspect(never);
    expect(report.server).toMatch(/^etcd 3\.\d+\.\d+$/);
    expect(report.sizeBytes).toBeGreaterThan(0);
    expect(report.quotaBytes).toBe(2 * 1024 ** 3);
    expect(report.alarms).toEqual([]);
    expect(report.skewMs).toBe(0);
  });

  it('shows its certificate, and is refused without one', async () => {
    using folder = makeTlsFolder();
    const ca = folder.authority('ca');
    const [server, client] = [ca.issue('etcd', ['127.0.0.1']), ca.issue('netplug')];
    await using etcd = await startEtcd({ tls: { ...server, clientCaFile: ca.certFile } });
    await using inspector = openKvInspector({ ...plain(etcd.url), ...client, caCertFile: ca.certFile });
    expect((await inspector.inspect(never)).server).toMatch(/^etcd 3/);
    await using stranger = openKvInspector({ ...plain(etcd.url), caCertFile: ca.certFile });
    await expect(stranger.inspect(never)).rejects.toMatchObject({ code: expect.stringMatching(/^store\//) });
  });

  it('fails when no member responds', async () => {
    await using inspector = openKvInspector(plain(`http://127.0.0.1:${String(await freePort())}`));
    await expect(inspector.inspect(never)).rejects.toMatchObject({ code: 'store/unavailable' });
  });
});

describe('a look at the API of the orchestrator', () => {
  it('reports version, clock, and what an installation lacks', async () => {
    await using server = await startOrchApiServer();
    const look = async (): ReturnType<ReturnType<typeof openOrchInspector>['inspect']> => {
      await using inspector = openOrchInspector(
        { from: 'file', path: server.kubeconfig },
        { env: {}, declared: declaredAccess() },
      );
      return await inspector.inspect(never);
    };
    const sound = await look();
    const nothing = { alarms: [], missingKinds: [], differingKinds: [], unpublishedNodes: [], missingRights: [] };
    expect(sound).toMatchObject(nothing);
    expect(sound.server).toMatch(/^Kubernetes v1\.\d+/);
    expect(sound.skewMs).toBe(0);

    const crds = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
    const patch = [
      { op: 'remove', path: '/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/natOutgoing' },
    ];
    const options = { body: patch, type: 'application/json-patch+json' };
    await server.call('PATCH', `${crds}/ippools.netplug.io`, options);
    expect(await look()).toMatchObject({ missingKinds: [], differingKinds: ['IPPool'] });
    await server.call('DELETE', `${crds}/ippools.netplug.io`);
    await expect.poll(look, { timeout: 60_000 }).toMatchObject({ missingKinds: ['IPPool'], differingKinds: [] });
  });

  it('names Ready nodes with an agent whose NetplugNode is missing or does not agree with the Node', async () => {
    await using server = await startOrchApiServer();
    await using store = openOrchStore({ from: 'file', path: await server.callerConfig('agent') });
    await using inspector = openOrchInspector(
      { from: 'file', path: server.kubeconfig },
      { env: {}, declared: declaredAccess() },
    );
    const names = ['good', 'missing', 'relabelled', 'recreated', 'without-agent', 'not-ready'] as const;
    const patch = async (name: string, body: object): Promise<void> => {
      await server.call('PATCH', `/api/v1/nodes/${name}/status`, { body, type: 'application/merge-patch+json' });
    };
    const ready = { status: { conditions: [{ type: 'Ready', status: 'True' }] } };
    for (const name of names) {
      await server.putNode(name);
      if (name !== 'without-agent') await store.publishNode(nodeName(name), { ipv4Address: '192.0.2.7/24' }, never);
      if (name !== 'not-ready') await patch(name, ready);
    }
    for (const name of ['missing', 'not-ready']) {
      await server.call('DELETE', `/apis/netplug.io/v3/netplugnodes/${name}`);
    }
    await server.labelNode('relabelled', { rack: '7' });
    await server.call('DELETE', '/api/v1/nodes/recreated');
    await server.putNode('recreated');
    await patch('recreated', { ...ready, metadata: { annotations: { 'netplug/IPv4Address': '192.0.2.7/24' } } });
    const { unpublishedNodes } = await inspector.inspect(never);
    expect([...unpublishedNodes].sort((a, b) => a.node.localeCompare(b.node))).toEqual([
      { node: 'missing', fault: 'it has no NetplugNode' },
      { node: 'recreated', fault: 'its NetplugNode belongs to another Node' },
      { node: 'relabelled', fault: 'its NetplugNode says something else than the Node' },
    ]);
  });
});
