// What an agent inside a node has used so far, with its network process.
import type { TestNode } from '../../test/support/node.ts';

type UsedNode = Pick<TestNode, 'exec' | 'run'>;

/** User and system time of all its threads, in nanoseconds at their source: /proc/PID/stat counts in steps of 10 ms. */
export async function cpuMsOf(node: UsedNode, pid: number): Promise<number> {
  return sumOver(await processesOf(node, pid), async (each) => cpuMsOfOne(node, each));
}

async function cpuMsOfOne(node: UsedNode, pid: number): Promise<number> {
  return cpuMsIn(await node.exec('sh', '-c', `cat /proc/${String(pid)}/task/*/schedstat`));
}

/** Returns the time that `schedstat` of threads says, a line each. */
export function cpuMsIn(threads: string): number {
  const nanoseconds = threads.split('\n').map((line) => Number(line.split(' ')[0]));
  return nanoseconds.reduce((sum, each) => sum + each, 0) / 1e6;
}

export interface Memory {
  /** Pages that both processes share count twice. */
  readonly rssMb: number;
  /** With every shared page counted for its share. */
  readonly pssMb: number;
}

export async function memoryOf(node: UsedNode, pid: number): Promise<Memory> {
  const all = await processesOf(node, pid);
  return {
    rssMb: await sumOver(all, async (each) => memoryMbOf(node, each, 'Rss')),
    pssMb: await sumOver(all, async (each) => memoryMbOf(node, each, 'Pss')),
  };
}

/** Returns what one process takes. */
export async function memoryMbOf(node: UsedNode, pid: number, field: 'Rss' | 'Pss'): Promise<number> {
  const rollup = await node.exec('cat', `/proc/${String(pid)}/smaps_rollup`);
  const kb = new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(rollup)?.[1];
  if (kb === undefined) throw new Error(`smaps_rollup does not say ${field}`);
  return Number(kb) / 1024;
}

/** The agent, and its network process where it has one. */
async function processesOf(node: UsedNode, pid: number): Promise<readonly number[]> {
  return [pid, ...(await networkProcessesOf(node, pid))];
}

/** Returns the network process of the agent, if it has one. */
export async function networkProcessesOf(node: UsedNode, pid: number): Promise<readonly number[]> {
  const { stdout } = await node.run(['pgrep', '--parent', String(pid), '--full', '^netplug-network']);
  return stdout
    .split('\n')
    .filter((line) => line !== '')
    .map(Number);
}

async function sumOver(pids: readonly number[], valueOf: (pid: number) => Promise<number>): Promise<number> {
  let sum = 0;
  for (const pid of pids) sum += await valueOf(pid);
  return sum;
}
