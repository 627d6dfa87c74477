import { type Clock, systemClock } from '../../base/clock.ts';
import { type Log, silentLog } from '../../base/log.ts';
import type { Mode } from '../../base/mode.ts';
import type { IpBlock } from '../../model/ip-block.ts';
import { IPAM_CONFIGURATION_NAME } from '../../model/ipam-configuration.ts';
import type { AnyResource, ResourceKind, ResourceOf } from '../../model/kinds.ts';
import type { NodeName } from '../../model/names.ts';
import type { NodeCondition } from '../../model/node-readiness.ts';
import type { NodeMachine, NodeReportSpec } from '../../model/node-report.ts';
import type { ResourceId } from '../../model/resource-id.ts';
import type { EndpointId } from '../../model/workload-endpoint.ts';
import type { Cidr } from '../../net/cidr.ts';
import type { OrchAccess } from '../../kube/access.ts';
import { OrchApi, type OrchApiOptions } from '../../kube/orch-api.ts';
import { type FollowEvent, type FollowOptions, type Query, eventsUntilAborted } from '../follow.ts';
import { follow } from './follow.ts';
import type { BlockListing, Change, Claim, EndpointListing, NodeView, Outcome, Stored } from '../allocation-store.ts';
import type { NameClaimWrite, NodeFacts } from '../node-status-store.ts';
import type { FieldOwnership, ResourceListing, VersionedId } from '../resource-store.ts';
import { setPoolStatus } from './write-pool-status.ts';
import type { PoolVersion } from '../pool-status-store.ts';
import type { IpPoolStatus } from '../../model/ip-pool-status.ts';
import type { Store } from '../store.ts';
import { ApiServers } from './api-servers.ts';
import { parseVersion } from './block-objects.ts';
import { applyResource } from './apply-resource.ts';
import { commitChanges } from './commit.ts';
import { createResource, deleteResource, findResource, listResources, updateResource } from './orch-resources.ts';
import { publishNode } from './publish-node.ts';
import { claimName, publishReport } from './publish-report.ts';
import { getBlocks, listBlocks, listClaims } from './read-blocks.ts';
import { listRecordedEndpoints, readNodeView } from './read-node.ts';
import { reportConditions } from './report-conditions.ts';
import { collectionOf } from './resource-objects.ts';
import type { BlockMetadata, WatchedBlocks } from './node-blocks.ts';
import { WrittenBlocks } from './written-blocks.ts';

export interface OrchStoreOptions extends OrchApiOptions {
  /** Called for each endpoint that could not be written. */
  readonly log?: Log;
  /** Followers ask the API whether it serves when its watches have been silent for so long: 5 s unless given, never for `Infinity`. */
  readonly probeAfterMs?: number | undefined;
  /** What is watched for the blocks of a node; these blocks alone unless something else is followed or sent anyway. */
  readonly watchedBlocks?: WatchedBlocks;
  /** Whether followed records of what users write have the object in which they are. */
  readonly withStored?: boolean;
}

const PROBE_AFTER_MS = 5000;

/**
 * The datastore in the API of the orchestrator: resources and blocks are custom resources, nodes the orchestrator's
 * own. Nothing is read or connected until the first call; close it with `await using`.
 */
export function openOrchStore(access: OrchAccess, options: OrchStoreOptions = {}): Store {
  return new OrchStore(access, options);
}

class OrchStore implements Store {
  readonly #api: OrchApi;
  readonly #clock: Clock;
  readonly #servers: ApiServers;
  readonly #log: Log;
  readonly #probeAfterMs: number;
  readonly #blockMetadata: BlockMetadata | undefined;
  readonly #withStored: boolean;

  constructor(access: OrchAccess, options: OrchStoreOptions) {
    const { clock = systemClock, log = silentLog } = options;
    this.#log = log;
    this.#probeAfterMs = options.probeAfterMs ?? PROBE_AFTER_MS;
    this.#clock = clock;
    this.#withStored = options.withStored ?? false;
    const { watchedBlocks: watched = 'own' } = options;
    this.#blockMetadata = watched === 'own' ? undefined : { watched, written: new WrittenBlocks(clock) };
    this.#api = new OrchApi(access, options);
    this.#servers = new ApiServers(this.#api, clock);
  }

  isOlder(version: string, than: string): boolean {
    const [one, other] = [parseVersion(version), parseVersion(than)];
    // Numbers of the same store of records behind the API, as every release of it has them.
    return one?.uid === other?.uid && Number(one?.resourceVersion) < Number(other?.resourceVersion);
  }

  async readNodeView(node: NodeName, endpoint: EndpointId | undefined, signal: AbortSignal): Promise<NodeView> {
    return readNodeView(this.#api, { node, endpoint }, signal);
  }

  async *follow(
    queries: readonly Query[],
    { from, isFresh = false, signal }: FollowOptions,
  ): AsyncGenerator<FollowEvent> {
    const events = follow(
      {
        api: this.#api,
        probeAfterMs: this.#probeAfterMs,
        blockMetadata: this.#blockMetadata,
        withStored: this.#withStored,
      },
      { queries, from, isFresh },
      signal,
    );
    yield* eventsUntilAborted(events, signal);
  }

  async listClaims(within: readonly Cidr[], signal: AbortSignal): Promise<readonly Claim[]> {
    return listClaims(this.#api, within, signal);
  }

  async getBlocks(cidrs: readonly Cidr[], signal: AbortSignal): Promise<readonly Stored<IpBlock>[]> {
    return getBlocks(this.#api, cidrs, signal);
  }

  async listBlocks(signal: AbortSignal): Promise<BlockListing> {
    return listBlocks(this.#api, signal);
  }

  async commit(changes: readonly Change[], signal: AbortSignal): Promise<Outcome> {
    return commitChanges(
      { api: this.#api, log: this.#log, writtenBlocks: this.#blockMetadata?.written },
      changes,
      signal,
    );
  }

  async listEndpoints(node: NodeName | undefined, signal: AbortSignal): Promise<EndpointListing> {
    return listRecordedEndpoints(this.#api, node, signal);
  }

  async listResources<K extends ResourceKind>(kind: K, signal: AbortSignal): Promise<ResourceListing<K>> {
    return listResources(this.#api, kind, signal);
  }

  async findResource<K extends ResourceKind>(
    which: ResourceId<K>,
    signal: AbortSignal,
  ): Promise<ResourceOf<K> | undefined> {
    return findResource(this.#api, which, signal);
  }

  get fieldOwnership(): FieldOwnership {
    return { apply: async (what, signal) => applyResource(this.#api, what, signal) };
  }

  async createResource(resource: AnyResource, signal: AbortSignal, mode?: Mode): Promise<AnyResource> {
    return createResource(this.#api, { resource, mode }, signal);
  }

  async updateResource(resource: AnyResource, signal: AbortSignal, mode?: Mode): Promise<AnyResource> {
    return updateResource(this.#api, { resource, mode }, signal);
  }

  async deleteResource(which: VersionedId, signal: AbortSignal, mode?: Mode): Promise<void> {
    return deleteResource(this.#api, { ...which, mode }, signal);
  }

  async setPoolStatus(pool: PoolVersion, status: IpPoolStatus | undefined, signal: AbortSignal): Promise<void> {
    return setPoolStatus(this.#api, { pool, status }, signal);
  }

  async publishNode(node: NodeName, facts: NodeFacts, signal: AbortSignal): Promise<void> {
    return publishNode(this.#api, { node, facts }, signal);
  }

  async claimName(node: NodeName, claim: NameClaimWrite, signal: AbortSignal): Promise<NodeMachine | undefined> {
    return claimName(this.#api, { node, ...claim }, signal);
  }

  async publishReport(node: NodeName, report: NodeReportSpec, signal: AbortSignal): Promise<void> {
    return publishReport(this.#api, { node, report }, signal);
  }

  async reportConditions(node: NodeName, conditions: readonly NodeCondition[], signal: AbortSignal): Promise<void> {
    return reportConditions({ api: this.#api, clock: this.#clock }, { node, conditions }, signal);
  }

  async ping(signal: AbortSignal): Promise<void> {
    await this.#api.probe(collectionOf('IPAMConfiguration'), IPAM_CONFIGURATION_NAME, signal);
  }

  async servers(signal: AbortSignal): Promise<readonly string[]> {
    return [(await this.#api.origin(signal)).server, ...(await this.#servers.origins(signal))];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#api[Symbol.asyncDispose]();
  }
}
