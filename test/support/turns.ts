// Loaded into a program before its own code. From one SIGUSR2 to the next it lets the event loop turn without a pause
// and measures the CPU time that the main thread needs for each turn: the clock on the wall would measure the machine.
import { PerformanceObserver } from 'node:perf_hooks';

/** What is printed, as one line of JSON after `TURNS `. */
export interface Turns {
  readonly count: number;
  /** Longest turns in ms of CPU, the longest first. */
  readonly longest: readonly number[];
  /** Longest pauses for garbage collection in ms; they are not part of the turns. */
  readonly pauses: readonly number[];
}

interface Span {
  readonly fromMs: number;
  readonly toMs: number;
  readonly cpuMs: number;
}

const KEPT = 10;
const WORTH_MS = 1;
let spans: Span[] | undefined;
let pauses: { readonly fromMs: number; readonly ms: number }[] = [];
let count = 0;

new PerformanceObserver((list) => {
  pauses.push(...list.getEntries().map(({ startTime, duration }) => ({ fromMs: startTime, ms: duration })));
}).observe({ entryTypes: ['gc'] });

process.on('SIGUSR2', () => {
  if (spans === undefined) begin();
  else setTimeout(report, 100);
});

function begin(): void {
  const seen: Span[] = (spans = []);
  pauses = [];
  count = 0;
  let cpuMsBefore = cpuOfThread();
  let fromMs = performance.now();
  const turn = (): void => {
    const now = cpuOfThread();
    const toMs = performance.now();
    const cpuMs = now - cpuMsBefore;
    count += 1;
    if (cpuMs > WORTH_MS) seen.push({ fromMs, toMs, cpuMs });
    cpuMsBefore = cpuOfThread();
    fromMs = performance.now();
    if (spans === seen) setImmediate(turn);
  };
  setImmediate(turn);
}

/** In milliseconds. */
function cpuOfThread(): number {
  // Asked for the thread alone, the kernel tells what it knew at its last tick, some milliseconds ago; asked for the
  // process, it first looks at the clock.
  process.cpuUsage();
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

function report(): void {
  const turns = (spans ?? []).map(({ fromMs, toMs, cpuMs }) => {
    const within = pauses.filter((pause) => pause.fromMs >= fromMs && pause.fromMs <= toMs);
    return cpuMs - within.reduce((sum, { ms }) => sum + ms, 0);
  });
  spans = undefined;
  const longest = (of: readonly number[]): number[] => of.toSorted((a, b) => b - a).slice(0, KEPT);
  const told: Turns = { count, longest: longest(turns), pauses: longest(pauses.map(({ ms }) => ms)) };
  process.stderr.write(`TURNS ${JSON.stringify(told)}\n`);
}
