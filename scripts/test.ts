// Runs everything: the static checks, then every ring of tests. Ends with one line for whatever failed, and one plain
// line that counts.
import { spawnSync } from 'node:child_process';
import { readFileSync, rmSync } from 'node:fs';
import { relative } from 'node:path';

const CHECKS = ['format:check', 'lint', 'types', 'layers', 'unused', 'docs:check'];
const REPORT = 'build/test-report.json';

let passed = 0;
let failed = 0;
let skipped = 0;
const failures: string[] = [];
for (const check of CHECKS) {
  process.stdout.write(`check ${check}\n`);
  const { status } = spawnSync('npm', ['run', '--silent', check], { stdio: 'inherit' });
  if (status === 0) passed += 1;
  else fail(`check ${check}`);
}

rmSync(REPORT, { force: true });
const vitest = ['scripts/run-vitest.ts', 'run', '--reporter=default', '--reporter=json', `--outputFile.json=${REPORT}`];
const { status } = spawnSync(process.execPath, [...vitest, ...process.argv.slice(2)], {
  stdio: 'inherit',
  env: { ...process.env, NO_COLOR: '1' },
});
const report = readReport();
passed += report?.numPassedTests ?? 0;
skipped += report?.numPendingTests ?? 0;
for (const { name, status: outcome, message, assertionResults } of report?.testResults ?? []) {
  const broken = assertionResults.filter((test) => test.status === 'failed');
  const file = relative(process.cwd(), name);
  for (const { fullName, failureMessages } of broken) fail(`${file} > ${fullName}: ${firstLine(failureMessages[0])}`);
  if (outcome === 'failed' && broken.length === 0) fail(`${file}: ${firstLine(message)}`);
}
if (status !== 0 && failed === 0) fail('vitest: see above');

for (const failure of failures) process.stdout.write(`FAILED ${failure}\n`);
process.stdout.write(
  `${String(passed)} passed, ${String(failed)} failed${skipped > 0 ? `, ${String(skipped)} skipped` : ''}\n`,
);
process.exitCode = failed === 0 ? 0 : 1;

function fail(what: string): void {
  failed += 1;
  failures.push(what);
}

function firstLine(text = ''): string {
  return text.split('\n', 1)[0]!;
}

/** What this program reads of vitest's report; undefined when there is none. */
interface Report {
  readonly numPassedTests: number;
  readonly numPendingTests: number;
  readonly testResults: readonly {
    readonly name: string;
    readonly status: string;
    readonly message: string;
    readonly assertionResults: readonly {
      readonly fullName: string;
      readonly status: string;
      readonly failureMessages: readonly string[];
    }[];
  }[];
}

function readReport(): Report | undefined {
  try {
    return JSON.parse(readFileSync(REPORT, 'utf8')) as Report;
  } catch {
    return undefined;
  }
}
