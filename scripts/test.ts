// Runs everything: the static checks and every ring of tests. What computes takes the processor time that what waits for real parts
// leaves, and runs while components that are missing are built. Files on real parts that fail run once more at the end, alone: a test that passes then is reported as
// unstable, because most such failures come from a machine too busy for the deadlines of the test. `--quick` runs what needs
// neither root nor components. Other arguments go to vitest; with any, nothing is checked, built or repeated.
import { type PartOptions, TestRun } from './test/run.ts';

const CHECKS = ['format:check', 'lint', 'types', 'layers', 'keys', 'names', 'unused', 'lock:check', 'docs:check'];
const QUICK = ['--project=unit', '--project=sim'];
const ON_REAL_PARTS = ['--project=netns*', '--project=contract*', '--project=e2e*'];
const FUZZ = ['node_modules/vitest/vitest.mjs', 'run', '--project=fuzz'];
/** Of what computes beside tests on real parts, whose deadlines it must not touch. */
const NICENESS = 10;

const chosen = process.argv.slice(2);
const run = new TestRun();
if (chosen.includes('--quick')) {
  const checked = checkAll();
  run.fail(...(await run.vitest(QUICK)));
  await checked;
} else if (chosen.length > 0) {
  run.fail(...(await run.vitest(chosen)));
} else {
  const beside = computeBeside();
  if ((await run.part('components', 'node', ['scripts/build-components.ts'])) === 0) {
    const failed = await run.vitest(ON_REAL_PARTS);
    await beside;
    await run.repeatAlone(failed);
  } else run.fail('components: see above');
  await beside;
}
run.close();

async function computeBeside(): Promise<void> {
  const checked = checkAll({ niceness: NICENESS });
  run.fail(...(await run.vitest(QUICK, { niceness: NICENESS })));
  await checked;
  await run.check('fuzz', 'node', FUZZ, { isQuiet: true, niceness: NICENESS });
}

/** Two at a time: most use one core. */
async function checkAll(options: PartOptions = {}): Promise<void> {
  const left = [...CHECKS];
  const work = async (): Promise<void> => {
    for (let name = left.shift(); name !== undefined; name = left.shift())
      await run.check(`check ${name}`, 'npm', ['run', '--silent', name], options);
  };
  await Promise.all([work(), work()]);
}
