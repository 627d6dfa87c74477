import { NetplugError } from '../../../base/errors.ts';
import type { Datastore } from '../../../config/connection.ts';
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
  const { resources: existing } = await store.listResources('IPPool', signal);
  for (const pool of pools) {
    const { cidr } = pool.spec;
    if (existing.some(({ spec }) => spec.cidr === cidr)) continue;
    const other = existing.find(({ spec }) => cidrsOverlap(parseCidr(spec.cidr), parseCidr(cidr)));
    if (other !== undefined) {
      throw new NetplugError(
        'install/refused',
        `Cannot create the pool ${cidr}: it overlaps "${other.metadata.name}" (${other.spec.cidr}) in etcd`,
        { hint: 'Choose another range with --pool' },
      );
    }
    await store.createResource(pool, signal);
  }
}
