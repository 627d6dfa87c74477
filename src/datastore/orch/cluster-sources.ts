import type { ApiObject } from '../../orch-api/objects.ts';
import { NODES } from '../../orch-api/paths.ts';
import type { ClusterFeed, Seen } from '../cluster-feed.ts';
import type { ClusterChange, RoutingResource } from '../store.ts';
import { BLOCKS, readRouting } from './block-objects.ts';
import type { Source } from './followed-objects.ts';
import { cidrOfBlockName } from './names.ts';
import { nodeProblems } from './node-objects.ts';
import { collectionOf, resourceReader } from './resource-objects.ts';
import { Unreadable } from './unreadable.ts';

/** The watches that tell what routes depend on. */
export function clusterSources(feed: ClusterFeed): readonly Source<ClusterChange>[] {
  return [
    ...(['IPPool', 'BGPConfiguration', 'BGPPeer'] as const).map((kind) =>
      resourceSource(feed, kind, (object) => seenBy(object, kind)),
    ),
    { ...resourceSource(feed, 'Node', seenNode), collection: NODES },
    blockSource(feed),
  ];
}

function resourceSource(
  feed: ClusterFeed,
  kind: RoutingResource['kind'],
  see: (object: ApiObject) => Seen<RoutingResource>,
): Source<ClusterChange> {
  return {
    collection: collectionOf(kind),
    options: {},
    namesIn: ({ metadata }) => [metadata.name],
    take: (name, object) => feed.resource({ kind, name }, object === undefined ? {} : see(object)),
  };
}

/** What routes need of a block stands in its metadata: a start of a pod costs no more than that. */
function blockSource(feed: ClusterFeed): Source<ClusterChange> {
  return {
    collection: BLOCKS,
    options: { only: 'names' },
    namesIn: ({ metadata }) => (cidrOfBlockName(metadata.name) === undefined ? [] : [metadata.name]),
    take: (name, object) => {
      const cidr = cidrOfBlockName(name);
      if (cidr === undefined) return [];
      return feed.block(cidr, object === undefined ? {} : readRouting(object));
    },
  };
}

function seenBy(object: ApiObject, kind: RoutingResource['kind']): Seen<RoutingResource> {
  const read = resourceReader(kind)(object);
  return read instanceof Unreadable ? { problem: read.problem } : { value: read };
}

/** Nodes are of others: nonsense in one annotation must not hide the rest. */
function seenNode(object: ApiObject): Seen<RoutingResource> {
  const problems = nodeProblems(object);
  return { ...seenBy(object, 'Node'), ...(problems.length === 0 ? {} : { problem: problems.join('; ') }) };
}
