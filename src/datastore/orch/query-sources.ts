import { isDeepStrictEqual } from 'node:util';
import { never } from '../../base/errors.ts';
import type { ApiObject } from '../../kube/objects.ts';
import type { ResourceKind } from '../../model/kinds.ts';
import type { NodeName } from '../../model/names.ts';
import { isDerivedName } from '../../model/policy-names.ts';
import { formatCidr } from '../../net/cidr.ts';
import type { Query, ResourceRecord } from '../follow.ts';
import { BLOCKS, readRouting } from './block-objects.ts';
import { podSource, derivedSource, endpointSliceSource } from './derived-sources.ts';
import { ALL_ENDPOINTS, ENDPOINTS, endpointsOf, readEndpoint } from './endpoint-objects.ts';
import { cidrOfBlockName } from './names.ts';
import { NETPLUG_NODES } from '../../model/netplug-node.ts';
import { readNetplugNode } from './netplug-nodes.ts';
import { type BlockMetadata, metadataBlockSource, nodeBlockSource } from './node-blocks.ts';
import { collectionOf, seenBy } from './resource-objects.ts';
import { type Source, type Watched, watchedSource } from './source.ts';
import { Unreadable } from '../unreadable.ts';

export interface SourceOptions {
  /** Given where blocks of nodes are followed by their metadata. */
  readonly blockMetadata?: BlockMetadata | undefined;
  /** Whether records have the object in which they are, as far as readers of other releases, or of objects, need it. */
  readonly withStored?: boolean;
}

/** Returns the watches that answer a query. */
export function sourcesOf(query: Query, index: number, options: SourceOptions = {}): readonly Source[] {
  const sources = decodedSourcesOf(query, index, options);
  if (options.withStored !== true || !hasStored(query)) return sources;
  return sources.map((source) => {
    const { watched, resume } = source;
    if (watched === undefined) return source;
    const { collection, options: selected } = watched;
    const recordsIn: Watched['recordsIn'] = (object) =>
      watched.recordsIn(object).map((record) => ({ ...record, stored: object }));
    return watchedSource({ collection, options: selected, recordsIn }, { canResume: resume !== undefined });
  });
}

/** Reports whether records of the query are of objects that have more than what this release reads of them, or that calls need. */
function hasStored(query: Query): boolean {
  if (query.kind === 'derived-resources') return query.from !== 'ServiceAccount';
  return query.kind === 'resources' || query.kind === 'other-nodes' || query.kind === 'block-routes';
}

function decodedSourcesOf(query: Query, index: number, { blockMetadata }: SourceOptions): readonly Source[] {
  switch (query.kind) {
    case 'resources':
      return [resourceSource(query.of, index, query.name)];
    case 'other-nodes':
      return [otherNodesSource(query.self, index)];
    case 'node-blocks':
      return [
        blockMetadata === undefined
          ? nodeBlockSource(query.node, index)
          : metadataBlockSource(query.node, index, blockMetadata),
      ];
    case 'block-routes':
      return [routeSource(index)];
    case 'endpoints':
      return [endpointSource(query.node, index)];
    case 'pods':
      return [podSource(index)];
    case 'derived-resources':
      return [derivedSource(query.from, index)];
    case 'service-endpoints':
      return [endpointSliceSource(index)];
    default:
      return never(query);
  }
}

function resourceRecord(
  object: ApiObject,
  { kind, query }: { readonly kind: ResourceKind; readonly query: number },
): ResourceRecord {
  const { name, namespace, resourceVersion = '' } = object.metadata;
  const which = { kind, name, ...(namespace === undefined ? {} : { namespace }) };
  // Neither a namespace nor a name holds a slash.
  const key = namespace === undefined ? name : `${namespace}/${name}`;
  return { kind: 'resource', query, key, version: resourceVersion, which, ...seenBy(object, kind) };
}

function resourceSource(kind: ResourceKind, query: number, only: string | undefined): Source {
  const watched: Watched = {
    collection: collectionOf(kind),
    options: { isPacked: true, ...(only === undefined ? {} : { fieldSelector: `metadata.name=${only}` }) },
    // A user of netplug's resources must not replace a policy or profile of the orchestrator by one of its name.
    recordsIn: (object) => (isDerivedName(kind, object.metadata.name) ? [] : [resourceRecord(object, { kind, query })]),
  };
  return watchedSource(watched, { canResume: true });
}

/** Every Node changes with each heartbeat of its kubelet: of other nodes only the objects of their agents are watched. */
function otherNodesSource(self: NodeName | undefined, query: number): Source {
  const watched: Watched = {
    collection: NETPLUG_NODES,
    options: self === undefined ? {} : { fieldSelector: `metadata.name!=${self}` },
    recordsIn: (object) => {
      const { name, resourceVersion: version = '' } = object.metadata;
      const which = { kind: 'Node', name } as const;
      return [{ kind: 'resource', query, key: name, version, which, ...readNetplugNode(object) }];
    },
  };
  return watchedSource(watched, { canResume: true });
}

/** Returns a source of metadata, which has what routes need of a block: a start of a pod costs no more than that. */
function routeSource(query: number): Source {
  const watched: Watched = {
    collection: BLOCKS,
    options: { only: 'names' },
    recordsIn: (object) => {
      const cidr = cidrOfBlockName(object.metadata.name);
      // The version changes with every pod, and nothing compares it.
      if (cidr === undefined) return [];
      return [{ kind: 'route', query, key: formatCidr(cidr), version: '', ...readRouting(object) }];
    },
    isSame: ({ metadata: before }, { metadata: after }) =>
      isDeepStrictEqual([before.labels, before.annotations], [after.labels, after.annotations]),
  };
  return watchedSource(watched, { canResume: true });
}

function endpointSource(node: NodeName | undefined, query: number): Source {
  const watched: Watched = {
    collection: ENDPOINTS,
    options: node === undefined ? ALL_ENDPOINTS : endpointsOf(node),
    recordsIn: (object) => {
      const read = readEndpoint(object);
      const base = { kind: 'endpoint', query, key: object.metadata.name } as const;
      if (!(read instanceof Unreadable)) return [{ ...base, ...read }];
      return [{ ...base, version: object.metadata.resourceVersion ?? '', problem: read.problem }];
    },
  };
  return watchedSource(watched, { canResume: true });
}
