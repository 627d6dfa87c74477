import { type Clock, systemClock } from '../../base/clock.ts';
import type { Mode } from '../../base/mode.ts';
import { type Random, systemRandom } from '../../base/random.ts';
import { slicesOf } from '../../base/slices.ts';
import type { IpBlock } from '../../model/ip-block.ts';
import type { AnyResource, ResourceKind, ResourceOf } from '../../model/kinds.ts';
import { IPAM_CONFIGURATION_NAME } from '../../model/ipam-configuration.ts';
import type { NodeName } from '../../model/names.ts';
import type { NodeMachine, NodeReportSpec } from '../../model/node-report.ts';
import { type ResourceId, resourceIdOf } from '../../model/resource-id.ts';
import { endpointIdOf, type EndpointId } from '../../model/workload-endpoint.ts';
import { type Cidr, compareCidrs, formatCidr } from '../../net/cidr.ts';
import type { KvConnection } from '../../config/connection.ts';
import { compareEndpointIds } from '../order.ts';
import { type FollowEvent, type FollowOptions, type Query, eventsUntilAborted } from '../follow.ts';
import { follow } from './follow.ts';
import { claimNameResource, publishNodeResource, publishReportResource } from '../publish-node.ts';
import type { BlockListing, Change, Claim, EndpointListing, NodeView, Outcome, Stored } from '../allocation-store.ts';
import type { NameClaimWrite, NodeFacts } from '../node-status-store.ts';
import type { PoolVersion } from '../pool-status-store.ts';
import type { IpPoolStatus } from '../../model/ip-pool-status.ts';
import type { Store } from '../store.ts';
import { type ClientLimits, ETCD_LIMITS, EtcdClient } from './etcd-client.ts';
import { type KeyRange, Keys } from './keys.ts';
import { listRange, type RangeListing } from './paging.ts';
import { planCommit } from './plan-commit.ts';
import { readBlockRecords } from './read-blocks.ts';
import { readNodeView } from './read-node.ts';
import { blockReader, endpointReader, jsonOf, readClaim, resourceReader, versionOf, withVersion } from './records.ts';
import {
  absent,
  bytesOf,
  decodeText,
  get,
  type LeasedKey,
  MAX_OPS,
  present,
  put,
  rangesIn,
  remove,
  txn,
  unchanged,
} from './requests.ts';
import type { ResourceListing, VersionedId } from '../resource-store.ts';
import { insist, sortOut } from '../unreadable.ts';
import { findBuiltIn, refuseBuiltIn, withBuiltIns } from '../built-in.ts';
import { resourceChanged, resourceContested, resourceExists, resourceNotFound } from '../resource-errors.ts';
import { identityOf, withoutVersion, withStatus } from '../stored-resource.ts';
import type { TxnResponse } from '../../../proto/gen/etcd.ts';

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

/** Number of tries of an update without a version while other writers change the resource. */
const UPDATE_TRIES = 8;

/** The datastore on etcd v3. Nothing is read or connected until the first call; close it with `await using`. */
export function openKvStore(connection: KvConnection, options: KvStoreOptions = {}): Store {
  return new KvStore(connection, options);
}

class KvStore implements Store {
  readonly #client: EtcdClient;
  readonly #keys: Keys;
  readonly #pageSize: number;
  readonly #clock: Clock;
  readonly #random: Random;

  constructor(connection: KvConnection, options: KvStoreOptions) {
    this.#keys = new Keys(options.prefix);
    this.#pageSize = options.pageSize ?? 500;
    this.#client = new EtcdClient(connection, {
      limits: { ...ETCD_LIMITS, ...options.limits },
      onRequest: options.onRequest ?? ((): void => undefined),
      ...(options.fence === undefined ? {} : { fence: options.fence }),
    });
    this.#clock = options.clock ?? systemClock;
    this.#random = options.random ?? systemRandom;
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
      const { kvs, revision } = await this.#list(this.#keys.claimsInside(cidr), signal);
      add(sortOut(kvs, readClaim).good);
      const around = this.#keys.claimsAround(cidr);
      if (around.length === 0) continue;
      const larger = await this.#client.read(txn({ success: around.map((key) => get(key, revision)) }), signal);
      add(sortOut(rangesIn(larger).flat(), readClaim).good);
    }
    return [...found.values()].sort((a, b) => compareCidrs(a.cidr, b.cidr));
  }

  async getBlocks(cidrs: readonly Cidr[], signal: AbortSignal): Promise<readonly Stored<IpBlock>[]> {
    const read = blockReader(this.#keys);
    const blocks: Stored<IpBlock>[] = [];
    for (const some of slicesOf(cidrs, MAX_OPS)) {
      const { kvs } = await readBlockRecords(this.#reach(signal), some);
      blocks.push(...kvs.map((kv) => insist(read(kv))));
    }
    return blocks;
  }

  async listBlocks(signal: AbortSignal): Promise<BlockListing> {
    const { kvs } = await this.#list(this.#keys.blocks(), signal);
    const { good, problems } = sortOut(kvs, blockReader(this.#keys));
    return { blocks: good.sort((a, b) => compareCidrs(a.value.cidr, b.value.cidr)), problems };
  }

  async commit(changes: readonly Change[], signal: AbortSignal): Promise<Outcome> {
    if (changes.length === 0) return 'committed';
    const { succeeded } = await this.#client.write(planCommit(this.#keys, changes), signal);
    return succeeded ? 'committed' : 'conflict';
  }

  async listEndpoints(node: NodeName | undefined, signal: AbortSignal): Promise<EndpointListing> {
    const { kvs } = await this.#list(this.#keys.endpoints(node), signal);
    const { good, problems } = sortOut(kvs, endpointReader(this.#keys));
    const endpoints = good.sort((a, b) => compareEndpointIds(endpointIdOf(a.value), endpointIdOf(b.value)));
    return { endpoints, problems };
  }

  async listResources<K extends ResourceKind>(kind: K, signal: AbortSignal): Promise<ResourceListing<K>> {
    const { kvs } = await this.#list(this.#keys.resources(kind), signal);
    const { good, problems } = sortOut(kvs, resourceReader(this.#keys, kind));
    const resources = good.map(({ resource }) => resource);
    return { resources: withBuiltIns(kind, resources), problems };
  }

  async findResource<K extends ResourceKind>(
    which: ResourceId<K>,
    signal: AbortSignal,
  ): Promise<ResourceOf<K> | undefined> {
    const builtIn = findBuiltIn(which);
    if (builtIn !== undefined) return builtIn;
    const { kvs } = await this.#client.range({ key: bytesOf(this.#keys.resource(which)) }, signal);
    const read = resourceReader(this.#keys, which.kind);
    return kvs.map((kv) => insist(read(kv)).resource)[0];
  }

  async createResource(resource: AnyResource, signal: AbortSignal, mode: Mode = 'apply'): Promise<AnyResource> {
    const which = resourceIdOf(resource);
    refuseBuiltIn(which);
    const key = this.#keys.resource(which);
    const made = withoutVersion(resource, {
      uid: this.#random.id(),
      creationTimestamp: new Date(this.#clock.now()).toISOString(),
    });
    const condition = { compare: [absent(key)] };
    if (mode === 'dry-run') {
      if (!(await this.#client.read(txn({ ...condition, success: [] }), signal)).succeeded) throw resourceExists(which);
      return made;
    }
    const answer = await this.#client.write(txn({ ...condition, success: [put(key, JSON.stringify(made))] }), signal);
    if (!answer.succeeded) throw resourceExists(which);
    return withVersion(made, versionAfter(answer));
  }

  async updateResource(resource: AnyResource, signal: AbortSignal, mode: Mode = 'apply'): Promise<AnyResource> {
    const { resourceVersion } = resource.metadata;
    const which = resourceIdOf(resource);
    refuseBuiltIn(which);
    const key = this.#keys.resource(which);
    for (let attempt = 0; attempt < UPDATE_TRIES; attempt += 1) {
      const { kvs } = await this.#client.range({ key: bytesOf(key) }, signal);
      const [current] = kvs;
      if (current === undefined) throw resourceNotFound(which);
      if (resourceVersion !== undefined && resourceVersion !== versionOf(current)) throw resourceChanged(which);
      const next = withoutVersion(resource, identityOf(jsonOf(current)));
      if (mode === 'dry-run') return next;
      const write = txn({ compare: [unchanged(key, versionOf(current))], success: [put(key, JSON.stringify(next))] });
      const answer = await this.#client.write(write, signal);
      if (answer.succeeded) return withVersion(next, versionAfter(answer));
      if (resourceVersion !== undefined) throw resourceChanged(which);
    }
    throw resourceContested(which);
  }

  async setPoolStatus(
    { name, resourceVersion }: PoolVersion,
    status: IpPoolStatus | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    const which = { kind: 'IPPool', name } as const;
    const pool = await this.findResource(which, signal);
    if (pool === undefined) throw resourceNotFound(which);
    if (pool.metadata.resourceVersion !== resourceVersion) throw resourceChanged(which);
    const key = this.#keys.resource(which);
    const next = withStatus(withoutVersion(pool, identityOf(pool)), status);
    const write = txn({ compare: [unchanged(key, resourceVersion)], success: [put(key, JSON.stringify(next))] });
    if (!(await this.#client.write(write, signal)).succeeded) throw resourceChanged(which);
  }

  /** One request: when the condition fails, the answer carries what is there instead. */
  async deleteResource(
    { resourceVersion, ...which }: VersionedId,
    signal: AbortSignal,
    mode: Mode = 'apply',
  ): Promise<void> {
    refuseBuiltIn(which);
    const key = this.#keys.resource(which);
    const condition = resourceVersion === undefined ? present(key) : unchanged(key, resourceVersion);
    const success = mode === 'dry-run' ? [] : [remove(key)];
    const answer = await this.#client.write(txn({ compare: [condition], success, failure: [get(key)] }), signal);
    if (answer.succeeded) return;
    throw rangesIn(answer).flat().length === 0 ? resourceNotFound(which) : resourceChanged(which);
  }

  async publishNode(node: NodeName, facts: NodeFacts, signal: AbortSignal): Promise<void> {
    return publishNodeResource(this, { node, facts }, signal);
  }

  async claimName(node: NodeName, claim: NameClaimWrite, signal: AbortSignal): Promise<NodeMachine | undefined> {
    return claimNameResource(this, { node, ...claim }, signal);
  }

  async publishReport(node: NodeName, report: NodeReportSpec, signal: AbortSignal): Promise<void> {
    return publishReportResource(this, { node, report }, signal);
  }

  async reportConditions(): Promise<void> {
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

  async #list(range: KeyRange, signal: AbortSignal): Promise<RangeListing> {
    return listRange(this.#client, range, { pageSize: this.#pageSize, signal });
  }

  #reach(signal: AbortSignal): { client: EtcdClient; keys: Keys; signal: AbortSignal } {
    return { client: this.#client, keys: this.#keys, signal };
  }
}

function versionAfter({ header }: TxnResponse): string {
  return String(header?.revision ?? 0n);
}
