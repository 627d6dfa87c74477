// Statistics of samples.

/** One program from its start to its end. */
export interface Sample {
  readonly ms: number;
  readonly cpuMs: number;
}

export interface Latency {
  readonly samples: number;
  readonly minMs: number;
  readonly p50Ms: number;
  readonly p90Ms: number;
  readonly p99Ms: number;
  /** Per call: of the program and all it started, with the share of the agent. */
  readonly cpuMs: number;
}

/** `agentCpuMs` is what the agent has used for all of the samples. */
export function summarise(samples: readonly Sample[], agentCpuMs = 0): Latency {
  const times = samples.map(({ ms }) => ms);
  return {
    samples: samples.length,
    minMs: quantile(times, 0),
    p50Ms: quantile(times, 0.5),
    p90Ms: quantile(times, 0.9),
    p99Ms: quantile(times, 0.99),
    cpuMs: mean(samples.map(({ cpuMs }) => cpuMs)) + agentCpuMs / samples.length,
  };
}

/** The smallest value that at least this share of the values does not exceed; no value is made up in between. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  const value = sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)];
  if (value === undefined) throw new Error('no samples');
  return value;
}

export function mean(values: readonly number[]): number {
  if (values.length === 0) throw new Error('no samples');
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
