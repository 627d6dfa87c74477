// Gives the programs on every node of a cluster their access to the API, with no more rights than the shipped manifest.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ClusterNode } from './cluster-node.ts';
import type { ApiServer } from './kube.ts';

/** Of the plugin. */
export const KUBECONFIG = '/etc/cni/net.d/netplug-kubeconfig';
/** Of the agent: NETPLUG_ORCHCONFIG. */
export const AGENT_KUBECONFIG = '/etc/netplug/agent-kubeconfig';

const FILES = { 'netplug-cni': KUBECONFIG, 'netplug-agent': AGENT_KUBECONFIG };

/** In the order in which they are applied; the last two are options. */
const MANIFESTS = ['crds.yaml', 'rbac.yaml', 'admission.yaml', 'node-restriction.yaml'];

/**
 * Applies all manifests, writes kubeconfigs for the accounts of plugin and agent on every node, with tokens that are
 * bound to the node, and waits for its agent.
 */
export async function giveAccess(cluster: {
  readonly api: Pick<ApiServer, 'tokenFor' | 'kubeconfigFor'>;
  readonly apply: ApiServer['apply'];
  readonly nodes: readonly Pick<ClusterNode, 'name' | 'machine' | 'agent'>[];
}): Promise<void> {
  for (const file of MANIFESTS) {
    await cluster.apply(await readFile(join(import.meta.dirname, '../../manifests', file), 'utf8'));
  }
  for (const { name: node, machine } of cluster.nodes) {
    for (const [account, file] of Object.entries(FILES)) {
      const token = await cluster.api.tokenFor(`netplug-system/${account}`, { node });
      const path = await cluster.api.kubeconfigFor(token);
      await machine.exec('install', '-D', '-m', '600', path, file);
    }
  }
  for (const node of cluster.nodes) await node.agent()?.ready();
}
