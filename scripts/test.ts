// Runs everything: the static checks, then every ring of tests. Components that are missing are built while tests that need
// none of them run. Files on real parts that fail run once more at the end, alone: a test that passes then is reported as
// unstable, because most such failures come from a machine too busy for the deadlines of the test. Ends with where the time
// went, one line for each failure, and one plain line that counts. Arguments go to vitest; with any, nothing is checked, built
// or repeated.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, rmSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import { describeMinutes, type Part } from './test/minutes.ts';
import { type Failure, type FileSpan, OUTCOME, type Outcome } from './test/outcome-reporter.ts';

const CHECKS = ['format:check', 'lint', 'types', 'layers', 'unused', 'docs:check'];
/** Projects whose tests need no component. */
const SELF_CONTAINED = ['--project=unit', '--project=sim', '--project=netns*'];
const OTHERS = ['--project=contract*', '--project=e2e*'];
/** Projects whose tests wait for real processes, and so depend on what else runs. */
const ON_REAL_PARTS = /^(netns|contract|e2e)/;
/** More failing files than this are no matter of a busy machine. */
const MOST_REPEATED = 10;

let passed = 0;
let skipped = 0;
const failures: string[] = [];
/** Failures of tests that passed when their file ran again, alone. */
const unstable: string[] = [];
const failedTests: Failure[] = [];
const parts: Part[] = [];
const spans: FileSpan[] = [];

const chosen = process.argv.slice(2);
const components = chosen.length > 0 ? undefined : timed('components', 'node', ['scripts/build-components.ts']);
for (const check of chosen.length > 0 ? [] : CHECKS) {
  process.stdout.write(`check ${check}\n`);
  if ((await timed(`check ${check}`, 'npm', ['run', '--silent', check])) === 0) passed += 1;
  else failures.push(`check ${check}`);
}
if (components === undefined) {
  await runTests(chosen);
  failures.push(...failedTests.map(({ text }) => text));
} else {
  await runTests(SELF_CONTAINED);
  const fuzzed = fuzz();
  if ((await components) === 0) await runTests(OTHERS);
  else failures.push('components: see above');
  await fuzzed;
  await repeatAlone(failedTests);
}

const failed = failures.length;
process.stdout.write(
  describeMinutes(parts, spans)
    .map((text) => `${text}\n`)
    .join(''),
);
for (const text of unstable) process.stdout.write(`UNSTABLE passed alone, failed at first: ${text}\n`);
for (const failure of failures) process.stdout.write(`FAILED ${failure}\n`);
process.stdout.write(
  `${String(passed + unstable.length)} passed, ${String(failed)} failed${unstable.length > 0 ? `, ${String(unstable.length)} unstable` : ''}${skipped > 0 ? `, ${String(skipped)} skipped` : ''}\n`,
);
process.exitCode = failed === 0 ? 0 : 1;

async function runTests(args: readonly string[]): Promise<void> {
  rmSync(OUTCOME, { force: true });
  const reporters = ['--reporter=default', '--reporter=./scripts/test/outcome-reporter.ts'];
  const vitest = ['scripts/run-vitest.ts', 'run', ...reporters, ...args];
  const status = await timed(`vitest ${args.join(' ')}`, 'node', vitest);
  const outcome = readOutcome();
  passed += outcome?.passed ?? 0;
  skipped += outcome?.skipped ?? 0;
  spans.push(...(outcome?.spans ?? []));
  const failed = outcome?.failures ?? [];
  if (status !== 0 && failed.length === 0) failures.push(`vitest ${args.join(' ')}: see above`);
  failedTests.push(...failed);
}

/** Runs the files of the failures once more, one after the other. Notes what failed again, and what did not. */
async function repeatAlone(failed: readonly Failure[]): Promise<void> {
  const isRepeatable = ({ project = '' }: Failure): boolean => ON_REAL_PARTS.test(project);
  failures.push(...failed.filter((failure) => !isRepeatable(failure)).map(({ text }) => text));
  const files = Map.groupBy(failed.filter(isRepeatable), ({ project, file }) => `${project ?? ''} ${file ?? ''}`);
  for (const inFile of files.values()) {
    const [{ project = '', file = '' } = {}] = inFile;
    const hasPassed = files.size <= MOST_REPEATED && (await passesAlone(project, file));
    (hasPassed ? unstable : failures).push(...inFile.map(({ text }) => text));
  }
}

async function passesAlone(project: string, file: string): Promise<boolean> {
  process.stdout.write(`running again, alone: ${file} (${project})\n`);
  const vitest = ['scripts/run-vitest.ts', 'run', `--project=${project}`, file];
  return (await timed(`again: ${file} (${project})`, 'node', vitest)) === 0;
}

/** Fuzzes each target for a minute, with what the other tests leave of the processor. Prints nothing unless one fails. */
async function fuzz(): Promise<void> {
  const startMs = Date.now();
  const args = ['-n', '19', process.execPath, 'node_modules/vitest/vitest.mjs', 'run', '--project=fuzz'];
  const env = { ...process.env, NO_COLOR: '1', NETPLUG_FUZZ_SECONDS: '60' };
  const child = spawn('nice', args, { stdio: ['ignore', 'pipe', 'pipe'], env });
  const told = Promise.all([text(child.stdout), text(child.stderr)]);
  const [status] = (await once(child, 'exit')) as [number | null];
  parts.push({ name: 'fuzz', startMs, endMs: Date.now() });
  if (status === 0) passed += 1;
  else {
    failures.push('fuzz: see above');
    process.stdout.write((await told).join(''));
  }
}

/** Runs the program to its end, and notes the time it took. Returns its exit status. */
async function timed(name: string, file: string, args: readonly string[]): Promise<number> {
  const startMs = Date.now();
  const program = file === 'node' ? process.execPath : file;
  const child = spawn(program, args, { stdio: 'inherit', env: { ...process.env, NO_COLOR: '1' } });
  const [status] = (await once(child, 'exit')) as [number | null];
  parts.push({ name, startMs, endMs: Date.now() });
  return status ?? 1;
}

function readOutcome(): Outcome | undefined {
  try {
    return JSON.parse(readFileSync(OUTCOME, 'utf8')) as Outcome;
  } catch {
    return undefined;
  }
}
