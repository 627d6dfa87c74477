// A backup of the etcd of a test node, taken and restored as an administrator does.
import { join } from 'node:path';
import { program } from './components.ts';
import { type TestNode, until } from './node.ts';

export interface EtcdBackup {
  /** Replaces all data by those of the backup. */
  restore(): Promise<void>;
}

export async function backUpEtcd(node: Pick<TestNode, 'dir' | 'exec' | 'run' | 'start'>): Promise<EtcdBackup> {
  const file = join(node.dir, 'etcd-backup.db');
  await node.exec('etcdctl', '--endpoints=http://127.0.0.1:2379', 'snapshot', 'save', file);
  return {
    restore: async () => {
      const pid = (await node.exec('pgrep', '-x', 'etcd')).trim();
      const command = (await node.exec('cat', `/proc/${pid}/cmdline`)).split('\0').filter((word) => word !== '');
      const dataDir = command.find((word) => word.startsWith('--data-dir='))?.split('=')[1] ?? '';
      await node.exec('kill', '-KILL', pid);
      await until(async () => (await node.run(['pgrep', '-x', 'etcd'])).status !== 0, 'etcd is gone');
      await node.exec('rm', '-rf', dataDir);
      await node.exec(program('etcdutl'), 'snapshot', 'restore', file, `--data-dir=${dataDir}`);
      await node.start(command);
      const health = ['etcdctl', '--endpoints=http://127.0.0.1:2379', 'endpoint', 'health'];
      await until(async () => (await node.run(health)).status === 0, 'etcd is back');
    },
  };
}
