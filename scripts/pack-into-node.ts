import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { inject } from 'postject';
import { ADDON, MAIN, type Pack, runAlone } from './application.ts';

/** Marks where Node looks for the application inside its own binary. */
const FUSE = 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2';
/** Seeds what would be random otherwise. */
const SEEDED = ['--no-warnings', '--random-seed=1'];

/** Puts bundle and addon into Node, with a cache of compiled code. `execArgv` are options of Node that it starts with. */
export function packIntoNode({ execArgv }: { readonly execArgv: readonly string[] }): Pack {
  return {
    runtime: (platform) => platform.node(),
    make: async (folder, platform) => {
      const executable = join(folder, 'node');
      copyFileSync(platform.node(), executable);
      const config = {
        main: `/mnt/${MAIN}`,
        output: '/mnt/blob',
        disableExperimentalSEAWarning: true,
        useCodeCache: true,
        execArgv,
        execArgvExtension: 'none',
        assets: { [ADDON]: `/mnt/${ADDON}` },
      };
      writeFileSync(join(folder, 'sea.json'), JSON.stringify(config));
      runAlone(folder, [...platform.run, '/mnt/node', ...SEEDED, '--experimental-sea-config', '/mnt/sea.json']);
      await inject(executable, 'NODE_SEA_BLOB', readFileSync(join(folder, 'blob')), { sentinelFuse: FUSE });
      return executable;
    },
  };
}
