// Facts about the whole cluster, on both datastores: its information, releases of agents, and pools that run full.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Replica } from '../support/controllers.ts';
import { openControllersScene } from '../support/controllers-scene.ts';
import { CTL_DATASTORES, type CtlDatastore } from '../support/ctl-datastores.ts';
import { nodeOf, poolOf } from '../support/fixtures.ts';
import { holdAddress } from '../support/held-address.ts';
import type { ApiServer } from '../support/kube.ts';
import type { Json } from '../support/node.ts';
import { until } from '../support/until.ts';

const FOREVER = new AbortController().signal;
const CLUSTER = { kind: 'ClusterInformation', name: 'default' } as const;

describe.each(CTL_DATASTORES)('the controllers on $type', ({ type, start }) => {
  const scope = new AsyncDisposableStack();
  let datastore: CtlDatastore;
  let api: ApiServer;
  let replica: Replica;

  beforeAll(async () => {
    const scene = await openControllersScene({ type, start }, scope);
    ({ datastore, api } = scene);
    await datastore.store.createResource(poolOf('small', '10.64.0.0/28', { blockSize: 29 }), FOREVER);
    await datastore.store.createResource(
      {
        apiVersion: 'netplug.io/v3',
        kind: 'ControllersConfiguration',
        metadata: { name: 'default' },
        spec: { controllers: { node: { reconcilerPeriod: '1s' } } },
      },
      FOREVER,
    );
    replica = await scene.launchLeader();
  }, 300_000);
  afterAll(async () => scope.disposeAsync());

  const metric = async (series: string): Promise<number | undefined> => replica.metric(`netplug_controllers_${series}`);
  const cluster = async () => (await datastore.store.findResource(CLUSTER, FOREVER))?.spec;

  /** As the agent of the node publishes its release. */
  async function putNode(name: string, version: string): Promise<void> {
    const node = { apiVersion: 'v1', kind: 'Node', metadata: { name, annotations: { 'netplug/Version': version } } };
    await api.apply([node]);
    if (type === 'kv')
      await datastore.store.createResource({ ...nodeOf(name), spec: { netplugVersion: version } }, FOREVER);
  }

  it('make the ClusterInformation, which follows the newest release, and warn of agents that are older', async () => {
    await until(
      async () => (await cluster())?.netplugVersion === 'v3.27.0',
      () => `it is made:\n${replica.log()}`,
    );
    const { clusterGUID } = (await cluster())!;
    expect(clusterGUID).toMatch(/^[0-9a-f]{32}$/);
    await putNode('n1', 'v3.26.4');
    await until(async () => (await metric('agents{version="v3.26.4"}')) === 1, 'the agent is counted');
    const warning = 'the agent of node n1 is of release v3.26.4, and v3.27.0 runs in the cluster';
    await until(() => replica.log().includes(warning), 'the older agent is logged');
    await putNode('n2', 'v3.28.0');
    await until(async () => (await cluster())?.netplugVersion === 'v3.28.0', 'it has the newest release');
    await until(async () => (await metric('problems{controller="node-versions"}')) === 2, 'both agents are reported');
    const shown = (await datastore.run(['get', 'nodes', '-o', 'wide'])).stdout;
    expect(shown).toMatch(/n1 .*v3\.26\.4/);
    await datastore.store.deleteResource(CLUSTER, FOREVER);
    await until(
      async () => (await cluster())?.clusterGUID === clusterGUID,
      'it is restored with the id of the cluster',
    );
  });

  it('report a pool before it is full, once, by metric and event', async () => {
    await until(async () => (await metric('pool_addresses{pool="small"}')) === 16, 'the pool is measured');
    const events = async (): Promise<readonly Json[]> =>
      (await api.get('events', '-n', 'default')).items.filter(({ reason }: Json) => reason === 'NetplugPoolNearlyFull');
    for (let index = 0; index < 14; index += 1)
      await holdAddress(datastore.store, { container: `c${String(index)}`, node: 'n1' });
    await until(async () => (await metric('pool_free_addresses{pool="small"}')) === 2, 'the addresses are counted');
    expect(await metric('problems{controller="node-pools"}')).toBe(0);
    await holdAddress(datastore.store, { container: 'c14', node: 'n1' });
    await until(
      async () => (await events()).length === 1,
      () => `the event is there:\n${replica.log()}`,
    );
    await until(async () => (await metric('problems{controller="node-pools"}')) === 1, 'the pool is reported');
    const [event] = await events();
    expect(event.involvedObject).toMatchObject({ kind: 'IPPool', name: 'small' });
    expect(event.message).toContain('1 of 16 addresses are free');
    await holdAddress(datastore.store, { container: 'c15', node: 'n1' });
    await until(async () => (await metric('pool_full_days{pool="small"}')) === 0, 'the pool is full');
    expect(await events()).toHaveLength(1);
    await datastore.store.createResource(poolOf('large', '10.65.0.0/24'), FOREVER);
    await until(async () => (await metric('pool_free_addresses{pool="large"}')) === 256, 'a new pool is measured');
  });
});
