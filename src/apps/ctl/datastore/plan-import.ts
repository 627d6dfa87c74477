import { ownValue } from '../../../base/own-value.ts';
import { compareText } from '../../../datastore/order.ts';
import { nodeFactsOf } from '../../../datastore/node-facts.ts';
import { isDnsSubdomain } from '../../../model/dns-name.ts';
import { heldAddresses, type IpBlock } from '../../../model/ip-block.ts';
import type { NodeName } from '../../../model/names.ts';
import type { Node } from '../../../model/node.ts';
import { poolProblems } from '../../../model/pool-conflicts.ts';
import { resourceIdOf, showResourceId } from '../../../model/resource-id.ts';
import { cidrsOverlap, formatCidr } from '../../../net/cidr.ts';
import { counted } from '../../../base/counted.ts';
import type { Contents, PlainResource } from './contents.ts';
import { type Exported, withoutPreallocated } from './export-file.ts';
import { isSame, type StoredItem, itemName } from './items.ts';

export interface ImportTarget {
  readonly type: 'kvv3' | 'orch';
  readonly contents: Contents;
}

/** The difference between a datastore and an exported file. */
export interface ImportPlan {
  /** In the order in which they are written. */
  readonly missing: readonly StoredItem[];
  readonly equal: readonly StoredItem[];
  /** Reasons why the import is refused, a sentence each. */
  readonly conflicts: readonly string[];
  /** Notes on what is skipped, or left to the user. */
  readonly notes: readonly string[];
}

/** Compares the file with the datastore. Every record that differs is a conflict. */
export function planImport(file: Exported, target: ImportTarget): ImportPlan {
  const there = new Map(itemsOf(target.contents).map((item) => [itemName(item), item]));
  const { items, notes } = target.type === 'orch' ? itemsForOrch(file, target) : itemsForKv(file);
  const missing: StoredItem[] = [];
  const equal: StoredItem[] = [];
  const conflicts = target.type === 'orch' ? invalidNames(file) : [];
  for (const item of items) {
    const present = there.get(itemName(item));
    if (present === undefined) missing.push(item);
    else if (isSame(item, present)) equal.push(item);
    // Different facts are no conflict: the agent has published newer ones.
    else if (item.kind !== 'facts') conflicts.push(`${itemName(item)} exists already and differs`);
  }
  const known = new Set(items.map(itemName));
  conflicts.push(
    ...overlaps(
      missing,
      [...there.values()].filter((item) => !known.has(itemName(item))),
    ),
  );
  return { missing, equal, conflicts, notes };
}

/** Returns the contents of a datastore as the items of a file. */
function itemsOf({ resources, blocks, endpoints }: Contents): StoredItem[] {
  return [
    ...resources.map((resource): StoredItem => ({ kind: 'resource', resource })),
    ...resources.filter(isNode).flatMap(factItem),
    ...blocks.map(({ value }): StoredItem => ({ kind: 'block', block: withoutPreallocated(value) })),
    ...endpoints.map(({ value }): StoredItem => ({ kind: 'endpoint', endpoint: value })),
  ];
}

interface Planned {
  readonly items: readonly StoredItem[];
  readonly notes: readonly string[];
}

function itemsForKv({ resources, blocks, endpoints }: Exported): Planned {
  const items = [
    ...resources.map((resource): StoredItem => ({ kind: 'resource', resource })),
    ...blocks.map((block): StoredItem => ({ kind: 'block', block })),
    ...endpoints.map((endpoint): StoredItem => ({ kind: 'endpoint', endpoint })),
  ];
  return { items, notes: [] };
}

/** The orchestrator manages Nodes, so that only their facts are imported. */
function itemsForOrch({ resources, blocks, endpoints }: Exported, { contents }: ImportTarget): Planned {
  const nodes = new Map(contents.resources.filter(isNode).map((node) => [node.metadata.name, node]));
  const [ours, others] = [resources.filter(isNode), resources.filter((resource) => !isNode(resource))];
  const onPods = endpoints.filter(({ spec }) => spec.orchestrator === 'orch');
  const items = [
    ...others.map((resource): StoredItem => ({ kind: 'resource', resource })),
    ...ours.filter(({ metadata }) => nodes.has(metadata.name)).flatMap(factItem),
    ...blocks.map((block): StoredItem => ({ kind: 'block', block })),
    ...onPods.map((endpoint): StoredItem => ({ kind: 'endpoint', endpoint })),
  ];
  const without = endpoints.length - onPods.length;
  const notes = [
    ...ours.flatMap((node) => nodeNotes(node, nodes.get(node.metadata.name))),
    ...unknownNodeNotes(blocks, nodes),
    ...(without === 0 ? [] : [`${counted(without, 'endpoint')} without a pod: the orchestrator stores none`]),
  ];
  return { items, notes };
}

/** Returns notes with the kubectl commands for labels and annotations that the user must copy. */
function nodeNotes({ metadata, spec }: Node, there: Node | undefined): string[] {
  const { name } = metadata;
  if (there === undefined) return [];
  const labels = Object.entries(metadata.labels ?? {}).filter(
    ([key, value]) => ownValue(there.metadata.labels, key) !== value,
  );
  const { asNumber, routeReflectorClusterID } = spec.bgp ?? {};
  const annotations = [
    ['netplug/ASNumber', asNumber, there.spec.bgp?.asNumber],
    ['netplug/RouteReflectorClusterID', routeReflectorClusterID, there.spec.bgp?.routeReflectorClusterID],
  ].filter(([, ours, theirs]) => ours !== undefined && ours !== theirs);
  const words = labels.map(([key, value]) => `${key}=${value}`);
  const notes = annotations.map(([key, value]) => `${String(key)}=${String(value)}`);
  return [
    ...(words.length === 0 ? [] : [`node "${name}" lacks labels: kubectl label node ${name} ${words.join(' ')}`]),
    ...(notes.length === 0 ? [] : [`node "${name}" lacks: kubectl annotate node ${name} ${notes.join(' ')}`]),
  ];
}

/** Returns a note for each node that owns blocks or holds addresses but is missing in the orchestrator. */
function unknownNodeNotes(blocks: readonly IpBlock[], nodes: ReadonlyMap<string, Node>): string[] {
  const held = new Map<string, number>();
  for (const block of blocks) {
    if (block.node !== undefined) held.set(block.node, held.get(block.node) ?? 0);
    for (const { allocation } of heldAddresses(block)) held.set(allocation.node, (held.get(allocation.node) ?? 0) + 1);
  }
  return [...held]
    .filter(([node]) => !nodes.has(node))
    .sort(([a], [b]) => compareText(a, b))
    .map(([node, count]) => {
      const addresses = counted(count, 'address', 'addresses');
      return `node "${node}" is missing in the orchestrator, but its blocks with ${addresses} are imported. Remove them with: netplugctl node remove ${node}`;
    });
}

/** Returns a conflict for each name that the API of the orchestrator refuses. */
function invalidNames({ resources }: Exported): string[] {
  return resources
    .filter((resource) => !isNode(resource) && !isDnsSubdomain(resource.metadata.name))
    .map((resource) => `${showResourceId(resourceIdOf(resource))} has a name that the orchestrator refuses`);
}

/** Returns a conflict for each item that overlaps something in the datastore that is not in the file. */
function overlaps(missing: readonly StoredItem[], others: readonly StoredItem[]): string[] {
  const resources = others.flatMap((item) => (item.kind === 'resource' ? [item.resource] : []));
  const pools = resources.filter((resource) => resource.kind === 'IPPool');
  const blocks = others.flatMap((item) => (item.kind === 'block' ? [item.block] : []));
  return missing.flatMap((item) => {
    if (item.kind === 'resource' && item.resource.kind === 'IPPool') {
      return poolProblems(item.resource, pools).map(({ message }) => `${itemName(item)}: ${message}`);
    }
    if (item.kind !== 'block') return [];
    return blocks
      .filter(({ cidr }) => cidrsOverlap(cidr, item.block.cidr))
      .map(({ cidr }) => `${itemName(item)} overlaps block ${formatCidr(cidr)}`);
  });
}

function factItem(node: Node): StoredItem[] {
  const facts = nodeFactsOf(node);
  // Here the name of the Node is also the name the agent uses.
  return Object.keys(facts).length === 0 ? [] : [{ kind: 'facts', node: node.metadata.name as NodeName, facts }];
}

function isNode(resource: PlainResource): resource is Node {
  return resource.kind === 'Node';
}
