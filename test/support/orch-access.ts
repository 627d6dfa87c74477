// Gives the plugin on every node of a cluster its access to the API, with no more rights than the shipped manifest.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Cluster } from './cluster.ts';

export const KUBECONFIG = '/etc/cni/net.d/netplug-kubeconfig';

/** Applies CRDs and RBAC, writes a kubeconfig for the plugin's own account on every node, and waits for its agent. */
export async function giveAccess(cluster: Cluster): Promise<void> {
  for (const file of ['crds.yaml', 'rbac.yaml']) {
    await cluster.apply(await readFile(join(import.meta.dirname, '../../manifests', file), 'utf8'));
  }
  const token = await cluster.api.tokenFor('netplug-system/netplug-cni');
  const path = await cluster.api.kubeconfigFor(token);
  for (const node of cluster.nodes) {
    await node.machine.exec('install', '-m', '600', path, KUBECONFIG);
    await node.agent()?.ready();
  }
}
