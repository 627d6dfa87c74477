// Marks of pools over networks in use, with a real API server and the rights of the shipped roles.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createControllerMetrics } from '../../src/apps/controllers/metrics.ts';
import { poolMarkController } from '../../src/apps/controllers/node/mark-pools.ts';
import { ControllerRun } from '../../src/apps/controllers/run-controllers.ts';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import { systemRandom } from '../../src/base/random.ts';
import { controllersSettings } from '../../src/config/controllers-settings.ts';
import { openOrchStore } from '../../src/datastore/orch/orch-store.ts';
import type { Store } from '../../src/datastore/store.ts';
import { OrchApi } from '../../src/kube/orch-api.ts';
import { markOf, overlapStatus } from '../../src/model/ip-pool-status.ts';
import { nodeName, poolOf } from '../support/fixtures.ts';
import { IpamBench, requestOf } from '../support/ipam-bench.ts';
import { type OrchApiServer, startOrchApiServer } from '../support/orch-datastore.ts';
import { until } from '../support/until.ts';
import { assign } from '../../src/ipam/assign.ts';

const never = new AbortController().signal;
const scope = new AsyncDisposableStack();
let server: OrchApiServer;
let tool: Store;
let plugin: Store;

beforeAll(async () => {
  server = scope.use(await startOrchApiServer());
  const open = async (caller: 'controllers' | 'limited admin tool' | 'plugin'): Promise<Store> =>
    scope.use(openOrchStore({ from: 'file', path: await server.callerConfig(caller) }));
  tool = await open('limited admin tool');
  plugin = await open('plugin');
  const store = await open('controllers');
  const api = scope.use(new OrchApi({ from: 'file', path: await server.callerConfig('controllers') }));
  const { node: settings } = controllersSettings({}, 'orch');
  const confirm = async (): Promise<void> => Promise.resolve();
  const run = new ControllerRun(
    {
      clock: systemClock,
      random: systemRandom,
      log: silentLog,
      store,
      api,
      metrics: createControllerMetrics(),
      confirmCluster: confirm,
      confirmUnlocked: confirm,
      followed: { datastore: store, orchestrator: store },
    },
    [{ controller: poolMarkController(settings), periodMs: 3_600_000 }],
  );
  const stop = new AbortController();
  const ended = run.run(stop.signal);
  scope.defer(async () => {
    stop.abort();
    await ended;
  });
});
afterAll(async () => scope.disposeAsync());

async function markBecomes(name: string, message: string | undefined): Promise<void> {
  let found: string | undefined;
  await until(
    async () => {
      found = markOf((await tool.findResource({ kind: 'IPPool', name }, never))?.status)?.message;
      return found === message;
    },
    () => `the mark of "${name}" is ${String(message)}, not ${String(found)}`,
  );
  expect(found).toBe(message);
}

describe('the mark of a pool on the API', () => {
  it('is set for the ranges of Services that the API server has, and for one that is added later', async () => {
    await tool.createResource(poolOf('services', '10.96.0.0/14'), never);
    await tool.createResource(poolOf('beside', '10.120.0.0/20'), never);
    await markBecomes('services', 'it overlaps 10.96.0.0/16, a range of Services');
    await markBecomes('beside', undefined);
    // Over by then is the run that the mark itself causes: nothing but the new range is a reason for another one.
    await systemClock.sleep(1000, never);
    await server.apply([
      {
        apiVersion: 'networking.k8s.io/v1',
        kind: 'ServiceCIDR',
        metadata: { name: 'more' },
        spec: { cidrs: ['10.120.0.0/24'] },
      },
    ]);
    scope.defer(async () => {
      await server.kubectl('delete', 'servicecidr', 'more', '--wait=false');
    });
    await markBecomes('beside', 'it overlaps 10.120.0.0/24, a range of Services');
    expect(await server.kubectl('get', 'ippools')).toMatch(/services +10\.96\.0\.0\/14 +all\(\) +CIDROverlap /);
  });

  it('comes and goes with a Node, and keeps the plugin from assigning', async () => {
    await tool.createResource(poolOf('pods', '10.50.0.0/16'), never);
    await server.putNode('late');
    const addresses = JSON.stringify({ status: { addresses: [{ type: 'InternalIP', address: '10.50.7.7' }] } });
    await server.kubectl('patch', 'node', 'late', '--subresource=status', '--type=merge', `--patch=${addresses}`);
    await markBecomes('pods', 'it overlaps 10.50.7.7/32, the address of node "late"');
    const ports = { ...new IpamBench().ports(), store: plugin };
    const add = async (): Promise<unknown> =>
      assign(ports, requestOf('c1', { node: 'late', pools: ['pods'] }), { signal: never, cleanupSignal: never });
    await expect(add()).rejects.toMatchObject({
      code: 'ipam/pool-unusable',
      message: expect.stringContaining('the address of node "late", as the controllers have found'),
    });
    await server.kubectl('annotate', 'node', 'late', 'netplug/IPv4Address=10.50.7.7/8');
    await markBecomes('pods', 'it overlaps 10.0.0.0/8, the network of node "late"');
    await server.kubectl('delete', 'node', 'late');
    await markBecomes('pods', undefined);
    await server.putNode('late');
    expect(await plugin.readNodeView(nodeName('late'), undefined, never)).toMatchObject({ owned: [] });
    expect(await add()).toHaveLength(1);
  });

  it('is written by no user of netplugctl', async () => {
    await tool.createResource(poolOf('mine', '10.51.0.0/16'), never);
    const pool = await tool.findResource({ kind: 'IPPool', name: 'mine' }, never);
    const version = { name: 'mine', resourceVersion: pool?.metadata.resourceVersion ?? '' };
    await expect(
      tool.setPoolStatus(version, overlapStatus('nothing', '2026-01-01T00:00:00Z'), never),
    ).rejects.toMatchObject({ code: 'store/refused' });
  });
});
