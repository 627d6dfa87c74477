// An agent, from its sources, whose turns of the event loop are measured.
import { resolve } from 'node:path';
import type { Agent } from './agent.ts';
import type { TestNode } from './node.ts';
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
  const turns = JSON.parse(told().at(-1) ?? '') as Turns;
  process.stdout.write(`of ${String(turns.count)} turns the longest: ${textOf(turns.longest)}; `);
  process.stdout.write(`pauses for garbage collection: ${textOf(turns.pauses)}\n`);
  return turns;
}

/**
 * The longest turn of the best of so many windows. A neighbour on the machine makes turns longer, by its caches and
 * interrupts; what netplug does is in every window. So one that nobody disturbed is looked for.
 */
export async function longestTurn(
  { windows, enoughMs }: { readonly windows: number; readonly enoughMs: number },
  measure: () => Promise<Turns>,
): Promise<number> {
  let best = Number.POSITIVE_INFINITY;
  for (let window = 1; window <= windows && best >= enoughMs; window += 1)
    best = Math.min(best, (await measure()).longest[0] ?? 0);
  return best;
}

function textOf(times: readonly number[]): string {
  return times.map((ms) => ms.toFixed(1)).join(' ');
}
