import { never } from '../../base/errors.ts';
import type { IpBlock } from '../../model/ip-block.ts';
import type { AnyResource } from '../../model/kinds.ts';
import type { NodeCondition } from '../../model/node-readiness.ts';
import { fullId, type ResourceId } from '../../model/resource-id.ts';
import { type EndpointId, endpointIdOf, endpointKey, type WorkloadEndpoint } from '../../model/workload-endpoint.ts';
import { type Cidr, formatCidr } from '../../net/cidr.ts';
import { blockAfter } from '../block-after.ts';
import { storedEndpoint } from '../stored-resource.ts';
import type { Change, Outcome, Stored } from '../allocation-store.ts';

/** A damaged record: it exists and cannot be decoded. */
export const UNREADABLE = Symbol('unreadable');

export interface MemoryRecord<T> {
  readonly value: T | typeof UNREADABLE;
  readonly version: string;
}

/** Everything stored at one moment. */
export interface MemoryState {
  /** The number of changes that led to it. */
  readonly revision: number;
  readonly blocks: ReadonlyMap<string, MemoryRecord<IpBlock>>;
  readonly endpoints: ReadonlyMap<string, MemoryRecord<WorkloadEndpoint>>;
  readonly resources: ReadonlyMap<string, MemoryRecord<AnyResource>>;
}

export type RecordName = { readonly block: Cidr } | { readonly endpoint: EndpointId } | ResourceId;

export const blockId = (cidr: Cidr): string => formatCidr(cidr);
/** Whether `endpointKey` made the key of an endpoint of that node. */
export const isEndpointOn = (key: string, node: string): boolean => key.startsWith(`[${JSON.stringify(node)},`);
export const resourceKey = (which: ResourceId): string => JSON.stringify(fullId(which));

/** Returns the id that `resourceKey` was made of. */
export const resourceIdIn = (key: string): ResourceId => JSON.parse(key) as ResourceId;

/** Everything stored at one moment, and how old that is. */
export interface MemoryBackup {
  readonly state: MemoryState;
  readonly revision: number;
}

const NOTHING_STORED: MemoryState = { revision: 0, blocks: new Map(), endpoints: new Map(), resources: new Map() };

/** Number of past states that a stale reader can be shown. */
const HISTORY = 16;

/** Records of one cluster, which several memory stores share. Every change makes a new state and a new version. */
export class MemoryDatabase {
  #states: MemoryState[] = [NOTHING_STORED];
  #revision = 0;
  #rollbacks = 0;
  /** Origins of servers that serve the records, none unless a test has some. */
  readonly servers: string[] = [];
  /** Conditions of nodes as they were reported, oldest first. */
  readonly conditionReports: { readonly node: string; readonly conditions: readonly NodeCondition[] }[] = [];
  readonly #listeners = new Set<{ readonly onState: (state: MemoryState) => void; readonly onLost: () => void }>();

  /** Number of times that a backup was restored. */
  get rollbacks(): number {
    return this.#rollbacks;
  }

  backUp(): MemoryBackup {
    return { state: this.state(), revision: this.#revision };
  }

  /** Restores a backup, versions included. Watches are lost. */
  restore({ state, revision }: MemoryBackup): void {
    this.#states = [state];
    this.#revision = revision;
    this.#rollbacks += 1;
    for (const { onLost } of this.#listeners) onLost();
  }

  /** Returns the newest state, or the one `back` changes ago as far as kept. */
  state(back = 0): MemoryState {
    const state = this.#states[Math.max(0, this.#states.length - 1 - back)];
    return state ?? NOTHING_STORED;
  }

  /** The version of a state, which no other state has, also after a backup was restored. */
  versionOf({ revision }: MemoryState): string {
    return `${String(this.#rollbacks)}.${String(revision)}`;
  }

  /** Returns the state of that version; undefined when it is no longer kept. */
  stateAt(version: string): MemoryState | undefined {
    return this.#states.find((state) => this.versionOf(state) === version);
  }

  /** Calls back with each new state, and when a backup was restored, until unsubscribed. */
  listen(onState: (state: MemoryState) => void, onLost: () => void = () => undefined): () => void {
    const listener = { onState, onLost };
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Forgets every record, but no version: what was read before stays outdated. */
  clear(): void {
    this.#write((draft) => {
      draft.blocks.clear();
      draft.endpoints.clear();
      draft.resources.clear();
    });
  }

  /** All changes or none. */
  commit(changes: readonly Change[]): Outcome {
    const state = this.state();
    if (!changes.every((change) => isAsExpected(state, change))) return 'conflict';
    this.#write((draft, version) => {
      for (const change of changes) apply(draft, change, version);
    });
    return 'committed';
  }

  /** Stores the resource, or removes it when `resource` is undefined; returns its version. */
  putResource(which: ResourceId, resource: AnyResource | undefined): string {
    return this.#write((draft, version) => {
      if (resource === undefined) draft.resources.delete(resourceKey(which));
      else draft.resources.set(resourceKey(which), { value: resource, version });
    });
  }

  /** Makes a record unreadable, as a fault in the field would. */
  damage(which: RecordName): void {
    this.#write((draft, version) => {
      const damaged = { value: UNREADABLE, version } as const;
      if ('block' in which) draft.blocks.set(blockId(which.block), damaged);
      else if ('endpoint' in which) draft.endpoints.set(endpointKey(which.endpoint), damaged);
      else draft.resources.set(resourceKey(which), damaged);
    });
  }

  #write(change: (draft: Draft, version: string) => void): string {
    this.#revision += 1;
    const version = String(this.#revision);
    const draft = new Draft(this.state(), this.#revision);
    change(draft, version);
    const state = draft.state();
    this.#states = [...this.#states, state].slice(-HISTORY);
    for (const { onState } of this.#listeners) onState(state);
    return version;
  }
}

/** The next state. Copies only the records of the kinds that change. */
class Draft {
  readonly #before: MemoryState;
  readonly #revision: number;
  #blocks: Map<string, MemoryRecord<IpBlock>> | undefined;
  #endpoints: Map<string, MemoryRecord<WorkloadEndpoint>> | undefined;
  #resources: Map<string, MemoryRecord<AnyResource>> | undefined;

  constructor(before: MemoryState, revision: number) {
    this.#before = before;
    this.#revision = revision;
  }

  get blocks(): Map<string, MemoryRecord<IpBlock>> {
    return (this.#blocks ??= new Map(this.#before.blocks));
  }

  get endpoints(): Map<string, MemoryRecord<WorkloadEndpoint>> {
    return (this.#endpoints ??= new Map(this.#before.endpoints));
  }

  get resources(): Map<string, MemoryRecord<AnyResource>> {
    return (this.#resources ??= new Map(this.#before.resources));
  }

  state(): MemoryState {
    const { blocks, endpoints, resources } = this.#before;
    return {
      revision: this.#revision,
      blocks: this.#blocks ?? blocks,
      endpoints: this.#endpoints ?? endpoints,
      resources: this.#resources ?? resources,
    };
  }
}

function isAsExpected(state: MemoryState, change: Change): boolean {
  switch (change.kind) {
    case 'create-block':
      return (
        !state.blocks.has(blockId(change.block.cidr)) &&
        (change.pool === undefined || isPoolUnchanged(state, change.pool))
      );
    case 'update-block':
    case 'delete-block':
      return state.blocks.get(blockId(change.before.value.cidr))?.version === change.before.version;
    case 'put-endpoint': {
      const { endpoint, over } = change;
      const now = state.endpoints.get(endpointKey(endpointIdOf(endpoint)));
      return over === undefined || (over === 'none' ? now === undefined : now?.version === over.version);
    }
    case 'delete-endpoint': {
      const key = endpointKey(endpointIdOf(change.before.value));
      return state.endpoints.get(key)?.version === change.before.version;
    }
    case 'delete-pool':
      return isPoolUnchanged(state, change.before);
    default:
      return never(change);
  }
}

function isPoolUnchanged(state: MemoryState, pool: Stored<AnyResource>): boolean {
  return state.resources.get(resourceKey({ kind: 'IPPool', name: pool.value.metadata.name }))?.version === pool.version;
}

function apply(draft: Draft, change: Change, version: string): void {
  switch (change.kind) {
    case 'create-block':
      draft.blocks.set(blockId(change.block.cidr), { value: blockAfter(change), version });
      return;
    case 'update-block':
      draft.blocks.set(blockId(change.before.value.cidr), { value: blockAfter(change), version });
      return;
    case 'delete-block':
      draft.blocks.delete(blockId(change.before.value.cidr));
      return;
    case 'put-endpoint':
      draft.endpoints.set(endpointKey(endpointIdOf(change.endpoint)), {
        value: storedEndpoint(change.endpoint),
        version,
      });
      return;
    case 'delete-endpoint':
      draft.endpoints.delete(endpointKey(endpointIdOf(change.before.value)));
      return;
    case 'delete-pool':
      draft.resources.delete(resourceKey({ kind: 'IPPool', name: change.before.value.metadata.name }));
      return;
    default:
      never(change);
  }
}
