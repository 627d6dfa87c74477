import { NetplugError } from '../base/errors.ts';
import type { OrchApi } from './orch-api.ts';
import { NAMESPACES } from './paths.ts';

/** Exists as long as its cluster. */
const EVERLASTING = 'kube-system';

/** Returns what identifies the cluster of the API server. @throws store/unavailable, store/refused */
export async function orchClusterUid(api: OrchApi, signal: AbortSignal): Promise<string> {
  const answer = await api.get(NAMESPACES, EVERLASTING, signal);
  const uid = answer.outcome === 'ok' ? answer.value.metadata.uid : undefined;
  if (uid !== undefined && uid !== '') return uid;
  const found = answer.outcome === 'ok' ? 'it has no uid' : answer.message;
  throw new NetplugError(
    'store/unavailable',
    `Cannot tell of which cluster the API server is: namespace "${EVERLASTING}": ${found}`,
    { hint: 'A new cluster has this namespace soon. Otherwise check that ORCHCONFIG names a Kubernetes API server' },
  );
}
