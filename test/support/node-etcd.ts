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
      await resumeProcess(node, pid);
    }
    const health = ['etcdctl', '--endpoints=http://127.0.0.1:2379', 'endpoint', 'health'];
    await until(async () => (await node.run(health, { env: { ETCDCTL_API: '3' } })).status === 0, 'etcd is back');
  };
  return { end, [Symbol.asyncDispose]: end };
}

/** Lets a stopped process of the node go on, with the nsenter that stopped itself with its child and would never end. */
export async function resumeProcess(node: Pick<TestNode, 'run'>, pid: string): Promise<void> {
  await node.run(['kill', '-CONT', pid]);
  await promisify(execFile)('pkill', ['-CONT', '-P', String(process.pid), '-x', 'nsenter']);
}
