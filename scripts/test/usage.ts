// CPU time of processes, as the kernel counts it.
import { readFileSync } from 'node:fs';

/** Ticks of /proc/PID/stat in a second, on every architecture of Linux that netplug has. */
const TICKS = 100;

/** CPU seconds. */
export interface Usage {
  /** Of this process, with all its threads. */
  readonly own: number;
  /** Of processes that this one started and waited for, with those that they waited for. */
  readonly children: number;
}

/** Returns what this process has used so far. */
export function readUsage(): Usage {
  return parseUsage(readFileSync('/proc/self/stat', 'utf8'));
}

/** Reads a line of /proc/PID/stat. The name in parentheses may contain anything. */
export function parseUsage(stat: string): Usage {
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const seconds = (at: number): number => Number(fields[at - 3]) / TICKS;
  return { own: seconds(14) + seconds(15), children: seconds(16) + seconds(17) };
}
