import type { NodeName } from '../../model/names.ts';
import type { OrchApi } from '../../kube/orch-api.ts';
import { NodeFeed } from '../node-feed.ts';
import type { NodeChange } from '../watch-store.ts';
import { followSources } from './follow-sources.ts';
import { nodeSources } from './node-sources.ts';

/** Seven watches. */
export async function* watchNode(api: OrchApi, node: NodeName, signal: AbortSignal): AsyncGenerator<NodeChange> {
  const feed = new NodeFeed(node);
  yield* followSources(api, { sources: nodeSources(feed), all: () => feed.all() }, signal);
}
