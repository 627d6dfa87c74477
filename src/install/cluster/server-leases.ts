import type { ApiObject } from '../../kube/objects.ts';
import type { OrchApi } from '../../kube/orch-api.ts';
import { LEASES } from '../../kube/paths.ts';
import { SYSTEM_NAMESPACE, TYPHA_LEASES } from './names.ts';

const COLLECTION = { ...LEASES, namespace: SYSTEM_NAMESPACE } as const;
const SERVERS = { labelSelector: `${TYPHA_LEASES.label}=${TYPHA_LEASES.value}` } as const;

/** Returns the Leases of the servers of the fan-out. @throws store/* */
export async function listServerLeases(api: OrchApi, signal: AbortSignal): Promise<readonly ApiObject[]> {
  return api.list(COLLECTION, SERVERS, signal);
}

/** Deletes the Leases that servers have left, which nothing else removes. @throws store/* */
export async function deleteServerLeases(api: OrchApi, signal: AbortSignal): Promise<void> {
  for (const { metadata } of await listServerLeases(api, signal))
    await api.delete({ collection: COLLECTION, name: metadata.name, preconditions: {} }, signal);
}
