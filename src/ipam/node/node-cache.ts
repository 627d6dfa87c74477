import type { NodeSettings, Stored } from '../../datastore/allocation-store.ts';
import type { NodeChange } from '../../cache/node-view.ts';
import { never } from '../../base/errors.ts';
import { type Pool, poolAround, decodePools } from '../choose-pools.ts';
import type { IpBlock } from '../../model/ip-block.ts';
import { reservedCidrs } from '../../model/ip-reservation.ts';
import type { NodeName } from '../../model/names.ts';
import type { UsedRange } from '../../model/used-range.ts';
import { endpointIdOf, endpointKey, type WorkloadEndpoint } from '../../model/workload-endpoint.ts';
import { type Cidr, formatCidr } from '../../net/cidr.ts';

const NONE: readonly UsedRange[] = [];

/** Caches the records of one node: its blocks, those it borrows from, its endpoints, and the settings that choose pools. */
export class NodeCache {
  readonly node: NodeName;
  readonly blocks = new Map<string, Stored<IpBlock>>();
  readonly endpoints = new Map<string, Stored<WorkloadEndpoint>>();
  #settings: NodeSettings | undefined;
  readonly #ownRanges: () => readonly UsedRange[];
  #decodedFor: readonly UsedRange[] = NONE;
  #pools: readonly Pool[] = [];
  #reserved: readonly Cidr[] = [];
  readonly #poolOfBlock = new Map<string, Pool | undefined>();

  /** `ownRanges` returns what the node itself needs, as the same list until that changes. */
  constructor(node: NodeName, ownRanges: () => readonly UsedRange[] = () => NONE) {
    this.node = node;
    this.#ownRanges = ownRanges;
  }

  get settings(): NodeSettings | undefined {
    return this.#settings;
  }

  get problems(): readonly string[] {
    return this.#settings?.problems ?? [];
  }

  get pools(): readonly Pool[] {
    const own = this.#ownRanges();
    if (own !== this.#decodedFor) this.#decodePools(own);
    return this.#pools;
  }

  get reserved(): readonly Cidr[] {
    return this.#reserved;
  }

  /** Applies a change from the watch. Returns the keys of the blocks that may have changed. */
  apply(change: NodeChange): readonly string[] | 'all' {
    switch (change.kind) {
      case 'all': {
        this.blocks.clear();
        this.endpoints.clear();
        for (const block of [...change.view.owned, ...change.view.borrowed]) {
          this.blocks.set(formatCidr(block.value.cidr), block);
        }
        for (const endpoint of change.endpoints)
          this.endpoints.set(endpointKey(endpointIdOf(endpoint.value)), endpoint);
        this.#settle(change.view);
        return 'all';
      }
      case 'block': {
        const key = formatCidr(change.cidr);
        if (change.block === undefined) this.blocks.delete(key);
        else this.blocks.set(key, change.block);
        return [key];
      }
      case 'endpoint': {
        const key = endpointKey(change.id);
        if (change.endpoint === undefined) this.endpoints.delete(key);
        else this.endpoints.set(key, change.endpoint);
        return [];
      }
      case 'settings':
        this.#settle(change.settings);
        return [];
      default:
        return never(change);
    }
  }

  /** Reports whether the datastore is locked, so that addresses may neither be assigned nor released. */
  get isLocked(): boolean {
    return this.#settings?.isLocked === true;
  }

  /** Returns the pool of the block; undefined when the pool was deleted. */
  poolOf(key: string, cidr: Cidr): Pool | undefined {
    const { pools } = this;
    if (!this.#poolOfBlock.has(key)) this.#poolOfBlock.set(key, poolAround(pools, cidr));
    return this.#poolOfBlock.get(key);
  }

  #settle({ pools, reservations, config, node, isLocked, clusterId, problems }: NodeSettings): void {
    this.#settings = { pools, reservations, config, node, isLocked, clusterId, problems };
    this.#reserved = reservedCidrs(reservations);
    this.#decodePools(this.#ownRanges());
  }

  #decodePools(own: readonly UsedRange[]): void {
    this.#decodedFor = own;
    this.#pools = decodePools(this.#settings?.pools ?? [], own);
    this.#poolOfBlock.clear();
  }
}
