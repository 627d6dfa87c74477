import { inPieces } from '../../base/pieces.ts';
import type { OrchApi } from '../../kube/orch-api.ts';
import { ClusterFeed } from '../cluster-feed.ts';
import type { ClusterChange } from '../watch-store.ts';
import { clusterSources } from './cluster-sources.ts';
import { followSources } from './follow-sources.ts';

/** Five watches, one of a kind. */
export async function* watchCluster(api: OrchApi, signal: AbortSignal): AsyncGenerator<ClusterChange> {
  const feed = new ClusterFeed();
  yield* followSources(api, { sources: clusterSources(feed), all: async () => inPieces(feed.all()) }, signal);
}
