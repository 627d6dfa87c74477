// Two nodes whose runtimes, agents and datastore have a bad day.
import { setTimeout as sleep } from 'node:timers/promises';
import { startLauncher } from '../../../scripts/bench/launcher.ts';
import { type SoakNode, settle, startSoakCluster } from './cluster.ts';
import type { StartDatastore } from './datastore.ts';
import { diceOf } from './dice.ts';
import { Gate } from './gate.ts';
import { Oracle } from './oracle.ts';
import type { SoakSettings } from './settings.ts';
import { collect, type Lane, type Pod, remove, step } from './runtime.ts';
import { hasOpened, injectFaults } from './faults.ts';
import { judgeAccounted, judgeEmpty, judgeLiving, type Situation } from './verdict.ts';

const LANES = 4;
const SILENT_MS = 45_000;
const PODS_PER_LANE = 11;
/** Four blocks of 16 each, for 88 pods and what the agents pre-allocate: blocks are fought for, and run out. */
const POOLS = {
  v4: ['10.65.0.0/26', { blockSize: 28 }],
  v6: ['fd65::/122', { blockSize: 124 }],
} as const;

export interface SoakOptions extends SoakSettings {
  readonly datastore: StartDatastore;
}

/** Makes so many calls while agents, clients and the datastore die. @throws an error that says which invariant is broken */
export async function expectSoundSoak({ datastore, calls, longestMs, seed }: SoakOptions): Promise<void> {
  process.stdout.write(`NETPLUG_SOAK_SEED=${String(seed)}\n`);
  await using cluster = await startSoakCluster(datastore, POOLS);
  await using scope = new AsyncDisposableStack();
  const oracle = new Oracle();
  const podsOf = new Map<SoakNode, Pod[]>();
  const lanes: Lane[] = [];
  for (const of of cluster.nodes) {
    const neighbours: Pod[] = [];
    podsOf.set(of, neighbours);
    const gate = new Gate();
    for (let lane = 0; lane < LANES; lane += 1) {
      const pods: Pod[] = [];
      for (let pod = 0; pod < PODS_PER_LANE; pod += 1) {
        const name = `${of.node.name.slice(-1)}${String(lane)}${String(pod)}`;
        pods.push({
          netns: await of.node.pod(),
          name,
          generation: 0,
          state: 'empty',
          args: '',
          isForgotten: false,
          result: undefined,
        });
      }
      neighbours.push(...pods);
      const launcher = scope.use(await startLauncher(of.node, `launcher-${String(lane)}`));
      lanes.push({
        of,
        datastore: cluster.datastore,
        launcher,
        pods,
        gate,
        dice: diceOf(seed + lanes.length + 1),
        oracle,
        neighbours,
      });
    }
  }
  const situation: Situation = { cluster, oracle, podsOf, pools: Object.values(POOLS).map(([cidr]) => cidr) };
  const report = (): string =>
    [
      ...oracle.problems.slice(0, 1).map((problem) => problem.split('\n', 1)[0]),
      `seed ${String(seed)}, ${JSON.stringify(Object.fromEntries([...oracle.counts].sort()))}`,
      ...oracle.problems,
    ].join('\n');
  const expectSound = (): void => {
    if (oracle.problems.length > 0) throw new Error(`${report()}\nlast:\n${oracle.last(100)}\n${cluster.logs()}`);
  };

  const over = new AbortController();
  const silent = sayWhenSilent(oracle);
  const faults = blamed(oracle, injectFaults({ cluster, dice: diceOf(seed), oracle }, over.signal));
  let left = calls;
  const untilMs = performance.now() + longestMs;
  const isDone = (): boolean => (left <= 0 || performance.now() > untilMs) && hasOpened({ cluster, oracle });
  const isOver = (): boolean => over.signal.aborted || isDone();
  const lives = Promise.all(
    lanes.map(async (lane) => {
      for (; oracle.problems.length === 0 && !isOver(); left -= 1) await step(lane);
      oracle.note('lane is done');
    }),
  );
  const work = blamed(oracle, lives);
  await Promise.race([work, faults, silent]).finally(() => {
    over.abort();
  });
  await Promise.race([Promise.all([work, faults]), silent]);
  expectSound();

  await settle(cluster);
  // A call that was killed may still be taken back, and a runtime calls GC later than that.
  await Promise.all(lanes.map(async (lane) => removeAll(lane, ({ state }) => state === 'open')));
  await judgeAccounted(situation);
  for (const of of cluster.nodes) while (!(await collect(lanes.find((lane) => lane.of === of)!)));
  await judgeLiving(situation);
  expectSound();

  await Promise.all(lanes.map(async (lane) => removeAll(lane, ({ state }) => state !== 'empty')));
  for (const { agent } of cluster.nodes) await agent!.stop();
  await judgeEmpty(situation);
  expectSound();
  process.stdout.write(`${report()}\n`);
}

/** Resolves when a problem was found: that nothing has happened for long. */
async function sayWhenSilent(oracle: Oracle): Promise<void> {
  while (oracle.problems.length === 0) {
    if (oracle.silentMs > SILENT_MS) oracle.blame('nothing happens any more');
    await sleep(1000, undefined, { ref: false });
  }
}

/** Waits for it; what it fails with is a problem. */
async function blamed(oracle: Oracle, work: Promise<unknown>): Promise<void> {
  await work.catch((cause: unknown) => {
    oracle.blame(String(cause));
  });
}

async function removeAll(lane: Lane, which: (pod: Pod) => boolean): Promise<void> {
  for (const pod of lane.pods) while (which(pod) && lane.oracle.problems.length < 20) await remove(lane, pod);
}
