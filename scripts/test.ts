// Runs everything: the static checks, then every ring of tests. Components that are missing are built while tests that need
// none of them run. Files on real parts that fail run once more at the end, alone: a test that passes then is reported as
// unstable, because most such failures come from a machine too busy for the deadlines of the test. `--quick` runs what needs
// neither root nor components. Other arguments go to vitest; with any, nothing is checked, built or repeated.
import { TestRun } from './test/run.ts';

const CHECKS = ['format:check', 'lint', 'types', 'layers', 'keys', 'names', 'unused', 'lock:check', 'docs:check'];
const QUICK = ['--project=unit', '--project=sim'];
/** Projects whose tests need no component. */
const SELF_CONTAINED = [...QUICK, '--project=netns*'];
const OTHERS = ['--project=contract*', '--project=e2e*'];
/** Fuzzing takes what the other tests leave of the processor. */
const FUZZ = ['-n', '19', process.execPath, 'node_modules/vitest/vitest.mjs', 'run', '--project=fuzz'];

const chosen = process.argv.slice(2);
const run = new TestRun();
if (chosen.includes('--quick')) {
  const checked = checkAll();
  run.fail(...(await run.vitest(QUICK)));
  await checked;
} else if (chosen.length > 0) {
  run.fail(...(await run.vitest(chosen)));
} else {
  const components = run.part('components', 'node', ['scripts/build-components.ts']);
  const checked = checkAll();
  const failed = [...(await run.vitest(SELF_CONTAINED))];
  await checked;
  const fuzzed = run.check('fuzz', 'nice', FUZZ, { isQuiet: true });
  if ((await components) === 0) failed.push(...(await run.vitest(OTHERS)));
  else run.fail('components: see above');
  await fuzzed;
  await run.repeatAlone(failed);
}
run.close();

/** Two at a time: most use one core. */
async function checkAll(): Promise<void> {
  const left = [...CHECKS];
  const work = async (): Promise<void> => {
    for (let name = left.shift(); name !== undefined; name = left.shift())
      await run.check(`check ${name}`, 'npm', ['run', '--silent', name]);
  };
  await Promise.all([work(), work()]);
}
