// An etcd of three members inside a test node, each of which can be replaced by another release.
import { join } from 'node:path';
import { program } from './components.ts';
import { type Json, type Service, type TestNode, until } from './node.ts';

export type EtcdRelease = '3.6' | '3.7';

export interface EtcdMembers {
  /** Endpoint URLs of all members, separated by commas. */
  readonly endpoints: string;
  /** Stops one member and starts it with the release on the same data; returns when it takes part again. */
  replace(index: number, release: EtcdRelease): Promise<void>;
  /** Release that each member says it is, in order. */
  versions(): Promise<readonly string[]>;
  /** Release whose features and storage all members agree on, such as `3.6.0`. */
  clusterVersion(): Promise<string>;
}

const MEMBERS = [0, 1, 2];
const clientUrl = (index: number): string => `http://127.0.0.1:${String(2379 + 10 * index)}`;
const peerUrl = (index: number): string => `http://127.0.0.1:${String(2380 + 10 * index)}`;

/** Starts three members; the first one serves where the helpers of a test node look for etcd. They end with the node. */
export async function startEtcdMembers(
  node: Pick<TestNode, 'dir' | 'start' | 'run' | 'exec'>,
  release: EtcdRelease,
): Promise<EtcdMembers> {
  const running: Service[] = [];
  const startMember = async (index: number, version: EtcdRelease): Promise<void> => {
    running[index] = await node.start([
      program(version === '3.6' ? 'etcd-3.6' : 'etcd'),
      `--name=member-${String(index)}`,
      `--data-dir=${join(node.dir, `etcd-${String(index)}`)}`,
      `--listen-client-urls=${clientUrl(index)}`,
      `--advertise-client-urls=${clientUrl(index)}`,
      `--listen-peer-urls=${peerUrl(index)}`,
      `--initial-advertise-peer-urls=${peerUrl(index)}`,
      `--initial-cluster=${MEMBERS.map((each) => `member-${String(each)}=${peerUrl(each)}`).join(',')}`,
      '--initial-cluster-state=new',
    ]);
  };
  const isHealthy = async (index: number): Promise<boolean> =>
    (await node.run(['etcdctl', `--endpoints=${clientUrl(index)}`, 'endpoint', 'health'])).status === 0;
  const healthy = async (index: number): Promise<void> =>
    until(
      async () => isHealthy(index),
      () => `member ${String(index)} is healthy; it says:\n${running[index]?.log().slice(-4000) ?? ''}`,
    );
  for (const index of MEMBERS) await startMember(index, release);
  for (const index of MEMBERS) await healthy(index);
  const versionOf = async (index: number): Promise<Json> =>
    JSON.parse(await node.exec('curl', '--silent', '--max-time', '5', `${clientUrl(index)}/version`));
  return {
    endpoints: MEMBERS.map(clientUrl).join(','),
    replace: async (index, version) => {
      await running[index]?.stop();
      await startMember(index, version);
      await healthy(index);
    },
    versions: async () => Promise.all(MEMBERS.map(async (index) => (await versionOf(index)).etcdserver)),
    clusterVersion: async () => (await versionOf(0)).etcdcluster,
  };
}
