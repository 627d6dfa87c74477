import { randomUUID } from 'node:crypto';

/** The port to random numbers. */
export interface Random {
  /** Returns a whole number from 0 to `below` - 1. */
  readonly int: (below: number) => number;
  /** Returns an identifier that never repeats. */
  readonly id: () => string;
}

export const systemRandom: Random = {
  int: (below) => Math.floor(Math.random() * below),
  id: () => randomUUID(),
};

/** Returns a generator with the same numbers for the same seed (mulberry32), for simulations. */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  let count = 0;
  return {
    int: (below) => Math.floor(next() * below),
    id: () => `${seed.toString(16)}-${String((count += 1))}`,
  };
}
