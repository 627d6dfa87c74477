import type { ApiObject } from '../../kube/objects.ts';
import type { OrchApi } from '../../kube/orch-api.ts';
import { LEASES } from '../../kube/paths.ts';
import { CLIENTS_ANNOTATION, SYSTEM_NAMESPACE, TYPHA_LEASES } from './names.ts';
import { valueAt } from './spec-path.ts';

const SILENT_MS = 60_000;

const COLLECTION = { ...LEASES, namespace: SYSTEM_NAMESPACE } as const;
const SERVERS = { labelSelector: `${TYPHA_LEASES.label}=${TYPHA_LEASES.value}` } as const;

/** Returns the Leases of the servers of the fan-out. @throws store/* */
export async function listServerLeases(api: OrchApi, signal: AbortSignal): Promise<readonly ApiObject[]> {
  return api.list(COLLECTION, SERVERS, signal);
}

/**
 * Returns the number of agents that the servers say they serve. A server that has not renewed its Lease for a minute, by the clock
 * of those that have, serves none. Pure.
 */
export function connectedAgents(leases: readonly ApiObject[]): number {
  const said = leases.map(({ metadata, spec }) => ({
    clients: Number(metadata.annotations?.[CLIENTS_ANNOTATION] ?? 0),
    renewedMs: Date.parse(String(valueAt(spec, 'renewTime'))),
  }));
  const newestMs = Math.max(...said.map(({ renewedMs }) => renewedMs).filter(Number.isFinite));
  return said
    .filter(({ clients, renewedMs }) => Number.isSafeInteger(clients) && newestMs - renewedMs < SILENT_MS)
    .reduce((sum, { clients }) => sum + clients, 0);
}

/** Deletes the Leases that servers have left, which nothing else removes. @throws store/* */
export async function deleteServerLeases(api: OrchApi, signal: AbortSignal): Promise<void> {
  for (const { metadata } of await listServerLeases(api, signal))
    await api.delete({ collection: COLLECTION, name: metadata.name, preconditions: {} }, signal);
}
