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
import type { WriteStep } from '../../../plans/plan.ts';
import type { PlainResource } from './contents.ts';

/** A record that is written or removed individually. */
export type StoredItem =
  | { readonly kind: 'resource'; readonly resource: PlainResource }
  /** Facts that the agent of a node published, when the orchestrator manages the nodes. */
  | { readonly kind: 'facts'; readonly node: NodeName; readonly facts: NodeFacts }
  | { readonly kind: 'block'; readonly block: IpBlock }
  | { readonly kind: 'endpoint'; readonly endpoint: WorkloadEndpoint };

/** Returns a readable name that is unique in a datastore. */
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

const VERBS = { create: 'write', remove: 'remove' } as const;

/** Returns a step of a plan for the items of each kind, in their order. */
export function stepsByKind<A extends keyof typeof VERBS>(
  act: A,
  all: readonly StoredItem[],
): readonly WriteStep<{ readonly act: A; readonly items: StoredItem['kind']; readonly count: number }>[] {
  return [...Map.groupBy(all, ({ kind }) => kind)].map(([items, { length: count }]) => {
    return { kind: 'write', text: `${VERBS[act]} ${counted(count, ...WORDS[items])}`, act, items, count } as const;
  });
}

/** Reports whether two items are equal apart from uid and version, and from the labels of an endpoint, which its pod decides. */
export function isSame(a: StoredItem, b: StoredItem): boolean {
  return isDeepStrictEqual(comparable(a), comparable(b));
}

function comparable(item: StoredItem): unknown {
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

/** Passes the value through JSON, because datastores do not distinguish absent and undefined fields. */
function plain(value: object): unknown {
  return JSON.parse(JSON.stringify(value));
}
