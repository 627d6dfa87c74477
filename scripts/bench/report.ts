// What a row of the benchmark hands in.
import type { Latency } from './statistics.ts';

export interface LatencyRow extends Latency {
  readonly what: string;
  readonly candidate: string;
}

/** One number, which a goal may be about. */
export interface Figure {
  /** Goals name it by this. */
  readonly id: string;
  readonly what: string;
  readonly value: number;
  /** Empty for a ratio. */
  readonly unit: string;
}

export interface Curve {
  readonly name: string;
  readonly points: readonly { readonly x: number; readonly y: number }[];
}

export interface Plot {
  /** Of the file. */
  readonly name: string;
  readonly title: string;
  readonly x: Axis;
  readonly y: Axis;
  readonly curves: readonly Curve[];
}

export interface Axis {
  readonly label: string;
  /** `doubling` names every value that was measured. */
  readonly scale: 'linear' | 'log' | 'doubling';
}

export interface Finding {
  readonly latencies?: readonly LatencyRow[];
  readonly figures?: readonly Figure[];
  readonly plots?: readonly Plot[];
}

export interface RowOptions {
  readonly samples: number;
  readonly candidates: readonly ('agent' | 'standalone' | 'alone' | 'ptp')[];
}

/** Measures on a node of its own and leaves nothing. */
export type MeasureRow = (options: RowOptions) => Promise<Finding>;

/** A ratio, when both have been measured. */
export function ratio(
  { id, what }: Pick<Figure, 'id' | 'what'>,
  value: number | undefined,
  base: number | undefined,
): Figure[] {
  return value === undefined || base === undefined ? [] : [{ id, what, value: value / base, unit: '' }];
}
