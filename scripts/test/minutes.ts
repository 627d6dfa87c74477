// Where the time of a run of the tests went: by the clock, and of the processor.
import type { ProgramUsage } from './accounting.ts';
import type { FileSpan } from './outcome-reporter.ts';

/** One part of the run, such as a check or the build of components. */
export interface Part {
  readonly name: string;
  readonly startMs: number;
  readonly endMs: number;
  /** Of its processes; undefined where they cannot be told apart. */
  readonly cpuSeconds?: number;
}

const LONGEST = 12;

/** Returns lines that say how long parts, projects and files ran by the clock, and how much of the processor they used. */
export function describeMinutes(parts: readonly Part[], spans: readonly FileSpan[]): string[] {
  const byProject = Map.groupBy(spans, ({ project }) => project);
  const projects = [...byProject].map(([name, files]): Part => {
    const [startMs, endMs] = [
      Math.min(...files.map((file) => file.startMs)),
      Math.max(...files.map((file) => file.endMs)),
    ];
    const used = files.flatMap(({ cpuSeconds = [] }) => cpuSeconds);
    const cpuSeconds = used.length === 0 ? {} : { cpuSeconds: used.reduce((sum, each) => sum + each, 0) };
    return { name: `tests of ${name} (${String(files.length)} files)`, startMs, endMs, ...cpuSeconds };
  });
  const files = spans.map((span): Part => ({ ...span, name: `${span.file} (${span.project})` }));
  const first = (of: (part: Part) => number): string[] =>
    files
      .toSorted((a, b) => of(b) - of(a))
      .slice(0, LONGEST)
      .map(line);
  return [
    'seconds by the clock and of the processor; parts run beside each other:',
    ...[...parts, ...projects].map(line),
    'files that ran longest by the clock:',
    ...first(secondsOf),
    'files that used most of the processor:',
    ...first(({ cpuSeconds = 0 }) => cpuSeconds),
  ];
}

/** Returns lines that say which programs used the processor, how many processes they had, and how much each used. */
export function describePrograms(programs: readonly ProgramUsage[]): string[] {
  const all: ProgramUsage = {
    program: 'all programs of this machine',
    processes: programs.reduce((sum, { processes }) => sum + processes, 0),
    cpuSeconds: programs.reduce((sum, { cpuSeconds }) => sum + cpuSeconds, 0),
  };
  return [
    'seconds of the processor, processes, and seconds of each, by program:',
    ...[all, ...programs.slice(0, LONGEST)].map(({ program, processes, cpuSeconds }) =>
      [
        String(Math.round(cpuSeconds)).padStart(6),
        String(processes).padStart(7),
        (cpuSeconds / processes).toFixed(2).padStart(7),
        ` ${program}`,
      ].join(' '),
    ),
  ];
}

function secondsOf({ startMs, endMs }: Pick<Part, 'startMs' | 'endMs'>): number {
  return Math.round((endMs - startMs) / 1000);
}

function line(part: Part): string {
  const cpu = part.cpuSeconds === undefined ? '-' : String(Math.round(part.cpuSeconds));
  return `${String(secondsOf(part)).padStart(6)} ${cpu.padStart(6)}  ${part.name}`;
}
