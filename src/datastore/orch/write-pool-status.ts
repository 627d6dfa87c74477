import type { OrchApi } from '../../kube/orch-api.ts';
import type { IpPoolStatus } from '../../model/ip-pool-status.ts';
import type { PoolVersion } from '../pool-status-store.ts';
import { resourceChanged, resourceNotFound } from '../resource-errors.ts';
import { refusedError } from './orch-resources.ts';
import { collectionOf } from './resource-objects.ts';

/** Writes only the subresource, for which an account needs a right of its own. */
export async function setPoolStatus(
  api: OrchApi,
  {
    pool: { name, resourceVersion },
    status,
  }: { readonly pool: PoolVersion; readonly status: IpPoolStatus | undefined },
  signal: AbortSignal,
): Promise<void> {
  const which = { kind: 'IPPool', name } as const;
  const body = { metadata: { resourceVersion }, status: status ?? null };
  const place = { collection: collectionOf('IPPool'), name, subresource: 'status' } as const;
  const answer = await api.patch(place, { kind: 'merge', body }, signal);
  if (answer.outcome === 'ok') return;
  if (answer.outcome === 'not-found') throw resourceNotFound(which);
  if (answer.outcome === 'conflict') throw resourceChanged(which);
  throw refusedError(which, answer.message);
}
