import { type Clock, systemClock } from '../../base/clock.ts';
import { NetplugError } from '../../base/errors.ts';
import type { Mode } from '../../base/mode.ts';
import { type Random, systemRandom } from '../../base/random.ts';
import type { IpBlock } from '../../model/ip-block.ts';
import type { AnyResource, ResourceKind, ResourceOf } from '../../model/kinds.ts';
import type { NodeName } from '../../model/names.ts';
import type { NodeCondition } from '../../model/node-readiness.ts';
import type { NodeMachine, NodeReportSpec } from '../../model/node-report.ts';
import { type ResourceId, resourceIdOf } from '../../model/resource-id.ts';
import { endpointIdOf, type EndpointId } from '../../model/workload-endpoint.ts';
import { type Cidr, cidrsOverlap, compareCidrs } from '../../net/cidr.ts';
import { findBuiltIn, refuseBuiltIn, withBuiltIns } from '../built-in.ts';
import { compareEndpointIds } from '../order.ts';
import { type FollowEvent, type FollowOptions, type Query, eventsUntilAborted } from '../follow.ts';
import { timedOut } from '../../base/timed-out.ts';
import { claimNameResource, publishNodeResource, publishReportResource } from '../publish-node.ts';
import { resourceChanged, resourceExists, resourceNotFound } from '../resource-errors.ts';
import { identityOf, withoutVersion, withStatus } from '../stored-resource.ts';
import type { BlockListing, Change, Claim, EndpointListing, NodeView, Outcome, Stored } from '../allocation-store.ts';
import type { NameClaimWrite, NodeFacts } from '../node-status-store.ts';
import type { PoolVersion } from '../pool-status-store.ts';
import type { IpPoolStatus } from '../../model/ip-pool-status.ts';
import type { Store } from '../store.ts';
import { follow } from './follow.ts';
import { blockId, MemoryDatabase, type MemoryState, resourceKey, UNREADABLE } from './memory-database.ts';
import { claimsIn, endpointsIn, insistOnRecord, problemWith, resourceIn, resourcesIn, viewOf } from './read-state.ts';
import type { ResourceListing, VersionedId } from '../resource-store.ts';

/** The called method. */
export type Operation = Exclude<keyof Store, symbol>;

/** A fault of one operation. */
export type StoreFault =
  /** A commit conflicts with another writer and changes nothing. Other operations ignore it. */
  | { readonly kind: 'conflict' }
  /** The operation has no effect, and its answer is lost. */
  | { readonly kind: 'unavailable-before' }
  /** The datastore refuses the caller. */
  | { readonly kind: 'refused' }
  /** The operation takes effect, and its answer is lost. */
  | { readonly kind: 'unavailable-after' }
  /** A read returns an older state. */
  | { readonly kind: 'stale'; readonly changesAgo: number };

export interface MemoryStoreOptions {
  readonly clock?: Clock;
  readonly random?: Random;
  /** Awaited before each operation takes effect, so that a scheduler can interleave operations. */
  readonly pause?: (operation: Operation) => Promise<void>;
  /** Returns the fault of an operation; undefined for none. */
  readonly fault?: (operation: Operation, changes?: readonly Change[]) => StoreFault | undefined;
}

/** A datastore in memory. Stores on one database share its records, like the nodes of a cluster. */
export function openMemoryStore(
  database: MemoryDatabase = new MemoryDatabase(),
  options: MemoryStoreOptions = {},
): Store {
  return new MemoryStore(database, options);
}

class MemoryStore implements Store {
  readonly #database: MemoryDatabase;
  readonly #options: MemoryStoreOptions;

  constructor(database: MemoryDatabase, options: MemoryStoreOptions) {
    this.#database = database;
    this.#options = options;
  }

  isOlder(version: string, than: string): boolean {
    return Number(version) < Number(than);
  }

  async readNodeView(node: NodeName, endpoint: EndpointId | undefined, signal: AbortSignal): Promise<NodeView> {
    return this.#read('readNodeView', signal, (state) => ({
      ...viewOf(state, node, endpoint),
      rollbacks: this.#database.rollbacks,
    }));
  }

  async *follow(queries: readonly Query[], { from, signal }: FollowOptions): AsyncGenerator<FollowEvent> {
    const look = async (state: MemoryState): Promise<MemoryState> => this.#act('follow', { signal }, () => state);
    yield* eventsUntilAborted(follow(this.#database, { queries, from, look }, signal), signal);
  }

  async listClaims(within: readonly Cidr[], signal: AbortSignal): Promise<readonly Claim[]> {
    return this.#read('listClaims', signal, (state) =>
      claimsIn(state).filter(({ cidr }) => within.some((asked) => cidrsOverlap(asked, cidr))),
    );
  }

  async getBlocks(cidrs: readonly Cidr[], signal: AbortSignal): Promise<readonly Stored<IpBlock>[]> {
    return this.#read('getBlocks', signal, ({ blocks }) =>
      cidrs.flatMap((cidr) => {
        const record = blocks.get(blockId(cidr));
        return record === undefined ? [] : [insistOnRecord(record, `block ${blockId(cidr)}`)];
      }),
    );
  }

  async listBlocks(signal: AbortSignal): Promise<BlockListing> {
    return this.#read('listBlocks', signal, (state) => {
      const blocks: Stored<IpBlock>[] = [];
      const problems: string[] = [];
      for (const [id, { value, version }] of state.blocks) {
        if (value === UNREADABLE) problems.push(problemWith(`block ${id}`));
        else blocks.push({ value, version });
      }
      return { blocks: blocks.sort((a, b) => compareCidrs(a.value.cidr, b.value.cidr)), problems };
    });
  }

  async commit(changes: readonly Change[], signal: AbortSignal): Promise<Outcome> {
    return this.#act('commit', { signal, changes }, (fault) => {
      if (changes.length === 0) return 'committed';
      return fault?.kind === 'conflict' ? 'conflict' : this.#database.commit(changes);
    });
  }

  async listEndpoints(node: NodeName | undefined, signal: AbortSignal): Promise<EndpointListing> {
    return this.#read('listEndpoints', signal, (state) => {
      const { endpoints, problems } = endpointsIn(state, node);
      const inOrder = endpoints.sort((a, b) => compareEndpointIds(endpointIdOf(a.value), endpointIdOf(b.value)));
      return { endpoints: inOrder, problems };
    });
  }

  async listResources<K extends ResourceKind>(kind: K, signal: AbortSignal): Promise<ResourceListing<K>> {
    return this.#read('listResources', signal, (state) => {
      const { resources, problems } = resourcesIn(state, kind);
      return { resources: withBuiltIns(kind, resources), problems };
    });
  }

  async findResource<K extends ResourceKind>(
    which: ResourceId<K>,
    signal: AbortSignal,
  ): Promise<ResourceOf<K> | undefined> {
    return this.#read('findResource', signal, (state) => findBuiltIn(which) ?? resourceIn(state, which));
  }

  async createResource(resource: AnyResource, signal: AbortSignal, mode?: Mode): Promise<AnyResource> {
    const { clock = systemClock, random = systemRandom } = this.#options;
    return this.#act('createResource', { signal }, () => {
      const which = resourceIdOf(resource);
      refuseBuiltIn(which);
      if (this.#database.state().resources.has(resourceKey(which))) throw resourceExists(which);
      const identity = { uid: random.id(), creationTimestamp: new Date(clock.now()).toISOString() };
      return this.#put(withoutVersion(resource, identity), mode);
    });
  }

  async updateResource(resource: AnyResource, signal: AbortSignal, mode?: Mode): Promise<AnyResource> {
    const { resourceVersion } = resource.metadata;
    return this.#act('updateResource', { signal }, () => {
      const which = resourceIdOf(resource);
      refuseBuiltIn(which);
      const current = this.#current(which, resourceVersion);
      return this.#put(withoutVersion(resource, identityOf(current)), mode);
    });
  }

  async deleteResource({ resourceVersion, ...which }: VersionedId, signal: AbortSignal, mode?: Mode): Promise<void> {
    return this.#act('deleteResource', { signal }, () => {
      refuseBuiltIn(which);
      this.#current(which, resourceVersion);
      if (mode !== 'dry-run') this.#database.putResource(which, undefined);
    });
  }

  async setPoolStatus(
    { name, resourceVersion }: PoolVersion,
    status: IpPoolStatus | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    await this.#act('setPoolStatus', { signal }, () => {
      const which = { kind: 'IPPool', name } as const;
      this.#current(which, resourceVersion);
      const pool = resourceIn(this.#database.state(), which);
      if (pool !== undefined) this.#put(withStatus(withoutVersion(pool, identityOf(pool)), status), 'apply');
    });
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

  async reportConditions(node: NodeName, conditions: readonly NodeCondition[], signal: AbortSignal): Promise<void> {
    await this.#act('reportConditions', { signal }, () => this.#database.conditionReports.push({ node, conditions }));
  }

  async ping(signal: AbortSignal): Promise<void> {
    return this.#read('ping', signal, () => undefined);
  }

  async servers(signal: AbortSignal): Promise<readonly string[]> {
    return this.#read('servers', signal, () => this.#database.servers);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.resolve();
  }

  #put(resource: AnyResource, mode: Mode | undefined): AnyResource {
    if (mode === 'dry-run') return resource;
    const resourceVersion = this.#database.putResource(resourceIdOf(resource), resource);
    return { ...resource, metadata: { ...resource.metadata, resourceVersion } };
  }

  #current(which: ResourceId, resourceVersion: string | undefined): unknown {
    const record = this.#database.state().resources.get(resourceKey(which));
    if (record === undefined) throw resourceNotFound(which);
    if (resourceVersion !== undefined && resourceVersion !== record.version) throw resourceChanged(which);
    return record.value;
  }

  async #read<T>(operation: Operation, signal: AbortSignal, look: (state: MemoryState) => T): Promise<T> {
    return this.#act(operation, { signal }, (fault) =>
      look(this.#database.state(fault?.kind === 'stale' ? fault.changesAgo : 0)),
    );
  }

  async #act<T>(
    operation: Operation,
    { signal, changes }: { signal: AbortSignal; changes?: readonly Change[] },
    effect: (fault: StoreFault | undefined) => T,
  ): Promise<T> {
    await this.#options.pause?.(operation);
    if (signal.aborted) throw timedOut(signal, 'waiting for the datastore in memory');
    const fault = this.#options.fault?.(operation, changes);
    if (fault?.kind === 'unavailable-before') throw unavailable('a fault was requested');
    if (fault?.kind === 'refused') throw refused();
    const result = effect(fault);
    if (fault?.kind === 'unavailable-after') throw unavailable('it is not known whether the change was made');
    return result;
  }
}

function refused(): NetplugError {
  return new NetplugError('store/refused', 'Cannot use the datastore in memory: the user has no rights', {
    hint: 'This is a fault that a test asked for',
  });
}

function unavailable(why: string): NetplugError {
  return new NetplugError('store/unavailable', `Cannot use the datastore in memory: ${why}`, {
    hint: 'This is a fault that a test asked for',
  });
}
