import { join } from 'node:path';
import { ADDON, MAIN, type Pack, runAlone } from './application.ts';

const EXECUTABLE = 'executable';
/** Files in the working directory of a call must not change the program. */
const ISOLATED = ['dotenv', 'bunfig', 'tsconfig', 'package-json'].map((name) => `--no-compile-autoload-${name}`);

/** Code must run this many times as often as usual before it is compiled to machine code. */
const JIT_POLICY = 10;

/** Puts bundle and addon into Bun, with the bytecode of all functions. */
export const packIntoBun: Pack = {
  runtime: (platform) => platform.bun().target,
  make: async (folder, platform) => {
    const { compiler, target } = platform.bun();
    const runtime = [`--target=bun-linux-${platform.architecture}`, `--compile-executable-path=${target}`];
    const code = ['--bytecode', `--compile-jit-policy=${String(JIT_POLICY)}`];
    const output = [`--asset=/mnt/${ADDON}`, `--outfile=/mnt/${EXECUTABLE}`, `/mnt/${MAIN}`];
    runAlone(folder, [compiler, 'build', '--compile', ...code, ...ISOLATED, ...runtime, ...output]);
    return Promise.resolve(join(folder, EXECUTABLE));
  },
};
