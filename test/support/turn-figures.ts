// What the turns of an event loop mean for those who wait for it.
import type { Turns } from './turns.ts';

/** In units of `Turns.unitMs`, so that machines can be compared. */
export interface Figures {
  /** The longest time that the main thread worked in one turn, without garbage collection. */
  readonly work: number;
  /** The longest turn, with garbage collection and waits of system calls. */
  readonly turn: number;
  /** How long 99 in 100 events wait at most that come at any moment, with everything in it. */
  readonly wait: number;
}

export function figuresOf({ long, totalMs, unitMs }: Turns): Figures {
  const times = long.map(({ ms }) => ms);
  return {
    work: Math.max(0, ...long.map(({ cpuMs, gcMs }) => cpuMs - gcMs)) / unitMs,
    turn: Math.max(0, ...times) / unitMs,
    wait: waitOf(times, totalMs / 100) / unitMs,
  };
}

/**
 * Who comes while a turn lasts waits for its rest. Returns the wait that is exceeded in `exceededMs` of the time
 * altogether; the turns come with the longest first.
 */
export function waitOf(turnsMs: readonly number[], exceededMs: number): number {
  let sumMs = 0;
  for (const [index, ms] of turnsMs.entries()) {
    // The waits beyond this turn's length, in all longer turns.
    if (sumMs - index * ms >= exceededMs) return (sumMs - exceededMs) / index;
    sumMs += ms;
  }
  return turnsMs.length === 0 ? 0 : Math.max(0, (sumMs - exceededMs) / turnsMs.length);
}

/** Figures of several windows, one column each. */
export function describeWindows(windows: readonly Turns[]): string {
  const row = (name: string, of: (turns: Turns) => number): string =>
    `${name}: ${windows.map((turns) => of(turns).toFixed(1)).join(' ')}\n`;
  return [
    row('unit of work, ms', ({ unitMs }) => unitMs),
    row('turns, thousands', ({ count }) => count / 1000),
    row('longest work in a turn, units', (turns) => figuresOf(turns).work),
    row('longest turn, units', (turns) => figuresOf(turns).turn),
    row('wait of 99 in 100 events at most, units', (turns) => figuresOf(turns).wait),
  ].join('');
}
