import { isDeepStrictEqual } from 'node:util';
import { never } from '../../../base/errors.ts';
import type { NodeFacts } from '../../../datastore/node-status-store.ts';
import { encodeBlock } from '../../../model/ip-block-codec.ts';
import type { IpBlock } from '../../../model/ip-block.ts';
import type { NodeName } from '../../../model/names.ts';
import { resourceIdOf, showResourceId } from '../../../model/resource-id.ts';
import { endpointIdOf, type WorkloadEndpoint } from '../../../model/workload-endpoint.ts';
import { formatCidr } from '../../../net/cidr.ts';
import { counted } from '../../../base/counted.ts';
import type { PlainResource } from './contents.ts';

/** One thing that a datastore takes, or gives back, by itself. */
export type StoredItem =
  | { readonly kind: 'resource'; readonly resource: PlainResource }
  /** What a node's agent told of it, where the nodes are the orchestrator's. */
  | { readonly kind: 'facts'; readonly node: NodeName; readonly facts: NodeFacts }
  | { readonly kind: 'block'; readonly block: IpBlock }
  | { readonly kind: 'endpoint'; readonly endpoint: WorkloadEndpoint };

/** How people call it; no two things of a datastore are called the same. */
export function itemName(item: StoredItem): string {
  switch (item.kind) {
    case 'resource':
      return showResourceId(resourceIdOf(item.resource));
    case 'facts':
      return `facts of node "${item.node}"`;
    case 'block':
      return `block ${formatCidr(item.block.cidr)}`;
    case 'endpoint': {
      const { node, namespace, name } = endpointIdOf(item.endpoint);
      return `endpoint "${namespace}/${name}" of node "${node}"`;
    }
    default:
      return never(item);
  }
}

const WORDS: Readonly<Record<StoredItem['kind'], readonly [one: string, many: string]>> = {
  resource: ['resource', 'resources'],
  facts: ['record of a node', 'records of nodes'],
  block: ['block', 'blocks'],
  endpoint: ['endpoint', 'endpoints'],
};

/** Such as `2 blocks`. */
export function countItems(kind: StoredItem['kind'], count: number): string {
  return counted(count, ...WORDS[kind]);
}

/** Whether both say the same; identity and version are each datastore's own, labels of an endpoint the pod's. */
export function isSame(a: StoredItem, b: StoredItem): boolean {
  return isDeepStrictEqual(essence(a), essence(b));
}

function essence(item: StoredItem): unknown {
  switch (item.kind) {
    case 'resource': {
      const { metadata, spec } = item.resource;
      const { labels = {}, annotations = {} } = metadata;
      return plain({ labels, annotations, spec });
    }
    case 'facts':
      return item.facts;
    case 'block':
      return plain(encodeBlock(item.block));
    case 'endpoint':
      return plain(item.endpoint.spec);
    default:
      return never(item);
  }
}

/** Through JSON, because an absent field and an undefined one are the same to a datastore. */
function plain(value: object): unknown {
  return JSON.parse(JSON.stringify(value));
}
