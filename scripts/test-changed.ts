// Runs what a change touches: tests that import a changed file, and the end-to-end tests of its folder (test/touches.ts). The
// change is what differs from the commit that is given, or from the last one. `--list` shows the files and runs nothing.
import { spawnSync } from 'node:child_process';
import { globSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { touched } from '../test/touches.ts';
import { TestRun } from './test/run.ts';

const IMPORTING = ['unit', 'sim', 'contract', 'netns*', 'fuzz'];

const { values, positionals } = parseArgs({ allowPositionals: true, options: { list: { type: 'boolean' } } });
const [base = 'HEAD'] = positionals;
const patterns = touched([...git('diff', '--name-only', base), ...git('ls-files', '--others', '--exclude-standard')]);
const files = patterns.flatMap((pattern) => globSync(`test/e2e/${pattern}.test.ts`)).toSorted();
process.stdout.write(`end-to-end tests: ${files.length === 0 ? 'none' : files.join(' ')}\n`);
if (values.list !== true) {
  const run = new TestRun();
  const importing = IMPORTING.map((name) => `--project=${name}`);
  const failed = [...(await run.vitest([`--changed=${base}`, '--passWithNoTests', ...importing]))];
  if (files.length > 0) {
    await run.check('build', 'npm', ['run', '--silent', 'build']);
    failed.push(...(await run.vitest(['--project=e2e*', ...files])));
  }
  run.fail(...failed);
  run.close();
}

function git(...args: readonly string[]): readonly string[] {
  const { status, stdout, stderr } = spawnSync('git', args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`git ${args.join(' ')}: ${stderr}`);
  return stdout.split('\n').filter((line) => line !== '');
}
