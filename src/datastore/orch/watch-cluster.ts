import { inPieces } from '../../base/pieces.ts';
import type { OrchApi } from '../../kube/orch-api.ts';
import type { NodeName } from '../../model/names.ts';
import { ClusterFeed } from '../cluster-feed.ts';
import type { ClusterChange } from '../watch-store.ts';
import { clusterSources } from './cluster-sources.ts';
import { followSources } from './follow-sources.ts';
import { olderNodes } from './older-nodes.ts';
import { seenBy } from './resource-objects.ts';

/** Six watches, one of a kind. */
export async function* watchCluster(api: OrchApi, node: NodeName, signal: AbortSignal): AsyncGenerator<ClusterChange> {
  const feed = new ClusterFeed();
  const all = async (): Promise<ClusterChange> => {
    const isKnown = (name: string): boolean => feed.has({ kind: 'Node', name });
    for (const object of await olderNodes(api, isKnown, signal))
      feed.resource({ kind: 'Node', name: object.metadata.name }, seenBy(object, 'Node'));
    return inPieces(feed.all());
  };
  yield* followSources(api, { sources: clusterSources(feed, node), all }, signal);
}
