// Loaded into a program before its own code. From one SIGUSR2 to the next it lets the event loop turn without a pause
// and measures each turn by the clock, less the time in which other programs had the processor: pauses for garbage
// collection and waits of system calls are in it.
import { openSync, readSync } from 'node:fs';
import { PerformanceObserver } from 'node:perf_hooks';

export interface Turn {
  readonly ms: number;
  /** What of it the main thread was at work; it waited for the rest, in the kernel or for its own helpers. */
  readonly cpuMs: number;
  /** The part of it that was garbage collection. */
  readonly gcMs: number;
}

/** What is printed, as one line of JSON after `TURNS `. */
export interface Turns {
  readonly count: number;
  /** From the first to the last, without the time of other programs. */
  readonly totalMs: number;
  /** Every turn that lasted `WORTH_MS`, the longest first. */
  readonly long: readonly Turn[];
  /** What a fixed piece of work needs in this program: what turns are compared with. */
  readonly unitMs: number;
}

interface Span extends Pick<Turn, 'ms' | 'cpuMs'> {
  readonly fromMs: number;
  readonly toMs: number;
}

const WORTH_MS = 0.5;
const UNIT_RUNS = 31;
const UNIT = JSON.stringify(Array.from({ length: 3000 }, (_, index) => ({ index, text: `value ${String(index)}` })));
let spans: Span[] | undefined;
let pauses: { readonly fromMs: number; readonly ms: number }[] = [];
let count = 0;
let totalMs = 0;
let unitMs = 0;

new PerformanceObserver((list) => {
  pauses.push(...list.getEntries().map(({ startTime, duration }) => ({ fromMs: startTime, ms: duration })));
}).observe({ entryTypes: ['gc'] });

process.on('SIGUSR2', () => {
  if (spans === undefined) begin();
  else setTimeout(report, 100);
});

function begin(): void {
  unitMs = measureUnit();
  const seen: Span[] = (spans = []);
  pauses = [];
  count = 0;
  totalMs = 0;
  let fromMs = performance.now();
  let waitedMs = waitedForProcessor();
  let cpuMs = cpuOfThread();
  const turn = (): void => {
    const [toMs, waited, cpu] = [performance.now(), waitedForProcessor(), cpuOfThread()];
    const ms = toMs - fromMs - (waited - waitedMs);
    count += 1;
    totalMs += ms;
    if (ms > WORTH_MS) seen.push({ fromMs, toMs, ms, cpuMs: Math.min(ms, cpu - cpuMs) });
    [fromMs, waitedMs, cpuMs] = [performance.now(), waitedForProcessor(), cpuOfThread()];
    if (spans === seen) setImmediate(turn);
  };
  setImmediate(turn);
}

const statistics = openSync('/proc/thread-self/schedstat', 'r');
const bytes = Buffer.alloc(128);

/** How long the main thread was ready to run since its start, while the processor was with others. */
function waitedForProcessor(): number {
  const [, waitedNs] = bytes.toString('latin1', 0, readSync(statistics, bytes, 0, bytes.length, 0)).split(' ');
  return Number(waitedNs) / 1e6;
}

/** In milliseconds. */
function cpuOfThread(): number {
  // Asked for the thread alone, the kernel tells what it knew at its last tick, some milliseconds ago; asked for the
  // process, it first looks at the clock.
  process.cpuUsage();
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

/** The median. */
function measureUnit(): number {
  const times = Array.from({ length: UNIT_RUNS }, () => {
    const fromMs = performance.now();
    const waitedMs = waitedForProcessor();
    JSON.stringify(JSON.parse(UNIT));
    return performance.now() - fromMs - (waitedForProcessor() - waitedMs);
  });
  return times.toSorted((a, b) => a - b)[(UNIT_RUNS - 1) / 2]!;
}

function report(): void {
  const long = (spans ?? []).map(({ fromMs, toMs, ms, cpuMs }): Turn => {
    const within = pauses.filter((pause) => pause.fromMs >= fromMs && pause.fromMs <= toMs);
    const gcMs = within.reduce((sum, pause) => sum + pause.ms, 0);
    // Pauses have the time of other programs in them.
    return { ms, cpuMs, gcMs: Math.min(ms, gcMs) };
  });
  spans = undefined;
  const told: Turns = { count, totalMs, long: long.toSorted((a, b) => b.ms - a.ms), unitMs };
  process.stderr.write(`TURNS ${JSON.stringify(told)}\n`);
}
