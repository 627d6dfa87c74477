import { expect, it } from 'vitest';
import { nodeName } from '../../../test/support/fixtures.ts';
import { until } from '../../../test/support/until.ts';
import { systemClock, virtualClock } from '../../base/clock.ts';
import { silentLog } from '../../base/log.ts';
import { systemRandom } from '../../base/random.ts';
import { MemoryDatabase } from '../../datastore/memory/memory-database.ts';
import { openMemoryStore } from '../../datastore/memory/memory-store.ts';
import { API_VERSION } from '../../model/resource.ts';
import { NodeConditions, type NodeObservation } from './node-conditions.ts';

const never = new AbortController().signal;
const FINE: NodeObservation = { calls: [], network: [], plugin: [], pending: [], disconnections: [] };
const CUT_OFF = { network: ['routes: ENOBUFS'], disconnections: ['routes: ENOBUFS'] };
const UP = 'NetworkUnavailable=False NetplugIsUp';
const READY = 'netplug.io/NetworkReady=True NetplugServes';

/** The conditions of a node whose state the test decides, and a datastore that can become unavailable. */
function conditionsOf(clock = virtualClock()): {
  readonly conditions: NodeConditions;
  readonly database: MemoryDatabase;
  readonly report: (state?: Partial<NodeObservation>) => Promise<boolean>;
  readonly pass: (ms: number) => Promise<void>;
  /** Conditions with their reasons, by the reports since the last call. */
  readonly reports: () => readonly (readonly string[])[];
  readonly setUnavailable: (isUnavailable: boolean) => void;
} {
  const database = new MemoryDatabase();
  let [state, isDown]: [NodeObservation, boolean] = [FINE, false];
  const store = openMemoryStore(database, {
    fault: (operation) => (isDown && operation === 'reportConditions' ? { kind: 'unavailable-before' } : undefined),
  });
  const conditions = new NodeConditions(
    { clock, random: systemRandom, log: silentLog, store: () => store, observe: async () => Promise.resolve(state) },
    nodeName('a'),
  );
  return {
    conditions,
    database,
    report: async (changed = {}) => {
      state = { ...FINE, ...changed };
      return conditions.report(never);
    },
    pass: async (ms) => clock.sleep(ms, never),
    reports: () =>
      database.conditionReports
        .splice(0)
        .map((report) => report.conditions.map(({ type, status, reason }) => `${type}=${status} ${reason}`)),
    setUnavailable: (isUnavailable) => (isDown = isUnavailable),
  };
}

it('reports both conditions in one write, a failure after 30 s, and a recovery at once', async () => {
  const { report, pass, reports } = conditionsOf();
  expect(await report()).toBe(true);
  expect(reports()).toEqual([[UP, READY]]);
  expect(await report(CUT_OFF)).toBe(false);
  await pass(29_999);
  await report(CUT_OFF);
  expect(reports()).toEqual([]);
  await pass(1);
  await report(CUT_OFF);
  await report(CUT_OFF);
  const down = ['NetworkUnavailable=True NetplugIsNotReady', 'netplug.io/NetworkReady=False NetworkFailing'];
  expect(reports()).toEqual([down]);
  await report();
  expect(reports()).toEqual([[UP, READY]]);
});

it('says that the node serves no ADD, and not that it is cut off, while the runtime cannot call the plugin', async () => {
  const { report, pass, reports, database } = conditionsOf();
  const shadowed = { plugin: ['"/etc/cni/net.d/05-other.conflist" sorts before "10-netplug.conflist"'] };
  await report(shadowed);
  await pass(30_000);
  await report(shadowed);
  expect(database.conditionReports.at(-1)?.conditions.at(-1)?.message).toBe(shadowed.plugin[0]);
  expect(reports()).toEqual([[UP], [UP, 'netplug.io/NetworkReady=False PluginUnusable']]);
});

it('leaves NetworkUnavailable alone while it is not known, or that of another plugin', async () => {
  const { report, pass, reports } = conditionsOf();
  const unknown = { disconnections: undefined };
  await report(unknown);
  await report({ ...unknown, network: ['network: its process is starting'] });
  await pass(30_000);
  await report({ ...unknown, network: ['network: its process is starting'] });
  expect(reports()).toEqual([[READY], ['netplug.io/NetworkReady=False NetworkFailing']]);
});

it('waits another 30 s before it reports a failure once an unavailable datastore is back', async () => {
  const { report, pass, reports, setUnavailable } = conditionsOf();
  await report();
  await report(CUT_OFF);
  await pass(30_000);
  setUnavailable(true);
  await expect(report(CUT_OFF)).rejects.toMatchObject({ code: 'store/unavailable' });
  setUnavailable(false);
  await report(CUT_OFF);
  expect(reports()).toEqual([[UP, READY]]);
  await pass(30_000);
  await report(CUT_OFF);
  expect(reports()).toHaveLength(1);
});

it('reports again when the Node has changed, and every minute, because another program may have written the conditions', async () => {
  const { conditions, report, pass, reports } = conditionsOf();
  await report();
  await report();
  expect(reports()).toHaveLength(1);
  conditions.renew();
  await report();
  await report();
  expect(reports()).toHaveLength(1);
  await pass(59_999);
  await report();
  expect(reports()).toEqual([]);
  await pass(1);
  await report();
  expect(reports()).toEqual([[UP, READY]]);
});

it('writes at most every 10 s while only messages change', async () => {
  const { report, pass, reports } = conditionsOf();
  const failing = (count: number): Partial<NodeObservation> => ({ calls: [`${String(count)} calls wait`] });
  await report(failing(0));
  await pass(30_000);
  reports();
  for (let count = 0; count < 20; count += 1) {
    await report(failing(count));
    await pass(1000);
  }
  expect(reports()).toHaveLength(2);
});

it('reports to a Node that was deleted and registered again', async () => {
  const { conditions, database, reports } = conditionsOf(systemClock);
  const stop = new AbortController();
  const running = conditions.run(stop.signal);
  const store = openMemoryStore(database);
  await until(() => database.conditionReports.length > 0, 'it is reported');
  await store.createResource({ apiVersion: API_VERSION, kind: 'Node', metadata: { name: 'a' }, spec: {} }, never);
  await until(() => database.conditionReports.length > 1, 'it is reported to another Node');
  stop.abort();
  await running;
  expect(reports().every((each) => each.join() === [UP, READY].join())).toBe(true);
});
