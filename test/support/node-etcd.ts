// Faults of the etcd of a test node.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { TestNode } from './node.ts';
import { until } from './until.ts';

export interface Absence extends AsyncDisposable {
  /** Brings it back with everything it had; repeating it is fine. */
  end(): Promise<void>;
}

/** Lets it hang, or kills it. */
export async function takeAwayEtcd(
  node: Pick<TestNode, 'exec' | 'run' | 'start'>,
  how: 'hangs' | 'is killed',
): Promise<Absence> {
  const pid = (await node.exec('pgrep', '-x', 'etcd')).trim();
  const command = (await node.exec('cat', `/proc/${pid}/cmdline`)).split('\0').filter((word) => word !== '');
  await node.exec('kill', how === 'hangs' ? '-STOP' : '-KILL', pid);
  let isOver = false;
  const end = async (): Promise<void> => {
    if (isOver) return;
    isOver = true;
    if (how === 'is killed') await node.start(command);
    else {
      await node.exec('kill', '-CONT', pid);
      // nsenter stops itself with its child, and nobody would bury the child later.
      await promisify(execFile)('pkill', ['-CONT', '-P', String(process.pid), '-x', 'nsenter']);
    }
    const health = ['etcdctl', '--endpoints=http://127.0.0.1:2379', 'endpoint', 'health'];
    await until(async () => (await node.run(health, { env: { ETCDCTL_API: '3' } })).status === 0, 'etcd is back');
  };
  return { end, [Symbol.asyncDispose]: end };
}
