/** One metric, from which registration, documentation and the checks of alerts and dashboard follow. */
export interface DeclaredMetric {
  readonly kind: 'counter' | 'gauge' | 'histogram';
  /** A sentence for /metrics and the documentation. */
  readonly help: string;
  /** More sentences for the documentation, in Markdown. */
  readonly note?: string;
  readonly labels?: readonly string[];
  /** Upper bounds of a histogram. */
  readonly buckets?: readonly number[];
}

/** The metrics of one program by name. */
export type MetricTable = Readonly<Record<string, DeclaredMetric>>;

export const EVENT_LOOP_DELAY = {
  kind: 'gauge',
  help: 'How late the event loop ran a timer of every five seconds, since the last scrape.',
  note: '`percentile` is `50`, `99` or `100`. It includes garbage collection, system calls and waiting for a CPU, but no delay that ends before the timer is due.',
  labels: ['percentile'],
} as const;
