import { counted } from '../../../base/counted.ts';
import { isNetplugError, NetplugError } from '../../../base/errors.ts';
import { orchClusterUid } from '../../../kube/cluster-uid.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import { NODES } from '../../../kube/paths.ts';

/** What tells a user which cluster a command is about to change. */
export interface ClusterIdentity {
  /** Undefined without a kubeconfig. */
  readonly context: string | undefined;
  readonly server: string;
  /** Uid of the namespace kube-system; undefined when the user may not read it. */
  readonly id: string | undefined;
  readonly nodes: number | undefined;
}

/** @throws store/unavailable, store/config-invalid */
export async function readClusterIdentity(api: OrchApi, signal: AbortSignal): Promise<ClusterIdentity> {
  const [origin, id, nodes] = await Promise.all([
    api.origin(signal),
    orchClusterUid(api, signal).catch(unlessRefused),
    api.list(NODES, { only: 'names' }, signal).then(({ length }) => length, unlessRefused),
  ]);
  return { ...origin, id, nodes };
}

/** Returns the cluster as a phrase for plans and questions. */
export function describeCluster({ context, server, id, nodes }: ClusterIdentity): string {
  return [
    context === undefined ? 'no context' : `context "${context}"`,
    `server ${server}`,
    `id ${id ?? 'unknown'}`,
    nodes === undefined ? 'an unknown number of nodes' : counted(nodes, 'node'),
  ].join(', ');
}

/** Refuses a cluster that is not the one that the user names, by its context or its id. @throws cli/usage */
export function refuseOtherCluster(named: string, { context, id }: ClusterIdentity): void {
  if (named === context || named === id) return;
  throw new NetplugError(
    'cli/usage',
    `Cannot change this cluster: --cluster names "${named}", and it has ${context === undefined ? 'no context' : `the context "${context}"`} and the id ${id ?? 'unknown'}`,
    { hint: 'Choose the other cluster with --context or --kubeconfig, or correct --cluster; nothing was changed' },
  );
}

function unlessRefused(cause: unknown): undefined {
  if (!isNetplugError(cause, 'store/refused')) throw cause;
}
