import type { NodeName } from '../../model/names.ts';
import type { ClusterFeed } from '../cluster-feed.ts';
import { type ClusterChange, ROUTING_KINDS, type RoutingResource } from '../watch-store.ts';
import { BLOCKS, readRouting } from './block-objects.ts';
import type { Source } from './followed-objects.ts';
import { cidrOfBlockName } from './names.ts';
import { NETPLUG_NODES, readNetplugNode } from './netplug-nodes.ts';
import { collectionOf, seenBy } from './resource-objects.ts';

/** The watches that tell what routes depend on. */
export function clusterSources(feed: ClusterFeed, node: NodeName): readonly Source<ClusterChange>[] {
  return [
    ...ROUTING_KINDS.map((kind) => resourceSource(feed, kind, kind === 'Node' ? node : undefined)),
    otherNodesSource(feed, node),
    blockSource(feed),
  ];
}

function resourceSource(
  feed: ClusterFeed,
  kind: RoutingResource['kind'],
  only: string | undefined,
): Source<ClusterChange> {
  return {
    collection: collectionOf(kind),
    options: only === undefined ? {} : { fieldSelector: `metadata.name=${only}` },
    namesIn: ({ metadata }) => [metadata.name],
    take: (name, object) => feed.resource({ kind, name }, object === undefined ? {} : seenBy(object, kind)),
  };
}

/** Every Node changes with each heartbeat of its kubelet: of other nodes only the objects of their agents are watched. */
function otherNodesSource(feed: ClusterFeed, node: NodeName): Source<ClusterChange> {
  return {
    collection: NETPLUG_NODES,
    options: { fieldSelector: `metadata.name!=${node}` },
    namesIn: ({ metadata }) => [metadata.name],
    take: (name, object) => feed.resource({ kind: 'Node', name }, object === undefined ? {} : readNetplugNode(object)),
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
