// The controllers do all their work with exactly the rights of their roles, and list and watch each kind once.
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openKvStore } from '../../src/datastore/kv/kv-store.ts';
import type { RoleName } from '../../src/install/cluster/rights/role-table.ts';
import { rightsOf } from '../../src/install/cluster/rights/roles.ts';
import { markOf } from '../../src/model/ip-pool-status.ts';
import { describeRight } from '../../src/model/right.ts';
import { openOrchStore } from '../../src/datastore/orch/orch-store.ts';
import { fromPod } from '../../src/model/from-kubernetes/pod.ts';
import type { Store } from '../../src/datastore/store.ts';
import { runsHere } from '../runs.ts';
import { type Audit, newAudit } from '../support/audit.ts';
import { holdAddress } from '../support/held-address.ts';
import { launchControllers, type Replica } from '../support/controllers.ts';
import { startEtcd } from '../support/etcd.ts';
import { nodeName, nodeOf, poolOf } from '../support/fixtures.ts';
import { type OrchApiServer, startOrchApiServer } from '../support/orch-datastore.ts';
import { until } from '../support/until.ts';

const FOREVER = new AbortController().signal;
const ACCOUNT = 'netplug-orch-controllers';
const LEASES = 'leases.coordination.k8s.io';

/** Rights of the role for the Lease that a leader does not use where the lease is a key of etcd. */
const OF_CANDIDATES = [`list ${LEASES}`, `watch ${LEASES}`];

/** Read when the response to a write was lost, to see whether it was carried out. */
const AFTER_LOST_RESPONSE = 'get ipblocks.netplug.io';

describe.each(runsHere('e2e/controllers-rights: on kv') ? (['kv', 'orch'] as const) : (['orch'] as const))(
  'the controllers on %s',
  (type) => {
    const scope = new AsyncDisposableStack();
    let server: OrchApiServer;
    let audit: Audit;
    let store: Store;
    let replica: Replica;

    beforeAll(async () => {
      const dir = await mkdtemp(join(tmpdir(), 'netplug-controllers-rights-'));
      scope.defer(async () => rm(dir, { recursive: true, force: true }));
      audit = await newAudit(dir, 'netplug-system');
      server = scope.use(await startOrchApiServer({ flags: audit.flags }));
      await server.apply(await readFile(join(import.meta.dirname, '../../manifests/rbac.yaml'), 'utf8'));
      const etcdUrl = type === 'kv' ? scope.use(await startEtcd()).url : undefined;
      store = scope.use(
        etcdUrl === undefined
          ? openOrchStore({ from: 'file', path: server.kubeconfig })
          : openKvStore({
              endpoints: { from: 'list', urls: [etcdUrl] },
              keyFile: undefined,
              certFile: undefined,
              caCertFile: undefined,
            }),
      );
      await store.createResource(poolOf('pods', '10.64.0.0/24', { blockSize: 29 }), FOREVER);
      const node = { hostEndpoint: { autoCreate: 'Enabled' as const }, leakGracePeriod: '2s', reconcilerPeriod: '2s' };
      await store.createResource(
        {
          apiVersion: 'netplug.io/v3',
          kind: 'ControllersConfiguration',
          metadata: { name: 'default' },
          spec: { controllers: { node } },
        },
        FOREVER,
      );
      const kubeconfig = await server.kubeconfigFor(await server.tokenFor(`netplug-system/${ACCOUNT}`));
      const places = { kubeconfig, ...(etcdUrl === undefined ? {} : { etcdUrl }) };
      replica = scope.use(await launchControllers('one', places, { NETPLUG_NAMESPACE: 'netplug-system' }));
      await until(
        async () => replica.isLeading(),
        () => `it leads:\n${replica.log()}`,
      );
    }, 300_000);
    afterAll(async () => scope.disposeAsync());

    const find = async (kind: 'Profile' | 'HostEndpoint' | 'Node', name: string) =>
      store.findResource({ kind, name }, FOREVER);
    const released = async (): Promise<number> =>
      (await replica.metric('netplug_controllers_released_addresses_total')) ?? 0;

    /** Makes everything that the controllers have work with, and removes it again. */
    async function work(): Promise<void> {
      await server.putNode('n1');
      await server.kubectl(
        'patch',
        'node',
        'n1',
        '--subresource=status',
        '--type=merge',
        `--patch=${JSON.stringify({ status: { conditions: [{ type: 'Ready', status: 'Unknown' }] } })}`,
      );
      await server.kubectl('taint', 'node', 'n1', 'node.kubernetes.io/out-of-service=nodeshutdown:NoExecute');
      if (type === 'kv') await store.createResource(nodeOf('n1'), FOREVER);
      await store.createResource(poolOf('services', '10.96.0.0/24'), FOREVER);
      const marked = async (): Promise<unknown> =>
        markOf((await store.findResource({ kind: 'IPPool', name: 'services' }, FOREVER))?.status);
      await until(
        async () => (await marked()) !== undefined,
        () => `the pool over addresses of Services is marked:\n${replica.log()}`,
      );
      await server.kubectl('create', 'namespace', 'shop');
      await server.kubectl('create', 'serviceaccount', 'till', '-n', 'shop');
      const policy = {
        apiVersion: 'networking.k8s.io/v1',
        kind: 'NetworkPolicy',
        metadata: { name: 'web', namespace: 'shop' },
      };
      await server.apply([{ ...policy, spec: { podSelector: {} } }]);
      await until(
        async () => (await find('HostEndpoint', 'n1-auto-hep')) !== undefined,
        () => `the endpoint is made:\n${replica.log()}`,
      );
      await server.kubectl('label', 'node', 'n1', 'zone=a');
      const zone = async (): Promise<string | undefined> =>
        (await find('HostEndpoint', 'n1-auto-hep'))?.metadata.labels?.['zone'];
      await until(async () => (await zone()) === 'a', 'the endpoint has the label');
      const uid = await server.putPod({ namespace: 'shop', name: 'web-1', node: 'n1' });
      await holdAddress(store, { container: 'c1', node: 'n1', pod: { namespace: 'shop', name: 'web-1', uid } });
      const { value } = fromPod(await server.call('GET', '/api/v1/namespaces/shop/pods/web-1'));
      if (value === undefined) throw new Error('the pod has no endpoint');
      const endpoint = { ...value, spec: { ...value.spec, network: 'net', containerID: 'c1' } };
      await store.commit([{ kind: 'put-endpoint', endpoint }], FOREVER);
      await server.kubectl('label', 'pod', 'web-1', '-n', 'shop', 'app=web');
      const recorded = async (): Promise<unknown> =>
        (await store.listEndpoints(nodeName('n1'), FOREVER)).endpoints[0]?.value.metadata.labels?.['app'];
      await until(async () => (await recorded()) === 'web', 'the endpoint has the label of the pod');
      await holdAddress(store, { container: 'c2', node: 'n1', pod: { namespace: 'shop', name: 'gone', uid: 'u2' } });
      await until(
        async () => (await released()) === 1,
        () => `the address is released:\n${replica.log()}`,
      );
      if (type === 'kv') {
        const policies = async () => (await store.listResources('NetworkPolicy', FOREVER)).resources.length;
        await until(async () => (await policies()) === 1, 'the policy is copied');
        await until(async () => (await find('Profile', 'ksa.shop.till')) !== undefined, 'the account is copied');
        await server.kubectl('delete', 'networkpolicy/web', 'serviceaccount/till', '-n', 'shop');
        await until(async () => (await policies()) === 0, 'the copy of the policy is gone');
        await until(async () => (await find('Profile', 'ksa.shop.till')) === undefined, 'that of the account is gone');
        // No controller finalizes it, so that it must go for good at once.
        await server.kubectl('create', 'namespace', 'empty');
        await until(async () => (await find('Profile', 'kns.empty')) !== undefined, 'the namespace is copied');
        await server.call('DELETE', '/api/v1/namespaces/empty');
        await server.call('PUT', '/api/v1/namespaces/empty/finalize', {
          body: { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'empty' }, spec: { finalizers: [] } },
        });
        await until(async () => (await find('Profile', 'kns.empty')) === undefined, 'its profile is gone');
      }
      await server.kubectl('delete', 'pod', 'web-1', '-n', 'shop', '--force', '--grace-period=0');
      await server.kubectl('delete', 'node', 'n1');
      await until(async () => (await find('HostEndpoint', 'n1-auto-hep')) === undefined, 'the endpoint is gone');
      await until(
        async () => (await store.listBlocks(FOREVER)).blocks.length === 0,
        () => `the block is released:\n${replica.log()}`,
      );
      const id = { kind: 'ClusterInformation', name: 'default' } as const;
      const cluster = await store.findResource(id, FOREVER);
      await store.deleteResource(id, FOREVER);
      await until(async () => (await store.findResource(id, FOREVER)) !== undefined, 'the ClusterInformation is back');
      const { resourceVersion: _, ...metadata } = cluster!.metadata;
      await store.updateResource(
        { ...cluster!, metadata, spec: { ...cluster!.spec, netplugVersion: 'v3.1.0' } },
        FOREVER,
      );
      await until(
        async () => (await store.findResource(id, FOREVER))?.spec.netplugVersion === cluster!.spec.netplugVersion,
        'it has the release of the controllers again',
      );
    }

    it('list and watch each kind at most once, until they have work', async () => {
      const passes = async (): Promise<number> =>
        (await replica.metric('netplug_controllers_reconciles_total{controller="node-addresses",outcome="ok"}')) ?? 0;
      await until(
        async () => (await passes()) > 5,
        () => `addresses are examined:\n${replica.log()}`,
      );
      const { counts } = await audit.of(ACCOUNT);
      const own = [...counts].filter(([right]) => !right.endsWith(LEASES));
      const watches = own.filter(([right]) => right.startsWith('watch '));
      expect(watches.length).toBeGreaterThan(4);
      expect(watches.filter(([, count]) => count > 1)).toEqual([]);
      const followed = new Set(watches.map(([right]) => right.replace('watch ', 'list ')));
      // The first run reads these, before what is followed beside the feeds begins.
      const mostOf = (right: string): number => (right === 'list servicecidrs.networking.k8s.io' ? 2 : 1);
      expect(own.filter(([right, count]) => followed.has(right) && count > mostOf(right))).toEqual([]);
    });

    it('use every right of their roles and request nothing else [auth-rbac]', async () => {
      await work();
      const roles: readonly RoleName[] = [
        ACCOUNT,
        `${ACCOUNT}-lease`,
        type === 'orch' ? `${ACCOUNT}-datastore` : `${ACCOUNT}-mirror`,
      ];
      const granted = new Set(rightsOf(roles).map(describeRight));
      if (type === 'kv') {
        for (const right of OF_CANDIDATES) granted.delete(right);
        // It writes the Lease once in 30 s, and at the end.
        await replica.stop();
      } else {
        // The next candidate waits for the lease, with a watch.
        const second = scope.use(
          await launchControllers(
            'two',
            { kubeconfig: await server.kubeconfigFor(await server.tokenFor(`netplug-system/${ACCOUNT}`)) },
            { NETPLUG_NAMESPACE: 'netplug-system' },
          ),
        );
        await second.ready();
        const hasWatched = async (): Promise<boolean> => (await audit.of(ACCOUNT)).allowed.has(`watch ${LEASES}`);
        await until(hasWatched, 'the second candidate watches the lease');
      }
      const asked = await audit.of(ACCOUNT);
      expect([...asked.refused]).toEqual([]);
      const usual = (rights: ReadonlySet<string>): readonly string[] =>
        [...rights].filter((right) => right !== AFTER_LOST_RESPONSE).sort();
      expect(usual(asked.allowed)).toEqual(usual(granted));
    });
  },
);
