// What the built tool takes for one cluster and for another, however their API servers are reached.
import { once } from 'node:events';
import { createServer, request } from 'node:http';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CLUSTER_INFORMATION_ID } from '../../src/model/cluster-information.ts';
import { RELEASE_MANIFESTS } from '../../src/install/cluster/release-manifests.ts';
import { runsHere } from '../runs.ts';
import type { Json } from '../support/node.ts';
import { startProxy } from '../support/orch-proxy.ts';
import {
  NEW,
  OLD,
  type Ran,
  requireBuild,
  runTool,
  settled,
  startUpgradableCluster,
  type UpgradableCluster,
} from '../support/upgradable-cluster.ts';

const NODES = ['node-a', 'node-b'];
const NEVER = new AbortController().signal;

let scope: AsyncDisposableStack;
let folder: string;
let north: UpgradableCluster;
let south: UpgradableCluster;
let onEtcd: UpgradableCluster;

beforeAll(async () => {
  requireBuild();
  await using starting = new AsyncDisposableStack();
  folder = await mkdtemp(join(tmpdir(), 'netplug-identity-'));
  starting.defer(async () => rm(folder, { recursive: true, force: true }));
  const [kind] = RELEASE_MANIFESTS.filter(({ datastore }) => datastore === 'kvv3');
  north = starting.use(await startUpgradableCluster({ nodes: NODES }));
  south = starting.use(await startUpgradableCluster({ nodes: NODES }));
  onEtcd = starting.use(await startUpgradableCluster({ nodes: NODES, kind: kind! }));
  scope = starting.move();
}, 240_000);
afterAll(async () => scope?.disposeAsync());

async function tool(argv: string, more: Readonly<Record<string, string>> = {}): Promise<Ran> {
  const state = join(folder, 'state');
  const env = { PATH: process.env['PATH'] ?? '', HOME: folder, NETPLUG_STATE_DIR: state, ...more };
  return runTool(argv.split(' '), env);
}

/** Writes a fleet of one wave, and returns the name of its file. */
async function fleetOf(
  ...clusters: readonly { readonly name: string; readonly kubeconfig: string }[]
): Promise<string> {
  const file = join(folder, 'fleet.yaml');
  await writeFile(file, JSON.stringify({ waves: [{ name: 'all', clusters }] }));
  return file;
}

/** A server that leads to others by the first part of the path, as proxies in front of many clusters do. */
async function startPrefixProxy(
  targets: Readonly<Record<string, string>>,
): Promise<{ readonly url: string } & AsyncDisposable> {
  const server = createServer((from, to) => {
    const [, prefix = '', path = ''] = /^\/([^/]*)(\/.*)$/.exec(from.url ?? '') ?? [];
    const { method, headers } = from;
    const target = request(new URL(path, targets[prefix]), { method, headers }, (answer) => {
      to.writeHead(answer.statusCode ?? 0, answer.headers);
      to.flushHeaders();
      answer.pipe(to);
    });
    target.on('error', () => from.socket.destroy());
    to.on('close', () => target.destroy());
    from.pipe(target);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address() as { readonly port: number };
  return {
    url: `http://127.0.0.1:${String(address.port)}`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

describe('the identity of a cluster', () => {
  it('is that of one cluster under two names, which a fleet refuses before it changes anything', async () => {
    const { server } = north;
    await using proxy = await startProxy(server, server.adminToken);
    const other = await server.kubeconfigFor(server.adminToken, { url: proxy.url });
    const clusters = [
      { name: 'north', kubeconfig: server.kubeconfig },
      { name: 'alias', kubeconfig: other },
    ];
    for (const action of ['plan', 'preflight', 'apply --yes']) {
      const ran = await tool(`upgrade fleet ${action} -f ${await fleetOf(...clusters)}`);
      expect(ran).toMatchObject({ status: 64, stdout: '' });
      expect(ran.stderr).toContain('"north" and "alias" are one cluster');
    }
    expect(north.rollout.started.every(({ release }) => release === OLD)).toBe(true);
  });

  it.runIf(runsHere('e2e/upgrade-identity: two clusters behind one proxy'))(
    'is that of two clusters behind one proxy, each with its own record and backup',
    async () => {
      await using scopeOf = new AsyncDisposableStack();
      const targets: Record<string, string> = {};
      const clusters: { name: string; kubeconfig: string }[] = [];
      for (const [name, { server }] of Object.entries({ north, south }))
        targets[name] = scopeOf.use(await startProxy(server, server.adminToken)).url;
      const proxy = scopeOf.use(await startPrefixProxy(targets));
      for (const [name, { server }] of Object.entries({ north, south })) {
        const url = `${proxy.url}/${name}`;
        clusters.push({ name, kubeconfig: await server.kubeconfigFor(server.adminToken, { url }) });
      }
      const ran = await tool(`upgrade fleet apply --yes -o json -f ${await fleetOf(...clusters)}`);
      expect(ran).toMatchObject({ status: 0 });
      expect(JSON.parse(ran.stdout).clusters.map(({ result }: Json) => result)).toEqual(['upgraded', 'upgraded']);
      const backups = await readdir(join(folder, 'state/backups'));
      expect(backups).toHaveLength(2);
      // Each goes back by its own backup, reached without the proxy.
      for (const { server } of [north, south]) {
        expect(await tool('upgrade rollback --yes', { KUBECONFIG: server.kubeconfig })).toMatchObject({ status: 0 });
        await settled(server, OLD, NODES.length);
      }
    },
    240_000,
  );

  it('is that of the backup, which another cluster does not take', async () => {
    const backup = join(folder, 'backup-of-north');
    const made = await tool(`upgrade backup --to ${backup}`, { KUBECONFIG: north.server.kubeconfig });
    expect(made).toMatchObject({ status: 0 });
    const refused = await tool(`upgrade rollback --yes --from ${backup}`, { KUBECONFIG: south.server.kubeconfig });
    expect(refused).toMatchObject({ status: 69, stdout: '' });
    expect(refused.stderr).toMatch(/the backup is of cluster [-0-9a-f]+, and this one is [-0-9a-f]+/);
    expect(
      await tool(`upgrade rollback --yes --from ${backup}`, { KUBECONFIG: north.server.kubeconfig }),
    ).toMatchObject({
      status: 0,
    });
  });

  it('is that of the records in etcd, where those of another cluster are refused', async () => {
    const { server, store } = onEtcd;
    const env = { KUBECONFIG: server.kubeconfig, KV_ENDPOINTS: server.etcdUrl };
    const cluster = (await store.findResource(CLUSTER_INFORMATION_ID, NEVER))!;
    const write = async (orchClusterUID: string): Promise<void> => {
      const { resourceVersion: _, ...metadata } = cluster.metadata;
      await store.updateResource({ ...cluster, metadata, spec: { ...cluster.spec, orchClusterUID } }, NEVER);
    };
    await write('00000000-0000-4000-8000-000000000000');
    for (const action of [
      'plan',
      'preflight',
      'apply --yes',
      'verify',
      'rollback --yes',
      `backup --to ${folder}/other`,
    ]) {
      const ran = await tool(`upgrade ${action}`, env);
      expect(ran).toMatchObject({ status: 69, stdout: '' });
      expect(ran.stderr).toContain('they are of cluster 00000000-0000-4000-8000-000000000000');
      expect(ran.stderr).toContain('netplugctl datastore accept-cluster');
    }
    expect(
      (await server.get('daemonset/netplug-node', '-n', 'netplug-system')).spec.template.spec.containers[0].image,
    ).toContain(OLD);
    const { metadata } = await server.get('namespace/kube-system');
    await write(metadata.uid);
    const plan = await tool('upgrade plan', env);
    expect(plan).toMatchObject({ status: 0, stderr: '' });
    expect(plan.stdout).toContain(`Upgrade from ${OLD} to ${NEW}`);
  });
});
