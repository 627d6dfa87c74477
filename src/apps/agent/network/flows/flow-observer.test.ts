import { afterEach, expect, it } from 'vitest';
import { PolicyCluster, NODE } from '../../../../../test/support/policy-cluster.ts';
import { globalPolicy, podOf } from '../../../../../test/support/policy-arbitraries.ts';
import { until } from '../../../../../test/support/until.ts';
import { systemClock } from '../../../../base/clock.ts';
import { silentLog } from '../../../../base/log.ts';
import { systemRandom } from '../../../../base/random.ts';
import type { TrackedFlow } from '../../../../dataplane/flow-table.ts';
import { MemoryPolicyFilter } from '../../../../../test/support/memory/memory-policy-filter.ts';
import type { PacketReport } from '../../../../dataplane/packet-reports.ts';
import type { ShownFlows } from '../../../../model/shown-flows.ts';
import { parseAddress } from '../../../../net/address.ts';
import type { PolicyEndpoint } from '../../../../policy/resolved-policy.ts';
import { REPORT_GROUP, type RuleOrigin } from '../../../../policy/ruleset/policy-ruleset.ts';
import { idOfOrigin } from '../../../../policy/ruleset/rule-ids.ts';
import { RulesetCompiler } from '../../../../policy/ruleset/ruleset-compiler.ts';
import { FlowObserver } from './flow-observer.ts';

const SETTINGS = { node: NODE, logPrefix: 'p', endpointToHostAction: 'Drop' } as const;
const FORWARDED: RuleOrigin = { kind: 'tier', name: 'default', direction: 'ingress', isForwarded: true };
const FORWARDED_ID = idOfOrigin(FORWARDED);
const OUTSIDE = parseAddress('192.0.2.7');
const POD = parseAddress('10.65.0.1');

/** A node with the pod x/pod1, which a policy closes to all but TCP. */
class World {
  readonly filter = new MemoryPolicyFilter();
  readonly stop = new AbortController();
  readonly events: string[] = [];
  tracked: readonly TrackedFlow[] = [];
  #listener: ((report: PacketReport) => void) | undefined;
  readonly observer: FlowObserver;
  readonly endpoints: readonly PolicyEndpoint[];

  private constructor(cluster: PolicyCluster, { table, origins }: ReturnType<RulesetCompiler['compile']>) {
    this.endpoints = [...cluster.state.endpoints.values()];
    this.observer = new FlowObserver(
      {
        clock: systemClock,
        random: systemRandom,
        log: silentLog,
        reports: {
          watch: (group, onReport) => {
            this.#listener = onReport;
            return this.filter.watch(group, onReport);
          },
        },
        readCounts: async (signal) => this.filter.counts(table.name, signal),
        flowTable: () => ({ list: async () => Promise.resolve(this.tracked) }),
        hostAddresses: async () => Promise.resolve(new Set(['10.0.0.9'])),
        events: { report: async (_, { reason }) => void this.events.push(reason()) },
      },
      NODE,
      {
        state: cluster.state,
        origins: new Map([...origins, [FORWARDED_ID, FORWARDED]]),
        switchedOn: Promise.resolve(),
      },
    );
  }

  static async start(rule: object = { protocol: 'TCP' }): Promise<World> {
    const cluster = new PolicyCluster();
    cluster.putNamespace('x');
    cluster.putPod(podOf({ namespace: 'x', ordinal: 1, role: 'a', isLocal: true }));
    cluster.put(globalPolicy('g', rule));
    const ruleset = new RulesetCompiler(SETTINGS).compile(cluster.state);
    const world = new World(cluster, ruleset);
    await world.filter.apply(ruleset.table, { signal: world.stop.signal });
    return world;
  }

  run(): void {
    void this.observer.run(this.stop.signal);
  }

  report(report: PacketReport): void {
    this.#listener?.(report);
  }

  isListening(): boolean {
    try {
      this.filter.watch(REPORT_GROUP, () => undefined)[Symbol.dispose]();
      return false;
    } catch {
      return true;
    }
  }

  /** Sends a datagram to the pod, or from the pod to its node. */
  send(to: 'pod' | 'node'): void {
    const packet = { protocol: 17, ports: { source: 1000, destination: 53 }, state: 'new' } as const;
    const ends = { source: to === 'pod' ? OUTSIDE : POD, destination: to === 'pod' ? POD : parseAddress('10.0.0.9') };
    if (to === 'pod') this.filter.judge('forward', { ...packet, ...ends, outInterface: 'npl1', isToHost: false });
    else this.filter.judge('input', { ...packet, ...ends, inInterface: 'npl1', isToHost: true });
  }

  async denied(): Promise<ShownFlows> {
    return this.observer.show({ verdicts: ['denied'] });
  }
}

const worlds: World[] = [];
async function start(rule?: object): Promise<World> {
  const world = await World.start(rule);
  worlds.push(world);
  return world;
}
afterEach(() => {
  for (const world of worlds.splice(0)) world.stop.abort();
});

it('records a denied packet with pod, policies and counter, and reports it to the pod', async () => {
  const world = await start();
  world.run();
  await until(() => world.isListening(), 'it listens');
  await world.denied();
  world.send('pod');
  world.send('pod');
  const reason = 'no rule matches of GlobalNetworkPolicy g: what policies that apply do not allow is denied';
  const { flows, rules } = await world.denied();
  expect(flows).toEqual([
    expect.objectContaining({
      source: { address: '192.0.2.7' },
      destination: { address: '10.65.0.1', pod: 'x/pod1' },
      port: 53,
      count: 2,
      rule: { direction: 'ingress', reason },
    }),
  ]);
  expect(rules.map(({ packets }) => packets)).toEqual([2]);
  expect(world.events).toEqual([reason, reason]);
  expect(world.observer.standing().packets).toEqual([
    { verdict: 'denied', policy: 'none', direction: 'ingress', packets: 2 },
  ]);
});

it('names the rule to the pod, and not what the rule contains', async () => {
  const world = await start({ action: 'Deny', source: { nets: ['192.0.2.0/24'] } });
  world.run();
  await until(() => world.isListening(), 'it listens');
  await world.denied();
  world.send('pod');
  const { flows } = await world.denied();
  expect(flows).toMatchObject([{ rule: { reason: expect.stringContaining('192.0.2.0/24') } }]);
  expect(world.events).toEqual(['GlobalNetworkPolicy g, ingress[0]']);
});

it('records what a node drops of its own pods', async () => {
  const world = await start();
  world.run();
  await until(() => world.isListening(), 'it listens');
  world.send('node');
  const { flows } = await world.denied();
  expect(flows).toMatchObject([
    {
      source: { pod: 'x/pod1' },
      destination: { address: '10.0.0.9', host: NODE },
      rule: { direction: 'egress', reason: expect.stringContaining('defaultEndpointToHostAction') },
    },
  ]);
});

it('listens when another process frees the group, and again after the reports have ended', async () => {
  const world = await start();
  const other = world.filter.watch(REPORT_GROUP, () => undefined);
  world.run();
  other[Symbol.dispose]();
  await until(() => world.isListening(), 'it listens');
  world.report({ kind: 'lost', packets: 3 });
  world.report({ kind: 'ended', reason: 'the socket was closed' });
  await until(() => !world.isListening(), 'it has stopped', 60_000, 1);
  await until(() => world.isListening(), 'it listens again');
  world.send('pod');
  const { flows, lostReports } = await world.denied();
  expect([flows.length, lostReports]).toEqual([1, 3]);
});

it('does not take a host endpoint that denies forwarded packets for the pod at the end of the packet', async () => {
  const world = await start();
  world.run();
  await until(() => world.isListening(), 'it listens');
  const headers = { source: OUTSIDE, destination: POD, protocol: 6 };
  world.report({ kind: 'packet', prefix: FORWARDED_ID, headers });
  const reason = expect.stringMatching('no rule matches of the host endpoint for forwarded traffic');
  expect((await world.denied()).flows).toMatchObject([{ destination: { pod: 'x/pod1' }, rule: { reason } }]);
  expect(world.events).toEqual([]);
});

it('ignores reports of rules that it does not know', async () => {
  const world = await start();
  world.run();
  await until(() => world.isListening(), 'it listens');
  const headers = { source: OUTSIDE, destination: POD, protocol: 6 };
  world.report({ kind: 'packet', prefix: 'rule of another program', headers });
  expect((await world.denied()).flows).toEqual([]);
});

it('counts a tracked flow once while it lasts, and remembers that it was answered', async () => {
  const world = await start();
  const tuple = { source: OUTSIDE, destination: POD, protocol: 6, sourcePort: 1000, destinationPort: 80 };
  const reply = { source: POD, destination: OUTSIDE, protocol: 6, sourcePort: 80, destinationPort: 1000 };
  const flow = (handle: number, isReplied: boolean): TrackedFlow => ({
    original: tuple,
    reply,
    isReplied,
    handle: Uint8Array.of(handle),
  });
  const readings = [[flow(1, false)], [flow(1, true)], [flow(1, true), flow(2, false)]];
  const counts: unknown[] = [];
  for (world.tracked of readings) {
    const { flows } = await world.observer.show({ verdicts: ['allowed'] });
    counts.push(flows.map(({ count, isReplied, port }) => [count, isReplied, port]));
  }
  expect(counts).toEqual([[[1, false, 80]], [[1, true, 80]], [[2, true, 80]]]);
});

it('counts and lists requests as a sidecar says, by policies that apply to its pod alone', async () => {
  const world = await start({ http: { methods: ['GET'] } });
  const [endpoint] = world.endpoints;
  if (endpoint === undefined) throw new Error('there is no pod');
  const said = { method: 'DELETE', path: '/', source: '192.0.2.7', port: 80, count: 3 } as const;
  world.observer.noteRequests(endpoint, [
    { ...said, verdict: 'deny' },
    { ...said, verdict: 'allow', policy: 'GlobalNetworkPolicy g', index: 0 },
    { ...said, verdict: 'deny', policy: 'GlobalNetworkPolicy of-others', index: 0 },
  ]);
  expect(world.observer.standing().requests).toEqual([
    { verdict: 'denied', policy: 'none', count: 6 },
    { verdict: 'allowed', policy: 'GlobalNetworkPolicy g', count: 3 },
  ]);
  const { flows } = await world.observer.show({ verdicts: ['denied'] });
  expect(flows.map(({ request, rule }) => [request?.method, rule?.policy])).toEqual([['DELETE', undefined]]);
});
