// Where the time of a run of the tests went.
import type { FileSpan } from './outcome-reporter.ts';

/** One part of the run, such as a check or the build of components. */
export interface Part {
  readonly name: string;
  readonly startMs: number;
  readonly endMs: number;
}

const LONGEST = 12;

/** Returns lines that say how long parts and projects took by the clock, and which files ran longest. */
export function describeMinutes(parts: readonly Part[], spans: readonly FileSpan[]): string[] {
  const byProject = Map.groupBy(spans, ({ project }) => project);
  const projects = [...byProject].map(([name, files]): Part => {
    const [startMs, endMs] = [
      Math.min(...files.map((file) => file.startMs)),
      Math.max(...files.map((file) => file.endMs)),
    ];
    return { name: `tests of ${name} (${String(files.length)} files)`, startMs, endMs };
  });
  const longest = spans.toSorted((a, b) => secondsOf(b) - secondsOf(a)).slice(0, LONGEST);
  return [
    'time by the clock, in seconds; parts run beside each other:',
    ...[...parts, ...projects].map((part) => line(secondsOf(part), part.name)),
    'files that ran longest:',
    ...longest.map((span) => line(secondsOf(span), `${span.file} (${span.project})`)),
  ];
}

function secondsOf({ startMs, endMs }: Pick<Part, 'startMs' | 'endMs'>): number {
  return Math.round((endMs - startMs) / 1000);
}

function line(seconds: number, name: string): string {
  return `${String(seconds).padStart(6)}  ${name}`;
}
