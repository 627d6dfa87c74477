import { spawnSync } from 'node:child_process';
import { mkdtempDisposableSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { build } from 'esbuild';
import { expect, it } from 'vitest';
import { OPTIONS } from './bundle.ts';
import { platformOf } from './platform.ts';

/** What `using` may be compiled into wrongly: an error of one round that is thrown again in the next. */
const loopWith = (using: string): string => `
  for (let round = 0; round < 3; round += 1) {
    try {
      ${using} guard = { [Symbol.dispose]: dispose, [Symbol.asyncDispose]: dispose };
      if (round === 0) throw new Error('failed');
      rounds.push('done');
    } catch (cause) {
      rounds.push(cause.message);
    }
  }`;
const PROGRAM = `void (async () => {
  const rounds = [];
  const dispose = () => void rounds.push('disposed');
  ${loopWith('using')}
  ${loopWith('await using')}
  process.stdout.write(rounds.join());
})();`;
const ONCE = 'disposed,failed,done,disposed,done,disposed';

it.each([
  ['Node', process.execPath],
  ['Bun', platformOf(process.arch === 'arm64' ? 'arm64' : 'x64').bun().compiler],
])('a loop with "using" goes on after a failure when it is compiled as the programs are, in %s', async (_, runtime) => {
  using folder = mkdtempDisposableSync(join(tmpdir(), 'netplug-bundle-'));
  const { outputFiles } = await build({
    ...OPTIONS,
    stdin: { contents: PROGRAM },
    write: false,
  });
  const file = join(folder.path, 'loop.cjs');
  writeFileSync(file, outputFiles[0]?.contents ?? '');
  const { stdout, stderr } = spawnSync(runtime, [file], { encoding: 'utf8' });
  expect({ stdout, stderr }).toEqual({ stdout: `${ONCE},${ONCE}`, stderr: '' });
});
