import { afterAll, beforeAll, expect, it } from 'vitest';
import { NodeConditions, type NodeObservation } from '../../src/apps/agent/node-conditions.ts';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import { systemRandom } from '../../src/base/random.ts';
import { openOrchStore } from '../../src/datastore/orch/orch-store.ts';
import type { Store } from '../../src/datastore/store.ts';
import { nodeName } from '../support/fixtures.ts';
import type { Json } from '../support/node.ts';
import { type OrchApiServer, startOrchApiServer } from '../support/orch-datastore.ts';
import { until } from '../support/until.ts';

const FINE: NodeObservation = { calls: [], network: [], plugin: [], pending: [], disconnections: [] };
const GOOD = ['NetworkUnavailable=False', 'netplug.io/NetworkReady=True'];

let server: OrchApiServer;
let store: Store;
let aheadMs = 0;
let observed: NodeObservation = FINE;
const stop = new AbortController();
let running: Promise<void>;

beforeAll(async () => {
  server = await startOrchApiServer();
  await server.empty();
  await server.putNode('n1');
  // With the rights that the agent has.
  store = openOrchStore({ from: 'file', path: await server.callerConfig('agent') });
  const clock = { ...systemClock, monotonic: () => systemClock.monotonic() + aheadMs };
  const ports = { clock, random: systemRandom, log: silentLog, store: () => store };
  running = new NodeConditions({ ...ports, observe: async () => Promise.resolve(observed) }, nodeName('n1')).run(
    stop.signal,
  );
});
afterAll(async () => {
  stop.abort();
  await running;
  await store?.[Symbol.asyncDispose]();
  await server?.[Symbol.asyncDispose]();
});

const conditions = async (): Promise<readonly string[]> => {
  const { status } = await server.call('GET', '/api/v1/nodes/n1');
  return (status?.conditions ?? []).map((each: Json) => `${each.type}=${each.status}`).sort();
};
const become = async (wanted: readonly string[], what: string): Promise<void> =>
  until(async () => (await conditions()).join() === wanted.join(), what);

it('writes both conditions of its Node, and both again once that was deleted and registered again', async () => {
  const uid = async (): Promise<string> => (await server.call('GET', '/api/v1/nodes/n1')).metadata.uid;
  await become(GOOD, 'both are written');
  const before = await uid();
  await server.call('DELETE', '/api/v1/nodes/n1');
  await server.putNode('n1');
  await become(GOOD, 'another Node has both');
  expect(await uid()).not.toBe(before);
});

it('writes within a minute what another program has turned', async () => {
  const turned = [
    { type: 'NetworkUnavailable', status: 'True', reason: 'Other' },
    { type: 'netplug.io/NetworkReady', status: 'False', reason: 'Other' },
  ];
  await server.call('PATCH', '/api/v1/nodes/n1/status', {
    type: 'application/strategic-merge-patch+json',
    body: { status: { conditions: turned } },
  });
  expect(await conditions()).toEqual(['NetworkUnavailable=True', 'netplug.io/NetworkReady=False']);
  aheadMs += 60_000;
  await become(GOOD, 'both are as they were');
});

it('says after 30 s that the node serves no ADD, and at once that it does again', async () => {
  observed = { ...FINE, plugin: ['"05-other.conflist" sorts before "10-netplug.conflist"'] };
  // It looks every five seconds while nothing is wrong.
  await systemClock.sleep(6000, stop.signal);
  expect(await conditions()).toEqual(GOOD);
  aheadMs += 30_000;
  await become(['NetworkUnavailable=False', 'netplug.io/NetworkReady=False'], 'it is said');
  const { status } = await server.call('GET', '/api/v1/nodes/n1');
  expect(status.conditions).toContainEqual(
    expect.objectContaining({ reason: 'PluginUnusable', message: expect.stringContaining('05-other.conflist') }),
  );
  observed = FINE;
  await become(GOOD, 'so is its end');
});
