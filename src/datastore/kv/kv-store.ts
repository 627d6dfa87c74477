import { type Clock, systemClock } from '../../base/clock.ts';
import type { Mode } from '../../base/mode.ts';
import { type Random, systemRandom } from '../../base/random.ts';
import { slicesOf } from '../../base/slices.ts';
import type { IpBlock } from '../../model/ip-block.ts';
import type { AnyResource, ResourceKind, ResourceOf } from '../../model/kinds.ts';
import { IPAM_CONFIGURATION_NAME } from '../../model/ipam-configuration.ts';
import type { NodeName } from '../../model/names.ts';
import type { ResourceId } from '../../model/resource-id.ts';
import { endpointIdOf, type EndpointId } from '../../model/workload-endpoint.ts';
import { type Cidr, compareCidrs, formatCidr } from '../../net/cidr.ts';
import type { KvConnection } from '../../config/connection.ts';
import { compareEndpointIds } from '../order.ts';
import { type FollowEvent, type FollowOptions, type Query, eventsUntilAborted } from '../follow.ts';
import { follow } from './follow.ts';
import { publishNodeResource } from '../publish-node.ts';
import type { BlockListing, Change, Claim, EndpointListing, NodeView, Outcome, Stored } from '../allocation-store.ts';
import type { NodeFacts } from '../node-status-store.ts';
import type { PoolVersion } from '../pool-status-store.ts';
import type { IpPoolStatus } from '../../model/ip-pool-status.ts';
import type { Store } from '../store.ts';
import { type ClientLimits, ETCD_LIMITS, EtcdClient } from './etcd-client.ts';
import { Keys } from './keys.ts';
import { listRange } from './paging.ts';
import { planCommit } from './plan-commit.ts';
import { readBlocks } from './read-blocks.ts';
import { readNodeView } from './read-node.ts';
import { blockReader, endpointReader, readClaim } from './records.ts';
import { bytesOf, decodeText, get, type LeasedKey, MAX_OPS, rangesIn, txn } from './requests.ts';
import { KvResources } from './kv-resources.ts';
import type { ResourceListing, VersionedId } from '../resource-store.ts';
import { sortOut } from '../unreadable.ts';

export interface KvStoreOptions {
  readonly clock?: Clock;
  readonly random?: Random;
  /** Prefix of every key. */
  readonly prefix?: string;
  readonly limits?: Partial<ClientLimits>;
  /** Number of records that one request of a long listing fetches. */
  readonly pageSize?: number;
  /** Called with the method of every request sent to etcd, to count them. */
  readonly onRequest?: (method: string) => void;
  /** Returns the leader's key; then every write is part of a transaction that expects it. */
  readonly fence?: () => LeasedKey | undefined;
}

/** The datastore on etcd v3. Nothing is read or connected until the first call; close it with `await using`. */
export function openKvStore(connection: KvConnection, options: KvStoreOptions = {}): Store {
  return new KvStore(connection, options);
}

class KvStore implements Store {
  readonly #client: EtcdClient;
  readonly #keys: Keys;
  readonly #pageSize: number;
  readonly #resources: KvResources;

  constructor(connection: KvConnection, options: KvStoreOptions) {
    this.#keys = new Keys(options.prefix);
    this.#pageSize = options.pageSize ?? 500;
    this.#client = new EtcdClient(connection, {
      limits: { ...ETCD_LIMITS, ...options.limits },
      onRequest: options.onRequest ?? ((): void => undefined),
      ...(options.fence === undefined ? {} : { fence: options.fence }),
    });
    const { clock = systemClock, random = systemRandom } = options;
    this.#resources = new KvResources({
      client: this.#client,
      keys: this.#keys,
      clock,
      random,
      pageSize: this.#pageSize,
    });
  }

  isOlder(version: string, than: string): boolean {
    return BigInt(version) < BigInt(than);
  }

  async readNodeView(node: NodeName, endpoint: EndpointId | undefined, signal: AbortSignal): Promise<NodeView> {
    return readNodeView(this.#reach(signal), node, endpoint);
  }

  async *follow(queries: readonly Query[], { from, signal }: FollowOptions): AsyncGenerator<FollowEvent> {
    yield* eventsUntilAborted(follow(this.#reach(signal), { queries, from, pageSize: this.#pageSize }), signal);
  }

  async listClaims(within: readonly Cidr[], signal: AbortSignal): Promise<readonly Claim[]> {
    const found = new Map<string, Claim>();
    const add = (claims: readonly Claim[]): void => {
      for (const claim of claims) found.set(formatCidr(claim.cidr), claim);
    };
    for (const cidr of within) {
      const range = this.#keys.claimsInside(cidr);
      const { kvs, revision } = await listRange(this.#client, range, { pageSize: this.#pageSize, signal });
      add(sortOut(kvs, readClaim).good);
      const around = this.#keys.claimsAround(cidr);
      if (around.length === 0) continue;
      const larger = await this.#client.read(txn({ success: around.map((key) => get(key, revision)) }), signal);
      add(sortOut(rangesIn(larger).flat(), readClaim).good);
    }
    return [...found.values()].sort((a, b) => compareCidrs(a.cidr, b.cidr));
  }

  async getBlocks(cidrs: readonly Cidr[], signal: AbortSignal): Promise<readonly Stored<IpBlock>[]> {
    const blocks: Stored<IpBlock>[] = [];
    for (const some of slicesOf(cidrs, MAX_OPS)) blocks.push(...(await readBlocks(this.#reach(signal), some)));
    return blocks;
  }

  async listBlocks(signal: AbortSignal): Promise<BlockListing> {
    const { kvs } = await listRange(this.#client, this.#keys.blocks(), { pageSize: this.#pageSize, signal });
    const { good, problems } = sortOut(kvs, blockReader(this.#keys));
    return { blocks: good.sort((a, b) => compareCidrs(a.value.cidr, b.value.cidr)), problems };
  }

  async commit(changes: readonly Change[], signal: AbortSignal): Promise<Outcome> {
    if (changes.length === 0) return 'committed';
    const { succeeded } = await this.#client.write(planCommit(this.#keys, changes), signal);
    return succeeded ? 'committed' : 'conflict';
  }

  async listEndpoints(node: NodeName | undefined, signal: AbortSignal): Promise<EndpointListing> {
    const range = this.#keys.endpoints(node);
    const { kvs } = await listRange(this.#client, range, { pageSize: this.#pageSize, signal });
    const { good, problems } = sortOut(kvs, endpointReader(this.#keys));
    const endpoints = good.sort((a, b) => compareEndpointIds(endpointIdOf(a.value), endpointIdOf(b.value)));
    return { endpoints, problems };
  }

  async listResources<K extends ResourceKind>(kind: K, signal: AbortSignal): Promise<ResourceListing<K>> {
    return this.#resources.list(kind, signal);
  }

  async findResource<K extends ResourceKind>(
    which: ResourceId<K>,
    signal: AbortSignal,
  ): Promise<ResourceOf<K> | undefined> {
    return this.#resources.find(which, signal);
  }

  async createResource(resource: AnyResource, signal: AbortSignal, mode?: Mode): Promise<AnyResource> {
    return this.#resources.create(resource, signal, mode);
  }

  async updateResource(resource: AnyResource, signal: AbortSignal, mode?: Mode): Promise<AnyResource> {
    return this.#resources.update(resource, signal, mode);
  }

  async deleteResource(which: VersionedId, signal: AbortSignal, mode?: Mode): Promise<void> {
    return this.#resources.delete(which, signal, mode);
  }

  async setPoolStatus(pool: PoolVersion, status: IpPoolStatus | undefined, signal: AbortSignal): Promise<void> {
    return this.#resources.setPoolStatus(pool, status, signal);
  }

  async publishNode(node: NodeName, facts: NodeFacts, signal: AbortSignal): Promise<void> {
    return publishNodeResource(this, { node, facts }, signal);
  }

  async reportNetwork(): Promise<void> {
    await Promise.resolve();
  }

  async findLeader(lease: string, signal: AbortSignal): Promise<string | undefined> {
    const { kvs } = await this.#client.range({ key: bytesOf(this.#keys.leader(lease)) }, signal);
    return kvs.map(({ value }) => decodeText(value))[0];
  }

  async ping(signal: AbortSignal): Promise<void> {
    await this.#client.range(
      { key: bytesOf(this.#keys.resource({ kind: 'IPAMConfiguration', name: IPAM_CONFIGURATION_NAME })) },
      signal,
    );
  }

  async servers(signal: AbortSignal): Promise<readonly string[]> {
    return this.#client.origins(signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#client[Symbol.asyncDispose]();
  }

  #reach(signal: AbortSignal): { client: EtcdClient; keys: Keys; signal: AbortSignal } {
    return { client: this.#client, keys: this.#keys, signal };
  }
}
