import { Counter, Gauge, Histogram, Registry } from '@prometheus-io/client';
import type { DeclaredMetric, MetricTable } from './declared.ts';

interface OfKind<Label extends string> {
  readonly counter: Counter<Label>;
  readonly gauge: Gauge<Label>;
  readonly histogram: Histogram<Label>;
}

type LabelOf<T extends DeclaredMetric> = T extends { readonly labels: readonly (infer Label extends string)[] }
  ? Label
  : never;

/** The metrics of a table by name, each with the methods of its kind. */
export type Registered<T extends MetricTable> = {
  readonly [Name in keyof T]: OfKind<LabelOf<T[Name]>>[T[Name]['kind']];
};

/** Registers every metric of the table, and nothing else. */
export function registerMetrics<const T extends MetricTable>(
  table: T,
): { readonly registry: Registry; readonly metrics: Registered<T> } {
  const registry = new Registry();
  const metrics = Object.fromEntries(
    Object.entries(table).map(([name, declared]) => [name, register(name, declared, registry)]),
  );
  // Each entry is of the kind that its declaration names; the compiler widens them to one type.
  return { registry, metrics: metrics as Registered<T> };
}

function register(
  name: string,
  { kind, help, labels = [], buckets = [] }: DeclaredMetric,
  registry: Registry,
): Counter | Gauge | Histogram {
  const common = { name, help, labelNames: [...labels], registers: [registry] };
  if (kind === 'counter') return new Counter(common);
  return kind === 'gauge' ? new Gauge(common) : new Histogram({ ...common, buckets: [...buckets] });
}
