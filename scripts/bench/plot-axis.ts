// Where the values of an axis stand, and which of them are written beside it.

export interface Scale {
  /** 0 at the beginning of the axis, 1 at its end. */
  place(value: number): number;
  readonly ticks: readonly number[];
}

const MOST_TICKS = 6;

/** From zero to a round number above the values. */
export function linearScale(values: readonly number[]): Scale {
  const step = niceStep(Math.max(...values, Number.MIN_VALUE) / MOST_TICKS);
  const count = Math.ceil(Math.max(...values) / step);
  const end = step * Math.max(1, count);
  return { place: (value) => value / end, ticks: Array.from({ length: Math.max(1, count) + 1 }, (_, i) => i * step) };
}

/** From a round number below the values to one above; values are positive. */
export function logScale(values: readonly number[]): Scale {
  const low = Math.min(...values);
  const high = Math.max(...values);
  const decades = Array.from({ length: 25 }, (_, index) => 10 ** (index - 12));
  const candidates = decades.flatMap((decade) => [decade, 2 * decade, 5 * decade]);
  const first = candidates.findLast((tick) => tick <= low) ?? low;
  const last = candidates.find((tick) => tick >= high && tick > first) ?? high;
  const width = Math.log(last / first);
  return {
    place: (value) => Math.log(value / first) / width,
    ticks: candidates.filter((tick) => tick >= first && tick <= last),
  };
}

/** Every value is a tick, and doubling is the same way everywhere. */
export function doublingScale(values: readonly number[]): Scale {
  const ticks = [...new Set(values)].sort((a, b) => a - b);
  const low = ticks[0] ?? 1;
  const high = ticks.length > 1 ? ticks.at(-1) : undefined;
  const width = Math.log((high ?? 2 * low) / low);
  return { place: (value) => Math.log(value / low) / width, ticks };
}

/** 1, 2 or 5 times a power of ten, not below what is asked for. */
function niceStep(least: number): number {
  const decade = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((factor) => factor * decade).find((step) => step >= least) ?? 10 * decade;
}
