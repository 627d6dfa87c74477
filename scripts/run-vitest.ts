// Runs vitest so that the tests neither see nor touch what is installed on this machine: in a mount namespace where
// /etc, /opt, /run and /var are overlays that hold a hostile installation of netplug. Takes the arguments of vitest.
// "npx vitest" works as well, without this protection.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

const HOSTILE = join(import.meta.dirname, 'hostile-machine.ts');
const VITEST = join(import.meta.dirname, '../node_modules/vitest/vitest.mjs');

/** The overlays keep the tmpfs in use, so that neither a mount nor a folder stays behind, however the tests end. */
const OVERLAYS = `
set -e
# Below no folder that an overlay covers.
upper=$(mktemp -d -p /tmp)
trap 'rmdir "$upper"' EXIT
mount -t tmpfs tmpfs "$upper"
for tree in etc opt run var; do
  mkdir "$upper/$tree" "$upper/$tree.work"
  chmod --reference="/$tree" "$upper/$tree"
  mount -t overlay overlay -o "lowerdir=/$tree,upperdir=$upper/$tree,workdir=$upper/$tree.work" "/$tree"
done
umount --lazy "$upper"
rmdir "$upper"
trap - EXIT
[ $# -eq 0 ] || exec "$@"
`;
const ISOLATED = ['unshare', '--mount', '--propagation', 'slave', 'sh', '-c', OVERLAYS, 'sh'] as const;

const [isolate, ...isolated] = ISOLATED;
const trial = spawnSync(isolate, isolated, { encoding: 'utf8' });
const args = process.argv.slice(2);
if (trial.status !== 0)
  process.stderr.write(
    `tests see the installation of this machine: overlays need root and a kernel that has them\n${trial.stderr ?? ''}`,
  );
const [file, ...rest] =
  trial.status === 0 ? [...ISOLATED, process.execPath, HOSTILE, VITEST, ...args] : [process.execPath, VITEST, ...args];
const child = spawn(file, rest, { stdio: 'inherit' });
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => child.kill(signal));
const [status] = (await once(child, 'exit')) as [number | null];
process.exitCode = status ?? 1;
