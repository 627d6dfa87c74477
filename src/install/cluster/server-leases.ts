import type { OrchApi } from '../../kube/orch-api.ts';
import { LEASES } from '../../kube/paths.ts';
import { TYPHA } from '../../model/typha.ts';
import { isCurrentServer, type LeasedServer, SERVER_LABEL } from '../../stream/server-lease.ts';
import { leasesInApi } from '../../stream/server-leases.ts';
import { SYSTEM_NAMESPACE } from './names.ts';

const COLLECTION = { ...LEASES, namespace: SYSTEM_NAMESPACE } as const;
const SERVERS = { labelSelector: `${SERVER_LABEL}=${TYPHA}` } as const;

/** Returns the servers of the fan-out as their Leases show them. @throws store/* */
export async function listServers(api: OrchApi, signal: AbortSignal): Promise<readonly LeasedServer[]> {
  return leasesInApi(api, { program: TYPHA, namespace: SYSTEM_NAMESPACE }).list(signal);
}

/** Returns the number of agents that the servers say they serve. One that no longer renews its Lease serves none. */
export function connectedAgents(servers: readonly LeasedServer[]): number {
  return servers.filter((server) => isCurrentServer(server, servers)).reduce((sum, { clients }) => sum + clients, 0);
}

/** Deletes the Leases that servers have left. @throws store/* */
export async function deleteServerLeases(api: OrchApi, signal: AbortSignal): Promise<void> {
  for (const { metadata } of await api.list(COLLECTION, SERVERS, signal))
    await api.delete({ collection: COLLECTION, name: metadata.name, preconditions: {} }, signal);
}
