// Gives the plugin on every node of a cluster its access to the API, with no more rights than the shipped manifest.
import type { Cluster } from './cluster.ts';

export const KUBECONFIG = '/etc/cni/net.d/netplug-kubeconfig';

/** Applies CRDs and RBAC, and writes a kubeconfig for the plugin's own account on every node. */
export async function giveAccess(cluster: Cluster): Promise<void> {
  await cluster.kubectl('apply', '-f', 'manifests/crds.yaml', '-f', 'manifests/rbac.yaml');
  const token = await cluster.api.tokenFor('netplug-system/netplug-cni');
  const path = await cluster.api.kubeconfigFor(token);
  for (const { machine } of cluster.nodes) {
    await machine.exec('install', '-m', '600', path, KUBECONFIG);
  }
}
