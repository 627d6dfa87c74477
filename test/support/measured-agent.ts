// An agent, from its sources, whose turns of the event loop are measured.
import { resolve } from 'node:path';
import type { Agent } from './agent.ts';
import type { TestNode } from './node.ts';
import { describeWindows, type Figures, figuresOf } from './turn-figures.ts';
import type { Turns } from './turns.ts';
import { until } from './until.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const PROFILE = process.env['NETPLUG_CPU_PROFILE'];

/** Starts it, for `AgentOptions.command`. With NETPLUG_CPU_PROFILE it leaves a profile in that folder. */
export const MEASURED_AGENT: readonly string[] = [
  'bash',
  '-c',
  'exec -a netplug-agent "$0" "$@"',
  process.execPath,
  `--import=${ROOT}/test/support/turns.ts`,
  ...(PROFILE === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${PROFILE}`, '--cpu-prof-interval=200']),
  `${ROOT}/src/bin/main.ts`,
];

/** The turns of its event loop while the work is done. */
export async function turnsDuring(
  node: Pick<TestNode, 'exec'>,
  agent: Pick<Agent, 'pid' | 'log'>,
  work: () => Promise<void>,
): Promise<Turns> {
  const told = (): string[] =>
    agent
      .log()
      .split('\n')
      .flatMap((line) => /^TURNS (.*)/.exec(line)?.[1] ?? []);
  const before = told().length;
  await node.exec('kill', '-USR2', String(agent.pid));
  await work();
  await node.exec('kill', '-USR2', String(agent.pid));
  await until(
    () => told().length > before,
    () => `the agent tells its turns:\n${agent.log()}`,
  );
  return JSON.parse(told().at(-1) ?? '') as Turns;
}

const LEAST_WINDOWS = 3;
const MOST_WINDOWS = 12;

/**
 * Figures of the best of some windows. A neighbour on the machine makes turns longer, by its caches and interrupts; what
 * netplug does is in every window. So one that nobody disturbed is looked for, until one stays below the bounds.
 */
export async function bestFigures(bounds: Partial<Figures>, measure: () => Promise<Turns>): Promise<Figures> {
  const windows: Turns[] = [];
  const best = (): Figures => {
    const all = windows.map(figuresOf);
    const least = (of: keyof Figures): number => Math.min(...all.map((figures) => figures[of]));
    return { work: least('work'), turn: least('turn'), wait: least('wait') };
  };
  const isEnough = (): boolean => {
    const figures = best();
    return Object.entries(bounds).every(([name, bound]) => figures[name as keyof Figures] < bound);
  };
  while (windows.length < LEAST_WINDOWS || (windows.length < MOST_WINDOWS && !isEnough()))
    windows.push(await measure());
  process.stdout.write(describeWindows(windows));
  return best();
}
