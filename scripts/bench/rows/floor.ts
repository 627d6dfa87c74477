// How far the agent is from the least that the kernel and a process need: the same links by a C program that does
// nothing else, and knows no datastore.
import { type Testbed, newPods, openTestbed } from '../testbed.ts';
import { inTurn, latencyOf, measure, type Measured } from '../attach-rounds.ts';
import { buildProgram, type Batch, type Job } from '../launcher.ts';
import { type Figure, type MeasureRow, ratio } from '../report.ts';
import { quantile } from '../statistics.ts';

const PODS = 200;
const AT_ONCE = 32;
const PER_TURN = 10;
const BURSTS = 3;
const VERBS = ['ADD', 'DEL'] as const;
type Verb = (typeof VERBS)[number];

/** One of the two that are compared. */
interface Maker {
  readonly name: 'agent' | 'floor';
  /** Runs the verb for the first `count` namespaces. */
  run(verb: Verb, count: number, atOnce: number): Promise<Batch>;
}

export const measureFloor: MeasureRow = async ({ samples, candidates }) => {
  if (!candidates.includes('agent')) return {};
  await using testbed = await openTestbed({ candidates: ['agent'], namespaces: PODS });
  const [agent] = testbed.candidates;
  if (agent === undefined) throw new Error('the agent is missing');
  let pods = newPods(testbed, PODS);
  const makers: readonly Maker[] = [
    {
      name: 'agent',
      run: async (verb, count, atOnce) => {
        if (verb === 'ADD') pods = newPods(testbed, PODS);
        return testbed.call(agent, verb, { pods: pods.slice(0, count), atOnce });
      },
    },
    { name: 'floor', run: async (verb, count, atOnce) => runFloor(testbed, { verb, count, atOnce }) },
  ];
  const single = new Map<string, Measured[]>();
  const rates = new Map<string, number[]>();
  for (let round = 0; round <= Math.ceil(samples / PER_TURN); round += 1) {
    for (const maker of inTurn(makers, round)) {
      for (const verb of VERBS) {
        const measured = await measure(agent, async () => (await maker.run(verb, PER_TURN, 1)).runs);
        const own = maker.name === 'agent' ? measured : { ...measured, agentCpuMs: 0 };
        if (round > 0) addTo(single, `${verb} ${maker.name}`, own);
      }
    }
  }
  for (let round = 0; round <= BURSTS; round += 1) {
    for (const maker of inTurn(makers, round)) {
      for (const verb of VERBS) {
        const { ms } = await maker.run(verb, PODS, AT_ONCE);
        if (round > 0) addTo(rates, `${verb} ${maker.name}`, (1000 * PODS) / ms);
      }
    }
  }
  return {
    latencies: [...single].map(([key, measured]) => {
      const [verb = '', candidate = ''] = key.split(' ');
      return { what: `${verb}, link alone`, candidate, ...latencyOf(measured) };
    }),
    figures: VERBS.flatMap((verb) => figuresOf(verb, single, rates)),
  };
};

function figuresOf(
  verb: Verb,
  single: ReadonlyMap<string, readonly Measured[]>,
  rates: ReadonlyMap<string, readonly number[]>,
): readonly Figure[] {
  const p50 = (name: Maker['name']): number => latencyOf(single.get(`${verb} ${name}`) ?? []).p50Ms;
  const rate = (name: Maker['name']): number => quantile(rates.get(`${verb} ${name}`) ?? [], 0.5);
  const what = `${String(PODS)} ${verb}s, ${String(AT_ONCE)} at once`;
  return [
    ...ratio({ id: `floor.${verb}.p50`, what: `${verb} p50, agent / floor` }, p50('agent'), p50('floor')),
    { id: `floor.${verb}.rate`, what: `${what}, floor`, value: rate('floor'), unit: '/s' },
    ...ratio({ id: `floor.burst.${verb}`, what: `${what}, rate of agent / floor` }, rate('agent'), rate('floor')),
  ];
}

/** Links that go at once go as one group, which is how the kernel is quickest. */
async function runFloor(
  { launcher, namespaces }: Testbed,
  { verb, count, atOnce }: { readonly verb: Verb; readonly count: number; readonly atOnce: number },
): Promise<Batch> {
  const program = buildProgram('link-floor');
  const pods = namespaces.slice(0, count).map((netns, index) => ({ netns, link: `floor${String(index)}` }));
  const job = (...args: string[]): Job => ({ argv: [program, ...args], env: {}, stdin: '' });
  const groups = Array.from({ length: Math.ceil(count / atOnce) }, (_, group) =>
    pods.slice(group * atOnce, (group + 1) * atOnce).map(({ link }) => link),
  );
  const jobs =
    verb === 'ADD'
      ? pods.map(({ netns, link }, index) =>
          job('add', netns, link, `10.68.${String(index >> 8)}.${String(index % 256)}`),
        )
      : groups.map((links) => job('del', ...links));
  const batch = await launcher.run(jobs, { atOnce: verb === 'ADD' ? atOnce : 1 });
  const failed = batch.runs.find(({ status }) => status !== 0);
  if (failed !== undefined)
    throw new Error(`link-floor ${verb} ended with ${String(failed.status)}: ${launcher.log()}`);
  return batch;
}

function addTo<T>(lists: Map<string, T[]>, key: string, value: T): void {
  lists.set(key, [...(lists.get(key) ?? []), value]);
}
