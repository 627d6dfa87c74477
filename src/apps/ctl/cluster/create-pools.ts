import { NetplugError } from '../../../base/errors.ts';
import type { Datastore } from '../../../config/connection.ts';
import type { ResourceStore } from '../../../datastore/resource-store.ts';
import type { IpPool } from '../../../model/ip-pool.ts';
import { cidrsOverlap, parseCidr } from '../../../net/cidr.ts';
import type { Context } from '../ports.ts';

export interface PoolPorts {
  readonly context: Context;
  /** Undefined when records are in the API. */
  readonly kv: Datastore | undefined;
}

/** Creates the pools in etcd. A pool of the same range is left as it is. @throws install/refused, store/* */
export async function createPools(
  { context: { ports, signal }, kv }: PoolPorts,
  pools: readonly IpPool[],
): Promise<void> {
  if (kv === undefined) return;
  await using store = ports.openStore(kv);
  for (const pool of await missingPools(store, pools, signal)) await store.createResource(pool, signal);
}

/** Returns the pools of which etcd has none of the same range. @throws install/refused when one of another range is in the way, store/* */
export async function missingPools(
  store: ResourceStore,
  pools: readonly IpPool[],
  signal: AbortSignal,
): Promise<readonly IpPool[]> {
  const { resources: existing } = await store.listResources('IPPool', signal);
  const missing = pools.filter(({ spec: { cidr } }) => !existing.some(({ spec }) => spec.cidr === cidr));
  for (const { metadata, spec } of missing) {
    const { cidr } = spec;
    const range = parseCidr(cidr);
    const other = existing.find(
      (each) => each.metadata.name === metadata.name || cidrsOverlap(parseCidr(each.spec.cidr), range),
    );
    if (other === undefined) continue;
    const isTwin = other.metadata.name === metadata.name;
    const why = isTwin ? 'the pool has another CIDR' : 'it overlaps a pool';
    throw new NetplugError(
      'install/refused',
      `Cannot create the pool ${cidr}: ${why}, "${other.metadata.name}" (${other.spec.cidr}) in etcd`,
      {
        hint: isTwin
          ? `Name ${other.spec.cidr} with --pool; create another pool with "netplugctl create -f" after the installation`
          : 'Choose another range with --pool',
      },
    );
  }
  return missing;
}
