import type { Clock } from '../../base/clock.ts';
import type { Mode } from '../../base/mode.ts';
import type { Random } from '../../base/random.ts';
import type { AnyResource, ResourceKind, ResourceOf } from '../../model/kinds.ts';
import { type ResourceId, resourceIdOf } from '../../model/resource-id.ts';
import { findBuiltIn, refuseBuiltIn, withBuiltIns } from '../built-in.ts';
import { resourceChanged, resourceContested, resourceExists, resourceNotFound } from '../resource-errors.ts';
import type { IpPoolStatus } from '../../model/ip-pool-status.ts';
import type { PoolVersion } from '../pool-status-store.ts';
import { identityOf, withoutVersion, withStatus } from '../stored-resource.ts';
import type { EtcdClient } from './etcd-client.ts';
import type { TxnResponse } from '../../../proto/gen/etcd.ts';
import type { Keys } from './keys.ts';
import { listRange } from './paging.ts';
import { jsonOf, resourceReader, versionOf } from './records.ts';
import { absent, bytesOf, get, present, put, rangesIn, remove, txn, unchanged } from './requests.ts';
import type { ResourceListing, VersionedId } from '../resource-store.ts';
import { insist, sortOut } from '../unreadable.ts';

/** Number of tries of an update without a version while other writers change the resource. */
const UPDATE_TRIES = 8;

interface ResourceParts {
  readonly client: EtcdClient;
  readonly keys: Keys;
  readonly clock: Clock;
  readonly random: Random;
  readonly pageSize: number;
}

/** The resources that users write: plain objects, each under its own key. */
export class KvResources {
  readonly #with: ResourceParts;

  constructor(parts: ResourceParts) {
    this.#with = parts;
  }

  async list<K extends ResourceKind>(kind: K, signal: AbortSignal): Promise<ResourceListing<K>> {
    const { client, keys, pageSize } = this.#with;
    const { kvs } = await listRange(client, keys.resources(kind), { pageSize, signal });
    const { good, problems } = sortOut(kvs, resourceReader(keys, kind));
    const resources = good.map(({ resource }) => resource);
    return { resources: withBuiltIns(kind, resources), problems };
  }

  async find<K extends ResourceKind>(which: ResourceId<K>, signal: AbortSignal): Promise<ResourceOf<K> | undefined> {
    const builtIn = findBuiltIn(which);
    if (builtIn !== undefined) return builtIn;
    const { client, keys } = this.#with;
    const { kvs } = await client.range({ key: bytesOf(keys.resource(which)) }, signal);
    const read = resourceReader(keys, which.kind);
    return kvs.map((kv) => insist(read(kv)).resource)[0];
  }

  async create(resource: AnyResource, signal: AbortSignal, mode: Mode = 'apply'): Promise<AnyResource> {
    const { client, keys, clock, random } = this.#with;
    const which = resourceIdOf(resource);
    refuseBuiltIn(which);
    const key = keys.resource(which);
    const made = withoutVersion(resource, {
      uid: random.id(),
      creationTimestamp: new Date(clock.now()).toISOString(),
    });
    const condition = { compare: [absent(key)] };
    if (mode === 'dry-run') {
      if (!(await client.read(txn({ ...condition, success: [] }), signal)).succeeded) throw resourceExists(which);
      return made;
    }
    const answer = await client.write(txn({ ...condition, success: [put(key, JSON.stringify(made))] }), signal);
    if (!answer.succeeded) throw resourceExists(which);
    return withVersion(made, answer);
  }

  async update(resource: AnyResource, signal: AbortSignal, mode: Mode = 'apply'): Promise<AnyResource> {
    const { client, keys } = this.#with;
    const { resourceVersion } = resource.metadata;
    const which = resourceIdOf(resource);
    refuseBuiltIn(which);
    const key = keys.resource(which);
    for (let attempt = 0; attempt < UPDATE_TRIES; attempt += 1) {
      const { kvs } = await client.range({ key: bytesOf(key) }, signal);
      const [current] = kvs;
      if (current === undefined) throw resourceNotFound(which);
      if (resourceVersion !== undefined && resourceVersion !== versionOf(current)) throw resourceChanged(which);
      const next = withoutVersion(resource, identityOf(jsonOf(current)));
      if (mode === 'dry-run') return next;
      const write = txn({ compare: [unchanged(key, versionOf(current))], success: [put(key, JSON.stringify(next))] });
      const answer = await client.write(write, signal);
      if (answer.succeeded) return withVersion(next, answer);
      if (resourceVersion !== undefined) throw resourceChanged(which);
    }
    throw resourceContested(which);
  }

  async setPoolStatus(
    { name, resourceVersion }: PoolVersion,
    status: IpPoolStatus | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    const { client, keys } = this.#with;
    const which = { kind: 'IPPool', name } as const;
    const pool = await this.find(which, signal);
    if (pool === undefined) throw resourceNotFound(which);
    if (pool.metadata.resourceVersion !== resourceVersion) throw resourceChanged(which);
    const key = keys.resource(which);
    const next = withStatus(withoutVersion(pool, identityOf(pool)), status);
    const write = txn({ compare: [unchanged(key, resourceVersion)], success: [put(key, JSON.stringify(next))] });
    if (!(await client.write(write, signal)).succeeded) throw resourceChanged(which);
  }

  /** One request: when the condition fails, the answer carries what is there instead. */
  async delete({ resourceVersion, ...which }: VersionedId, signal: AbortSignal, mode: Mode = 'apply'): Promise<void> {
    refuseBuiltIn(which);
    const { client, keys } = this.#with;
    const key = keys.resource(which);
    const condition = resourceVersion === undefined ? present(key) : unchanged(key, resourceVersion);
    const success = mode === 'dry-run' ? [] : [remove(key)];
    const answer = await client.write(txn({ compare: [condition], success, failure: [get(key)] }), signal);
    if (answer.succeeded) return;
    throw rangesIn(answer).flat().length === 0 ? resourceNotFound(which) : resourceChanged(which);
  }
}

function withVersion(resource: AnyResource, { header }: TxnResponse): AnyResource {
  const resourceVersion = String(header?.revision ?? 0n);
  return { ...resource, metadata: { ...resource.metadata, resourceVersion } };
}
