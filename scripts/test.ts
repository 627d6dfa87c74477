// Runs everything: the static checks, then every ring of tests. Ends with one plain line that counts them.
import { spawnSync } from 'node:child_process';
import { readFileSync, rmSync } from 'node:fs';

const CHECKS = ['format:check', 'lint', 'types', 'layers', 'unused', 'docs:check'];
const REPORT = 'build/test-report.json';

let passed = 0;
let failed = 0;
let skipped = 0;
for (const check of CHECKS) {
  process.stdout.write(`check ${check}\n`);
  const { status } = spawnSync('npm', ['run', '--silent', check], { stdio: 'inherit' });
  if (status === 0) passed += 1;
  else failed += 1;
}

rmSync(REPORT, { force: true });
const vitest = [
  'node_modules/vitest/vitest.mjs',
  'run',
  '--reporter=default',
  '--reporter=json',
  `--outputFile.json=${REPORT}`,
];
const { status } = spawnSync(process.execPath, [...vitest, ...process.argv.slice(2)], {
  stdio: 'inherit',
  env: { ...process.env, NO_COLOR: '1' },
});
const report = readReport();
passed += report.numPassedTests;
failed += report.numFailedTests;
skipped += report.numPendingTests;
if (status !== 0 && report.numFailedTests === 0) failed += 1;

process.stdout.write(
  `${String(passed)} passed, ${String(failed)} failed${skipped > 0 ? `, ${String(skipped)} skipped` : ''}\n`,
);
process.exitCode = failed === 0 ? 0 : 1;

function readReport(): { numPassedTests: number; numFailedTests: number; numPendingTests: number } {
  try {
    return JSON.parse(readFileSync(REPORT, 'utf8')) as ReturnType<typeof readReport>;
  } catch {
    return { numPassedTests: 0, numFailedTests: 1, numPendingTests: 0 };
  }
}
