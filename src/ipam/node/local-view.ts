import type { NodeView, Stored } from '../../datastore/allocation-store.ts';
import type { LivingAddress } from '../plan-assertion.ts';
import { type Allocation, heldAddresses, type IpBlock } from '../../model/ip-block.ts';
import { type EndpointId, endpointKey, type WorkloadEndpoint } from '../../model/workload-endpoint.ts';
import { applyOperations, type HolderOperation, insistOn } from '../../model/slot-operation.ts';
import { addressAt, formatCidr } from '../../net/cidr.ts';
import { type EndpointChange, type Entry, idOf, isCleared } from './entry.ts';
import type { FreshEndpoints } from './fresh-endpoints.ts';
import type { NodeMemory } from './node-memory.ts';
import { type OfferedBlock, offer } from './offered-block.ts';
import type { PreallocatedAddresses } from './preallocated.ts';

/** Marks versions of this view, to distinguish a change planned on the view from one planned on the datastore itself. */
const CACHED = 'cached:';
const PENDING = `${CACHED}pending`;

/** The version that the datastore gave; undefined for a version that does not come from a local view. */
export function datastoreVersion(version: string): string | undefined {
  return version.startsWith(CACHED) ? version.slice(CACHED.length) : undefined;
}

/** The block with an operation that this node has decided; as it is when another attachment holds the address by now. */
function decided(block: IpBlock, operation: HolderOperation): IpBlock {
  return applyOperations(block, [insistOn(block, operation)]) ?? block;
}

function cached<T>({ value, version }: Stored<T>): Stored<T> {
  return { value, version: `${CACHED}${version}` };
}

/** The cached records of the node with its pending writes applied. */
export class LocalView {
  readonly #memory: NodeMemory;
  readonly #fresh: FreshEndpoints;
  readonly #stock: PreallocatedAddresses;
  readonly #blocks = new Map<string, IpBlock>();
  readonly #slotChanges = new Map<string, Set<HolderOperation>>();
  readonly #endpointChanges = new Map<string, EndpointChange>();
  /** What was shown of a block, as long as nothing about it changes. */
  readonly #shown = new Map<
    string,
    { readonly of: IpBlock; readonly isStockOnly: boolean; readonly version: number; readonly block: IpBlock }
  >();

  constructor(memory: NodeMemory, fresh: FreshEndpoints, stock: PreallocatedAddresses) {
    this.#memory = memory;
    this.#fresh = fresh;
    this.#stock = stock;
  }

  /** The block with everything that is decided. */
  block(key: string): IpBlock | undefined {
    return this.#blocks.get(key);
  }

  /** Own blocks with everything that is decided, by CIDR. */
  ownBlocks(): ReadonlyMap<string, IpBlock> {
    return new Map([...this.#blocks].filter(([, { node }]) => node === this.#memory.node));
  }

  /** Applies the pending entries to blocks that have changed in the cache. */
  refresh(keys: readonly string[] | 'all'): void {
    if (keys === 'all') this.#blocks.clear();
    for (const key of keys === 'all' ? this.#memory.blocks.keys() : keys) {
      let block = this.#memory.blocks.get(key)?.value;
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
    for (const change of endpoints) this.#endpointChanges.set(endpointKey(idOf(change)), change);
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
  nodeView(endpoint: EndpointId | undefined, { isCutOff }: { readonly isCutOff: boolean }): NodeView | undefined {
    const { settings, node } = this.#memory;
    if (settings === undefined) return undefined;
    const isStockOnly = this.#stockOnly(isCutOff);
    const owned: Stored<IpBlock>[] = [];
    const borrowed: Stored<IpBlock>[] = [];
    for (const [key, block] of this.#blocks) {
      const version = `${CACHED}${this.#memory.blocks.get(key)?.version ?? ''}`;
      if (block.node !== node) borrowed.push({ value: block, version });
      else owned.push({ value: this.#show(key, block, isStockOnly(key, block)), version });
    }
    return {
      ...settings,
      owned,
      borrowed,
      rollbacks: 0,
      endpoint: endpoint === undefined ? undefined : this.#changedEndpoint(endpointKey(endpoint)),
    };
  }

  /** What the own blocks of such a view are made from. */
  offered({ isCutOff }: { readonly isCutOff: boolean }): readonly OfferedBlock[] {
    const isStockOnly = this.#stockOnly(isCutOff);
    return [...this.ownBlocks()].map(([key, block]) => ({
      block,
      ready: this.#stock.in(block),
      isStockOnly: isStockOnly(key, block),
    }));
  }

  /** Addresses that attachments of the node hold. */
  held(): readonly (LivingAddress & { readonly allocation: Allocation })[] {
    return [...this.#blocks.values()].flatMap((block) =>
      heldAddresses(block, ({ node }) => node === this.#memory.node).map(({ address, allocation }) => ({
        address,
        owner: allocation,
        allocation,
      })),
    );
  }

  /** Addresses that were assigned to attachments of the node and that the datastore does not record yet. */
  pending(): readonly LivingAddress[] {
    return [...this.#slotChanges.values()].flatMap((changes) =>
      [...changes].flatMap((change) =>
        change.kind === 'take' ? { address: addressAt(change.block, change.ordinal), owner: change.allocation } : [],
      ),
    );
  }

  /**
   * Whether the datastore shows less than this node has seen of it: an older version of a block, or none of one in which
   * attachments of the node hold addresses.
   */
  isAheadOf(
    { owned, borrowed }: Pick<NodeView, 'owned' | 'borrowed'>,
    isOlder: (version: string, than: string) => boolean,
  ): boolean {
    const shown = new Map([...owned, ...borrowed].map(({ value, version }) => [formatCidr(value.cidr), version]));
    return [...this.#memory.blocks].some(([key, { version }]) => {
      const now = shown.get(key);
      if (now !== undefined) return isOlder(now, version);
      const block = this.#blocks.get(key);
      return block !== undefined && [...block.slots.values()].some(({ node }) => node === this.#memory.node);
    });
  }

  /** Whether the block, when it becomes this one, lacks an allocation of the node that this process did not release. */
  loses(key: string, after: IpBlock | undefined): boolean {
    const before = this.#memory.blocks.get(key)?.value;
    const ended = [...(this.#slotChanges.get(key) ?? [])].map((change) =>
      change.kind === 'free' ? change.id : change.from,
    );
    return [...(before?.slots ?? [])].some(
      ([ordinal, { id, node }]) =>
        node === this.#memory.node && after?.slots.get(ordinal)?.id !== id && !ended.includes(id),
    );
  }

  endpoints(): readonly Stored<WorkloadEndpoint>[] {
    const known = new Map([...this.#memory.endpoints].map(([key, endpoint]) => [key, cached(endpoint)]));
    for (const key of [...this.#fresh.keys(), ...this.#endpointChanges.keys()]) {
      const now = this.#changedEndpoint(key);
      if (now === undefined) known.delete(key);
      else known.set(key, now);
    }
    return [...known].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, endpoint]) => endpoint);
  }

  #changedEndpoint(key: string): Stored<WorkloadEndpoint> | undefined {
    const fresh = this.#fresh.find(key);
    const stored = this.#memory.endpoints.get(key);
    const shown = stored === undefined ? undefined : cached(stored);
    const known = fresh === undefined ? shown : { value: fresh, version: PENDING };
    const change = this.#endpointChanges.get(key);
    if (change?.kind === 'put') return { value: change.endpoint, version: PENDING };
    return change !== undefined && known !== undefined && isCleared(known.value, change) ? undefined : known;
  }

  #stockOnly(isCutOff: boolean): (key: string, block: IpBlock) => boolean {
    const stocked = this.#stockedPools();
    return (key, block) => isCutOff || stocked.has(this.#memory.poolOf(key, block.cidr)?.name);
  }

  #stockedPools(): ReadonlySet<string | undefined> {
    const stocked = new Set<string | undefined>();
    for (const [key, block] of this.#blocks) {
      if (block.preallocated.size === 0 || block.node !== this.#memory.node) continue;
      if (this.#stock.in(block).length > 0) stocked.add(this.#memory.poolOf(key, block.cidr)?.name);
    }
    return stocked;
  }

  #show(key: string, of: IpBlock, isStockOnly: boolean): IpBlock {
    const before = this.#shown.get(key);
    const { version } = this.#stock;
    if (before?.of === of && before.isStockOnly === isStockOnly && before.version === version) return before.block;
    const block = offer({ block: of, ready: this.#stock.in(of), isStockOnly });
    this.#shown.set(key, { of, isStockOnly, version, block });
    return block;
  }
}
