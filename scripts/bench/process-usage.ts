// What a program inside a node has used so far.
import type { TestNode } from '../../test/support/node.ts';

/** Fields of /proc/PID/stat, counted from the one after the name. */
const UTIME = 11;
const STIME = 12;
/** USER_HZ, which is the same on every machine Linux runs on today. */
const MS_PER_TICK = 10;

/** User and system time, of all its threads. */
export async function cpuMsOf(node: Pick<TestNode, 'exec'>, pid: number): Promise<number> {
  const stat = await node.exec('cat', `/proc/${String(pid)}/stat`);
  // The name may hold blanks and brackets.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[UTIME]) + Number(fields[STIME])) * MS_PER_TICK;
}

export interface Memory {
  readonly rssMb: number;
  /** With every shared page counted for its share. */
  readonly pssMb: number;
}

export async function memoryOf(node: Pick<TestNode, 'exec'>, pid: number): Promise<Memory> {
  const rollup = await node.exec('cat', `/proc/${String(pid)}/smaps_rollup`);
  const mb = (field: string): number => {
    const kb = new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(rollup)?.[1];
    if (kb === undefined) throw new Error(`smaps_rollup does not say ${field}`);
    return Number(kb) / 1024;
  };
  return { rssMb: mb('Rss'), pssMb: mb('Pss') };
}
