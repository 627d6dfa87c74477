import type { ResourceKind } from '../../model/kinds.ts';
import type { ApiObject } from '../../kube/objects.ts';
import type { OrchApi } from '../../kube/orch-api.ts';
import { ResourceFeed } from '../resource-feed.ts';
import type { ResourceChange } from '../watch-store.ts';
import { followSources } from './follow-sources.ts';
import { collectionOf, seenBy } from './resource-objects.ts';

/** One watch. */
export async function* watchResources<K extends ResourceKind>(
  api: OrchApi,
  kind: K,
  signal: AbortSignal,
): AsyncGenerator<ResourceChange<K>> {
  const feed = new ResourceFeed(kind);
  const source = {
    collection: collectionOf(kind),
    options: {},
    // Neither a namespace nor a name holds a slash.
    namesIn: ({ metadata }: ApiObject) => [`${metadata.namespace ?? ''}/${metadata.name}`],
    take: (path: string, object: ApiObject | undefined) => {
      const [namespace = '', name = ''] = path.split('/');
      const which = { kind, name, ...(namespace === '' ? {} : { namespace }) };
      return feed.take({ which, seen: object === undefined ? {} : seenBy(object, kind) });
    },
  };
  yield* followSources(api, { sources: [source], all: () => feed.all() }, signal);
}
