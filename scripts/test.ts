// Runs everything: the static checks, then every ring of tests. Components that are missing are built while tests that need
// none of them run. Ends with where the time went, one line for whatever failed, and one plain line that counts. Arguments
// go to vitest; with any, nothing is checked or built.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, rmSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import { describeMinutes, type Part } from './test/minutes.ts';
import { type FileSpan, OUTCOME, type Outcome } from './test/outcome-reporter.ts';

const CHECKS = ['format:check', 'lint', 'types', 'layers', 'unused', 'docs:check'];
/** Projects whose tests need no component. */
const SELF_CONTAINED = ['--project=unit', '--project=sim', '--project=netns*'];
const OTHERS = ['--project=contract*', '--project=e2e*'];

let passed = 0;
let skipped = 0;
const failures: string[] = [];
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
} else {
  await runTests(SELF_CONTAINED);
  const fuzzed = fuzz();
  if ((await components) === 0) await runTests(OTHERS);
  else failures.push('components: see above');
  await fuzzed;
}

const failed = failures.length;
process.stdout.write(
  describeMinutes(parts, spans)
    .map((text) => `${text}\n`)
    .join(''),
);
for (const failure of failures) process.stdout.write(`FAILED ${failure}\n`);
process.stdout.write(
  `${String(passed)} passed, ${String(failed)} failed${skipped > 0 ? `, ${String(skipped)} skipped` : ''}\n`,
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
  failures.push(...(outcome?.failures ?? []));
  if (status !== 0 && (outcome?.failures.length ?? 0) === 0) failures.push(`vitest ${args.join(' ')}: see above`);
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
