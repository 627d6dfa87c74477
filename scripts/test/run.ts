// One run of the tests: its parts, what they have used, what passed and failed, and the closing lines that say so.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import { text } from 'node:stream/consumers';
import { startAccounting } from './accounting.ts';
import { describeMinutes, describePrograms, type Part } from './minutes.ts';
import { type Failure, type FileSpan, OUTCOME, type Outcome } from './outcome-reporter.ts';
import { readUsage } from './usage.ts';

/** Records of the kernel, outside of what tests may cover with mounts of their own. */
const ACCOUNT = 'build/processes';
/** Projects whose tests wait for real processes, and so depend on what else runs. */
const ON_REAL_PARTS = /^(netns|contract|e2e)/;
/** More failing files than this are no matter of a busy machine. */
const MOST_REPEATED = 10;

export interface PartOptions {
  /** Added to the environment. */
  readonly env?: Readonly<Record<string, string>>;
  /** Prints nothing unless it fails; otherwise it prints as it goes. */
  readonly isQuiet?: boolean;
  /** Ends it after this time. */
  readonly longestMs?: number;
  /** How much others of the processor come before it, as for `nice`. */
  readonly niceness?: number;
}

export class TestRun {
  readonly #parts: Part[] = [];
  readonly #spans: FileSpan[] = [];
  readonly #failures: string[] = [];
  readonly #unstable: string[] = [];
  readonly #accounting: ReturnType<typeof startAccounting>;
  readonly #running = new Set<ChildProcess>();
  #runs = 0;
  #passed = 0;
  #skipped = 0;
  #childSeconds = readUsage().children;

  constructor() {
    mkdirSync(dirname(ACCOUNT), { recursive: true });
    this.#accounting = startAccounting(ACCOUNT);
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
      process.once(signal, () => {
        for (const child of this.#running) child.kill(signal);
        this.#accounting.stop();
        process.kill(process.pid, signal);
      });
  }

  /** Runs a program to its end, and notes what it took. Returns its exit status; null when it was ended. */
  async part(name: string, file: string, args: readonly string[], options: PartOptions = {}): Promise<number | null> {
    const { env = {}, isQuiet = false, longestMs, niceness = 0 } = options;
    const startMs = Date.now();
    const program = file === 'node' ? process.execPath : file;
    const [first, ...rest] = niceness === 0 ? [program, ...args] : ['nice', '-n', String(niceness), program, ...args];
    const child = spawn(first, rest, {
      stdio: isQuiet ? ['ignore', 'pipe', 'pipe'] : 'inherit',
      env: { ...process.env, NO_COLOR: '1', ...env },
      ...(longestMs === undefined ? {} : { timeout: longestMs }),
    });
    this.#running.add(child);
    const printed = [child.stdout, child.stderr].flatMap((stream) => (stream === null ? [] : [text(stream)]));
    const [status] = (await once(child, 'exit')) as [number | null];
    this.#running.delete(child);
    // The kernel adds a child's time when it has ended: what came since the last one is that of this part.
    const { children } = readUsage();
    this.#parts.push({ name, startMs, endMs: Date.now(), cpuSeconds: children - this.#childSeconds });
    this.#childSeconds = children;
    if (status !== 0) process.stdout.write((await Promise.all(printed)).join(''));
    return status;
  }

  /** Runs a check, which counts as one test. */
  async check(name: string, file: string, args: readonly string[], options?: PartOptions): Promise<void> {
    if ((await this.part(name, file, args, options)) === 0) this.#passed += 1;
    else this.fail(name);
  }

  /** Runs vitest with these arguments. Returns what failed, which counts once it is given to `fail` or `repeatAlone`. */
  async vitest(args: readonly string[], options?: PartOptions): Promise<readonly Failure[]> {
    this.#runs += 1;
    const outcome = `build/test-outcome-${String(this.#runs)}.json`;
    rmSync(outcome, { force: true });
    const reporters = ['--reporter=default', '--reporter=./scripts/test/outcome-reporter.ts'];
    const name = `vitest ${args.join(' ')}`;
    const status = await this.part(name, 'node', ['scripts/run-vitest.ts', 'run', ...reporters, ...args], {
      ...options,
      env: { ...options?.env, [OUTCOME]: outcome },
    });
    const { passed = 0, skipped = 0, spans = [], failures = [] } = readOutcome(outcome) ?? {};
    this.#passed += passed;
    this.#skipped += skipped;
    this.#spans.push(...spans);
    return status !== 0 && failures.length === 0 ? [{ text: `${name}: see above` }] : failures;
  }

  fail(...failures: readonly (Failure | string)[]): void {
    this.#failures.push(...failures.map((each) => (typeof each === 'string' ? each : each.text)));
  }

  /** Notes failures of tests that have passed since. */
  noteUnstable(failures: readonly Failure[]): void {
    this.#unstable.push(...failures.map(({ text: line }) => line));
  }

  /**
   * Runs the files of failures on real parts once more, one after the other. What passes then is unstable: it does not fail
   * the run, and is a defect to mend.
   */
  async repeatAlone(failed: readonly Failure[], options?: PartOptions): Promise<void> {
    const isRepeatable = ({ project = '' }: Failure): boolean => ON_REAL_PARTS.test(project);
    this.fail(...failed.filter((failure) => !isRepeatable(failure)));
    const files = Map.groupBy(failed.filter(isRepeatable), ({ project, file }) => `${project ?? ''} ${file ?? ''}`);
    for (const inFile of files.values()) {
      const [{ project = '', file = '' } = {}] = inFile;
      const again = ['scripts/run-vitest.ts', 'run', `--project=${project}`, file];
      const hasPassed =
        files.size <= MOST_REPEATED &&
        (await this.part(`again, alone: ${file} (${project})`, 'node', again, options)) === 0;
      if (hasPassed) this.noteUnstable(inFile);
      else this.fail(...inFile);
    }
  }

  /** Prints where the time went, one line for each failure, and one plain line that counts. Sets the exit status. */
  close(): void {
    const programs = this.#accounting.stop();
    const { reason } = this.#accounting;
    const lines = [
      ...describeMinutes(this.#parts, this.#spans),
      ...(reason === undefined ? describePrograms(programs) : [`no table of programs here, because ${reason}`]),
      ...this.#unstable.map((line) => `UNSTABLE passed alone, failed at first: ${line}`),
      ...this.#failures.map((line) => `FAILED ${line}`),
    ];
    const failed = this.#failures.length;
    const counts = [
      `${String(this.#passed + this.#unstable.length)} passed`,
      `${String(failed)} failed`,
      ...(this.#unstable.length > 0 ? [`${String(this.#unstable.length)} unstable`] : []),
      ...(this.#skipped > 0 ? [`${String(this.#skipped)} skipped`] : []),
    ];
    process.stdout.write(`${[...lines, counts.join(', ')].join('\n')}\n`);
    process.exitCode = failed === 0 ? 0 : 1;
  }
}

function readOutcome(path: string): Outcome | undefined {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as Outcome;
  } catch {
    return undefined;
  }
}
