import { NetplugError } from '../../base/errors.ts';
import type { IpBlock } from '../../model/ip-block.ts';
import type { AnyResource, ResourceKind, ResourceOf } from '../../model/kinds.ts';
import type { NodeName } from '../../model/names.ts';
import { type ResourceId, showResourceId } from '../../model/resource-id.ts';
import { type EndpointId, endpointKey, type WorkloadEndpoint } from '../../model/workload-endpoint.ts';
import { compareCidrs, parseCidr } from '../../net/cidr.ts';
import { compareResources } from '../order.ts';
import type { Decoded } from '../follow.ts';
import { settingQueries, settingsFrom } from '../node-settings.ts';
import type { Claim, NodeSettings, NodeView, Stored } from '../allocation-store.ts';
import {
  isEndpointOn,
  type MemoryRecord,
  type MemoryState,
  resourceIdIn,
  resourceKey,
  UNREADABLE,
} from './memory-database.ts';

/** A resource, and what there is of it now. */
interface ObservedRecord<K extends ResourceKind> {
  readonly which: ResourceId<K>;
  readonly seen: Decoded<ResourceOf<K>>;
}

export function viewOf(
  state: MemoryState,
  node: NodeName,
  endpoint: EndpointId | undefined,
): Omit<NodeView, 'rollbacks'> {
  const settings = settingsIn(state, node);
  const found = endpoint === undefined ? undefined : state.endpoints.get(endpointKey(endpoint));
  return {
    ...settings,
    owned: blocksIn(state, (block) => block.node === node),
    borrowed: blocksIn(
      state,
      (block) => block.node !== node && [...block.slots.values()].some((held) => held.node === node),
    ),
    endpoint: found === undefined || found.value === UNREADABLE ? undefined : withVersion(found.value, found.version),
    problems: [
      ...settings.problems,
      // Its owner cannot be decoded either, so every node sees it.
      ...[...state.blocks].flatMap(([id, { value }]) => (value === UNREADABLE ? [problemWith(`block ${id}`)] : [])),
      ...(found?.value === UNREADABLE ? [problemWith('endpoint')] : []),
    ],
  };
}

function settingsIn(state: MemoryState, node: NodeName): NodeSettings {
  return settingsFrom(
    settingQueries(node).flatMap(({ of, name }) =>
      observedRecords(state, of).flatMap(({ which, seen }) =>
        name === undefined || which.name === name ? [seen] : [],
      ),
    ),
  );
}

export function resourcesIn<K extends ResourceKind>(
  state: MemoryState,
  kind: K,
): { readonly resources: ResourceOf<K>[]; readonly problems: string[] } {
  const all = observedRecords(state, kind);
  return {
    resources: all.flatMap(({ seen }) => seen.value ?? []).sort(compareResources),
    problems: all.flatMap(({ seen }) => seen.problem ?? []),
  };
}

export function observedRecords<K extends ResourceKind>(state: MemoryState, kind: K): ObservedRecord<K>[] {
  const all: ObservedRecord<K>[] = [];
  for (const [key, { value, version }] of state.resources) {
    const { kind: ofKind, ...named } = resourceIdIn(key);
    if (ofKind !== kind) continue;
    const which = { ...named, kind };
    if (value === UNREADABLE) all.push({ which, seen: { problem: problemWith(showResourceId(which)) } });
    else if (isOfKind(value, kind)) all.push({ which, seen: { value: withResourceVersion(value, version) } });
  }
  return all;
}

/** @throws store/corrupt */
export function resourceIn<K extends ResourceKind>(
  state: MemoryState,
  which: ResourceId<K>,
): ResourceOf<K> | undefined {
  const record = state.resources.get(resourceKey(which));
  if (record === undefined) return undefined;
  const { value, version } = insistOnRecord(record, showResourceId(which));
  return isOfKind(value, which.kind) ? withResourceVersion(value, version) : undefined;
}

/** Every claim, also of a block that cannot be read. */
export function claimsIn(state: MemoryState): Claim[] {
  return [...state.blocks]
    .map(([id, { value }]) => ({ cidr: parseCidr(id), node: value === UNREADABLE ? undefined : value.node }))
    .sort((a, b) => compareCidrs(a.cidr, b.cidr));
}

export function endpointsIn(
  state: MemoryState,
  node: NodeName | undefined,
): { endpoints: Stored<WorkloadEndpoint>[]; problems: string[] } {
  const endpoints: Stored<WorkloadEndpoint>[] = [];
  const problems: string[] = [];
  for (const [key, { value, version }] of endpointsOn(state, node)) {
    if (value === UNREADABLE) problems.push(problemWith(`endpoint ${key}`));
    else endpoints.push({ value, version });
  }
  return { endpoints, problems };
}

/** The records of one node's endpoints, or of all. */
export function endpointsOn(
  state: MemoryState,
  node: NodeName | undefined,
): ReadonlyMap<string, MemoryRecord<WorkloadEndpoint>> {
  if (node === undefined) return state.endpoints;
  return new Map([...state.endpoints].filter(([key]) => isEndpointOn(key, node)));
}

/** @throws store/corrupt for a record that cannot be left out. */
export function insistOnRecord<T>({ value, version }: MemoryRecord<T>, what: string): Stored<T> {
  if (value !== UNREADABLE) return { value, version };
  throw new NetplugError('store/corrupt', problemWith(what), { hint: 'Repair or remove the record' });
}

function blocksIn(state: MemoryState, which: (block: IpBlock) => boolean): Stored<IpBlock>[] {
  return [...state.blocks.values()]
    .flatMap(({ value, version }) => (value !== UNREADABLE && which(value) ? [{ value, version }] : []))
    .sort((a, b) => compareCidrs(a.value.cidr, b.value.cidr));
}

function isOfKind<K extends ResourceKind>(resource: AnyResource, kind: K): resource is ResourceOf<K> {
  return resource.kind === kind;
}

function withResourceVersion<R extends AnyResource>(resource: R, resourceVersion: string): R {
  return { ...resource, metadata: { ...resource.metadata, resourceVersion } };
}

function withVersion<T>(value: T, version: string): Stored<T> {
  return { value, version };
}

export function problemWith(what: string): string {
  return `Cannot understand the record "${what}"`;
}
