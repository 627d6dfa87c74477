// What packets between two pods of a node cost under more and more policies.
import { once } from 'node:events';
import { connect } from 'node:net';
import { PolicyCluster, type TestPod } from '../../../test/support/policy-cluster.ts';
import { PolicyHost } from '../../../test/support/policy-host.ts';
import type { TestNetns } from '../../../test/support/netns.ts';
import { within } from '../../../test/support/tcp-echo.ts';
import { measureRate, startReceiver } from '../../../test/support/traffic-rate.ts';
import { inTurn } from '../attach-rounds.ts';
import { type Figure, type MeasureRow, ratio } from '../report.ts';
import { quantile } from '../statistics.ts';

const ROUNDS = 5;
const SECONDS = 2;
const PINGS = 20_000;
const CONNECTIONS = 300;
const GIGA = 1e9;
/** They exist only as records and rules of the kernel: policies of other pods of the node select them. */
const BYSTANDERS = 20;
const NAMESPACE = 'shop';
const SERVER: TestPod = podOf('server', 1, 'nplserver');
const CLIENT: TestPod = podOf('client', 2, 'nplclient');

interface Level {
  readonly name: string;
  readonly policies: number;
  /** Whether all of them select the server, so that its first packets pass through all. */
  readonly areStacked: boolean;
}

/** The first of two is what the other is compared with. */
const ONE: Level = { name: '1 policy', policies: 1, areStacked: false };
const LEVELS: readonly Level[] = [
  { name: 'no policy', policies: 0, areStacked: false },
  ONE,
  { name: '100 policies', policies: 100, areStacked: false },
  { name: '1000 policies', policies: 1000, areStacked: false },
  { name: '1000 policies of one pod', policies: 1000, areStacked: true },
];

type Measure = 'rate' | 'roundTrip' | 'connection';

const MEASURES: Readonly<Record<Measure, { readonly what: string; readonly unit: string }>> = {
  rate: { what: 'TCP between two pods', unit: 'Gbit/s' },
  roundTrip: { what: 'round trip between two pods', unit: 'µs' },
  connection: { what: 'new connection between two pods, p50', unit: 'µs' },
};

/** The median over the rounds counts. */
export const measurePolicyPackets: MeasureRow = async () => {
  await using scope = new AsyncDisposableStack();
  const cluster = new PolicyCluster();
  const host = scope.use(await PolicyHost.start(cluster));
  cluster.putNamespace(NAMESPACE);
  for (const pod of [SERVER, CLIENT]) await host.addPod(pod);
  for (let index = 0; index < BYSTANDERS; index += 1)
    cluster.putPod(podOf(bystander(index), 10 + index, `nplbystander${String(index)}`));
  const [from, to] = [host.pod(`${NAMESPACE}/client`), host.pod(`${NAMESPACE}/server`)];
  scope.use(await startReceiver({ netns: to, name: 'server' }));
  const address = SERVER.addresses[0] ?? '';
  const samples = new Map<string, Record<Measure, number[]>>(
    LEVELS.map(({ name }) => [name, { rate: [], roundTrip: [], connection: [] }]),
  );
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const level of inTurn(LEVELS, round)) {
      setPolicies(cluster, level);
      await host.enforce();
      const of = samples.get(level.name);
      of?.rate.push((await measureRate({ netns: from }, { address, seconds: SECONDS, streams: 1 })) / GIGA);
      of?.roundTrip.push(await roundTripUs(from, address));
      of?.connection.push(await connectionUs(from, address));
    }
  }
  return { figures: figuresOf(samples) };
};

function bystander(index: number): string {
  return `bystander-${String(index)}`;
}

function podOf(name: string, ordinal: number, interfaceName: string): TestPod {
  const addresses = [`10.67.0.${String(ordinal)}`, `fd00:67::${ordinal.toString(16)}`];
  return { namespace: NAMESPACE, name, addresses, interfaceName };
}

function setPolicies(cluster: PolicyCluster, { policies, areStacked }: Level): void {
  const most = Math.max(...LEVELS.map((level) => level.policies));
  for (let index = 0; index < most; index += 1) {
    const name = `p${String(index).padStart(4, '0')}`;
    if (index >= policies) {
      cluster.removePolicy({ namespace: NAMESPACE, name });
      continue;
    }
    // The last one allows the client; it is the only one of the server unless they are stacked.
    const isOpen = index === policies - 1;
    const pod = isOpen || areStacked ? 'server' : bystander(index % BYSTANDERS);
    const peer = isOpen ? 'client' : `peer-${String(index)}`;
    const ingress = [{ from: [{ podSelector: { matchLabels: { pod: peer } } }] }];
    cluster.putPolicy({ namespace: NAMESPACE, name, spec: { podSelector: { matchLabels: { pod } }, ingress } });
  }
}

async function roundTripUs(from: TestNetns, address: string): Promise<number> {
  const told = await from.exec('ping', '-n', '-q', '-A', '-c', String(PINGS), address);
  // It shows single times in whole microseconds only.
  const allMs = /, 0% packet loss, time (\d+)ms/.exec(told)?.[1];
  if (allMs === undefined) throw new Error(`ping says ${told}`);
  return (Number(allMs) * 1000) / PINGS;
}

/** One after the other. */
async function connectionUs(from: TestNetns, address: string): Promise<number> {
  const times: number[] = [];
  await within(from, async () => {
    while (times.length < CONNECTIONS) {
      const startMs = performance.now();
      const socket = connect({ host: address, port: 80 });
      await once(socket, 'connect');
      times.push((performance.now() - startMs) * 1000);
      socket.resetAndDestroy();
    }
  });
  return quantile(times, 0.5);
}

function figuresOf(samples: ReadonlyMap<string, Readonly<Record<Measure, readonly number[]>>>): Figure[] {
  const median = (level: Level, measure: Measure): number => quantile(samples.get(level.name)?.[measure] ?? [], 0.5);
  const measures = Object.entries(MEASURES) as [Measure, (typeof MEASURES)[Measure]][];
  return measures.flatMap(([measure, { what, unit }]) =>
    LEVELS.flatMap((level) => {
      const id = `policy.${measure}.${level.name}`;
      const value = median(level, measure);
      const shown = `${what}, ${level.name}`;
      return [
        { id: `${id}.value`, what: shown, value, unit },
        ...(level === ONE ? [] : ratio({ id, what: `${shown} / ${ONE.name}` }, value, median(ONE, measure))),
      ];
    }),
  );
}
