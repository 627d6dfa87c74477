import type { NodeView, Stored } from '../../datastore/allocation-store.ts';
import type { NodeChange } from '../../cache/node-view.ts';
import { type HeldAddress, heldAddresses, holderOf, type IpBlock } from '../../model/ip-block.ts';
import { interfaceKey } from '../../model/names.ts';
import { type EndpointId, endpointKey, type WorkloadEndpoint, isOfContainer } from '../../model/workload-endpoint.ts';
import { applyOperations, type HolderOperation, insistOn } from '../../model/slot-operation.ts';
import { formatCidr } from '../../net/cidr.ts';
import { type EndpointChange, type Entry, idOf, takenBy } from './entry.ts';
import type { FreshEndpoints } from './fresh-endpoints.ts';
import type { NodeCache } from './node-cache.ts';
import { type OfferedBlock, offer } from './offered-block.ts';
import type { PreallocatedAddresses } from './preallocated.ts';

/** Prefix of the versions of this view: distinguishes changes planned on the view from those planned on the datastore. */
const CACHED = 'cached:';
const PENDING = `${CACHED}pending`;

/** Returns the version of the datastore; undefined for a version that does not come from a local view. */
export function datastoreVersion(version: string): string | undefined {
  return version.startsWith(CACHED) ? version.slice(CACHED.length) : undefined;
}

/** Applies an operation that this node has decided. Leaves the block unchanged when another attachment holds the address. */
function decided(block: IpBlock, operation: HolderOperation): IpBlock {
  return applyOperations(block, [insistOn(block, operation)]) ?? block;
}

function cached<T>({ value, version }: Stored<T>): Stored<T> {
  return { value, version: `${CACHED}${version}` };
}

/** The cached records of the node with its pending writes applied. */
export class LocalView {
  readonly #cache: NodeCache;
  readonly #fresh: FreshEndpoints;
  readonly #preallocated: PreallocatedAddresses;
  readonly #blocks = new Map<string, IpBlock>();
  readonly #slotChanges = new Map<string, Set<HolderOperation>>();
  readonly #endpointChanges = new Map<string, EndpointChange>();
  /** The blocks of earlier views, reused while they are unchanged. */
  readonly #shown = new Map<
    string,
    { readonly of: IpBlock; readonly isWarmPoolOnly: boolean; readonly version: number; readonly block: IpBlock }
  >();

  constructor(cache: NodeCache, fresh: FreshEndpoints, preallocated: PreallocatedAddresses) {
    this.#cache = cache;
    this.#fresh = fresh;
    this.#preallocated = preallocated;
  }

  /** Returns the block with its pending writes. */
  block(key: string): IpBlock | undefined {
    return this.#blocks.get(key);
  }

  /** Returns the blocks that the node owns with their pending writes, by CIDR. */
  ownBlocks(): ReadonlyMap<string, IpBlock> {
    return new Map([...this.#blocks].filter(([, { node }]) => node === this.#cache.node));
  }

  /** Applies the pending entries to blocks that have changed in the cache. */
  refresh(keys: readonly string[] | 'all'): void {
    if (keys === 'all') this.#blocks.clear();
    for (const key of keys === 'all' ? this.#cache.blocks.keys() : keys) {
      let block = this.#cache.blocks.get(key)?.value;
      for (const change of this.#slotChanges.get(key) ?? []) block &&= decided(block, change);
      if (block === undefined) this.#blocks.delete(key);
      else this.#blocks.set(key, block);
    }
  }

  /** Applies a pending entry. The caller has checked that its operations apply. */
  add({ slots, endpoints }: Entry): void {
    for (const change of slots) {
      const key = formatCidr(change.block);
      const block = this.#blocks.get(key);
      if (block !== undefined) this.#blocks.set(key, decided(block, change));
      this.#slotChanges.set(key, (this.#slotChanges.get(key) ?? new Set()).add(change));
    }
    for (const change of endpoints) {
      const key = endpointKey(idOf(change));
      const pending = this.#endpointChanges.get(key);
      const isOfAnother =
        change.kind === 'clear' && pending?.kind === 'put' && !isOfContainer(pending.endpoint, change);
      if (!isOfAnother) this.#endpointChanges.set(key, change);
    }
  }

  /** Removes entries that the datastore has recorded, or that were undone. */
  remove(entries: readonly Entry[]): void {
    const touched = new Set<string>();
    for (const { slots, endpoints } of entries) {
      for (const change of slots) {
        const key = formatCidr(change.block);
        this.#slotChanges.get(key)?.delete(change);
        touched.add(key);
      }
      for (const change of endpoints) {
        const key = endpointKey(idOf(change));
        if (this.#endpointChanges.get(key) === change) this.#endpointChanges.delete(key);
      }
    }
    this.refresh([...touched]);
  }

  /**
   * Returns the node as the address manager sees it. Pre-allocated addresses of this run are free and come first; while a
   * pool has any, or the datastore is unavailable, nothing else of the own blocks is free.
   */
  nodeView(
    endpoint: EndpointId | undefined,
    { isUnavailable }: { readonly isUnavailable: boolean },
  ): NodeView | undefined {
    const { settings, node } = this.#cache;
    if (settings === undefined) return undefined;
    const isWarmPoolOnly = this.#warmPoolOnly(isUnavailable);
    const owned: Stored<IpBlock>[] = [];
    const borrowed: Stored<IpBlock>[] = [];
    for (const [key, block] of this.#blocks) {
      const version = `${CACHED}${this.#cache.blocks.get(key)?.version ?? ''}`;
      if (block.node !== node) borrowed.push({ value: block, version });
      else owned.push({ value: this.#show(key, block, isWarmPoolOnly(key, block)), version });
    }
    return {
      ...settings,
      owned,
      borrowed,
      rollbacks: 0,
      endpoint: endpoint === undefined ? undefined : this.#changedEndpoint(endpointKey(endpoint)),
    };
  }

  /** Returns the own blocks as `nodeView` offers them. */
  offered({ isUnavailable }: { readonly isUnavailable: boolean }): readonly OfferedBlock[] {
    const isWarmPoolOnly = this.#warmPoolOnly(isUnavailable);
    return [...this.ownBlocks()].map(([key, block]) => ({
      block,
      ready: this.#preallocated.in(block),
      isWarmPoolOnly: isWarmPoolOnly(key, block),
    }));
  }

  /** Returns the addresses that attachments of the node hold. */
  held(): readonly HeldAddress[] {
    return [...this.#blocks.values()].flatMap((block) => heldAddresses(block, ({ node }) => node === this.#cache.node));
  }

  /** Returns the addresses that were assigned to attachments of the node and that the datastore does not record yet. */
  pending(): readonly HeldAddress[] {
    return [...this.#slotChanges.values()].flatMap(takenBy);
  }

  /**
   * Reports whether the datastore is older than the cache: it has an older version of a block, or lacks a block in which
   * attachments of the node hold addresses.
   */
  isAheadOf(
    { owned, borrowed }: Pick<NodeView, 'owned' | 'borrowed'>,
    isOlder: (version: string, than: string) => boolean,
  ): boolean {
    const shown = new Map([...owned, ...borrowed].map(({ value, version }) => [formatCidr(value.cidr), version]));
    return [...this.#cache.blocks].some(([key, { version }]) => {
      const now = shown.get(key);
      if (now !== undefined) return isOlder(now, version);
      const block = this.#blocks.get(key);
      return block !== undefined && [...block.slots.values()].some(({ node }) => node === this.#cache.node);
    });
  }

  /** Returns what attachments of the node hold in the cache, lose by the change, and did not release by this process. */
  lostBy(change: NodeChange): readonly HeldAddress[] {
    if (change.kind === 'block') return this.#lostFrom(formatCidr(change.cidr), change.block?.value);
    if (change.kind !== 'all') return [];
    const { owned, borrowed } = change.view;
    const after = new Map([...owned, ...borrowed].map(({ value }) => [formatCidr(value.cidr), value]));
    return [...this.#cache.blocks.keys()].flatMap((key) => this.#lostFrom(key, after.get(key)));
  }

  #lostFrom(key: string, after: IpBlock | undefined): readonly HeldAddress[] {
    const before = this.#cache.blocks.get(key)?.value;
    if (before === undefined || before === after) return [];
    const ended = new Set(
      [...(this.#slotChanges.get(key) ?? [])].map((change) => (change.kind === 'free' ? change.id : change.from)),
    );
    return heldAddresses(before, ({ id, node }) => node === this.#cache.node && !ended.has(id)).filter(
      ({ address, allocation }) => {
        const now = after === undefined ? undefined : holderOf(after, address);
        return now?.node !== allocation.node || interfaceKey(now) !== interfaceKey(allocation);
      },
    );
  }

  endpoints(): readonly Stored<WorkloadEndpoint>[] {
    const known = new Map([...this.#cache.endpoints].map(([key, endpoint]) => [key, cached(endpoint)]));
    for (const key of [...this.#fresh.keys(), ...this.#endpointChanges.keys()]) {
      const now = this.#changedEndpoint(key);
      if (now === undefined) known.delete(key);
      else known.set(key, now);
    }
    return [...known].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, endpoint]) => endpoint);
  }

  #changedEndpoint(key: string): Stored<WorkloadEndpoint> | undefined {
    const fresh = this.#fresh.find(key);
    const stored = this.#cache.endpoints.get(key);
    const shown = stored === undefined ? undefined : cached(stored);
    const known = fresh === undefined ? shown : { value: fresh, version: PENDING };
    const change = this.#endpointChanges.get(key);
    if (change?.kind === 'put') return { value: change.endpoint, version: PENDING };
    return change !== undefined && known !== undefined && isOfContainer(known.value, change) ? undefined : known;
  }

  #warmPoolOnly(isUnavailable: boolean): (key: string, block: IpBlock) => boolean {
    const warm = this.#warmPools();
    return (key, block) => isUnavailable || warm.has(this.#cache.poolOf(key, block.cidr)?.name);
  }

  #warmPools(): ReadonlySet<string | undefined> {
    const warm = new Set<string | undefined>();
    for (const [key, block] of this.#blocks) {
      if (block.preallocated.size === 0 || block.node !== this.#cache.node) continue;
      if (this.#preallocated.isIn(block)) warm.add(this.#cache.poolOf(key, block.cidr)?.name);
    }
    return warm;
  }

  #show(key: string, of: IpBlock, isWarmPoolOnly: boolean): IpBlock {
    const before = this.#shown.get(key);
    const { version } = this.#preallocated;
    if (before?.of === of && before.isWarmPoolOnly === isWarmPoolOnly && before.version === version)
      return before.block;
    const block = offer({ block: of, ready: this.#preallocated.in(of), isWarmPoolOnly });
    this.#shown.set(key, { of, isWarmPoolOnly, version, block });
    return block;
  }
}
