// Random decisions that a seed repeats.

export interface Dice {
  /** At least `from`, less than `to`. */
  between(from: number, to: number): number;
  chance(probability: number): boolean;
  /** One of the keys, each as often as its weight says. */
  pick<K extends string>(weights: Readonly<Record<K, number>>): K;
}

export function diceOf(seed: number): Dice {
  let state = seed >>> 0;
  // mulberry32
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  return {
    between: (from, to) => from + next() * (to - from),
    chance: (probability) => next() < probability,
    pick: <K extends string>(weights: Readonly<Record<K, number>>): K => {
      const entries = Object.entries(weights) as [K, number][];
      let at = next() * entries.reduce((sum, [, weight]) => sum + weight, 0);
      return (entries.find(([, weight]) => (at -= weight) < 0) ?? entries.at(-1)!)[0];
    },
  };
}
