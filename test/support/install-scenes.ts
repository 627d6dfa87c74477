// Scenes that tests of installations share.
import { expect } from 'vitest';
import { type Cluster, type ClusterOptions, NO_NETWORK, startCluster } from './cluster.ts';
import { builtImage } from './images.ts';
import type { RunResult } from './node.ts';
import { NETPLUGCTL } from './built.ts';

/** Starts a cluster without a network, with the images of netplug on each node. */
export async function startEmptyCluster(more: ClusterOptions = {}): Promise<Cluster> {
  const images = [await builtImage('netplug-node'), await builtImage('netplug'), ...(more.images ?? [])];
  return startCluster({ conflist: NO_NETWORK, networkWorks: 'later', pools: {}, ...more, images });
}

/** Runs netplugctl, or that of another release, as the administrator of the cluster. */
export async function runCtl(
  cluster: Cluster,
  argv: readonly string[],
  { env = {}, tool = NETPLUGCTL }: { readonly env?: Readonly<Record<string, string>>; readonly tool?: string } = {},
): Promise<RunResult> {
  return cluster.control.run([tool, ...argv], { env: { ...administratorOf(cluster), ...env } });
}

/** The environment in which netplugctl is the administrator's. */
export function administratorOf({ api }: Cluster): Record<string, string> {
  return { KUBECONFIG: api.kubeconfig, HOME: api.dir };
}

/** Runs netplugctl, which must not fail, and returns what it prints. */
export async function mustRunCtl(...of: Parameters<typeof runCtl>): Promise<string> {
  const [cluster, argv] = of;
  const { status, stdout, stderr } = await runCtl(...of);
  const pods = status === 0 ? '' : await cluster.kubectl('get', 'pods', '--all-namespaces', '--output=wide');
  expect({ argv, status, stdout, stderr, pods }).toMatchObject({ status: 0 });
  return `${stdout}${stderr}`;
}
