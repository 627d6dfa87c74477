import type { ResourceStore } from '../../../datastore/resource-store.ts';
import type { AllocationStore } from '../../../datastore/allocation-store.ts';
import { NetplugError } from '../../../base/errors.ts';
import { problemsError } from '../../../base/problem.ts';
import type { IpPool } from '../../../model/ip-pool.ts';
import { poolProblems } from '../../../model/pool-conflicts.ts';
import { formatCidr, parseCidr } from '../../../net/cidr.ts';
import { counted } from '../../../base/counted.ts';

/**
 * Refuses a pool that does not fit beside what is there. `previous` is the pool as it is stored, for an update.
 * @throws resource/invalid for an overlap or a change of what cannot be changed, resource/in-use when nodes already
 * hold blocks of another size inside a new pool
 */
export async function assertPoolFits(
  store: AllocationStore & ResourceStore,
  { pool, previous }: { pool: IpPool; previous: IpPool | undefined },
  signal: AbortSignal,
): Promise<void> {
  const { resources } = await store.listResources('IPPool', signal);
  const problems = poolProblems(pool, resources, previous);
  const { name } = pool.metadata;
  if (problems.length > 0) throw problemsError(`IPPool "${name}"`, problems, 'resource/invalid');
  if (previous !== undefined) return;
  const { cidr, blockSize } = pool.spec;
  const claims = await store.listClaims([parseCidr(cidr)], signal);
  const odd = claims.filter((claim) => claim.cidr.prefixBits !== blockSize);
  const [first] = odd;
  if (first === undefined) return;
  const blocks = `${counted(odd.length, 'block')} of another size, such as ${formatCidr(first.cidr)},`;
  throw new NetplugError('resource/in-use', `Cannot create IPPool "${name}": ${blocks} stand in ${cidr}`, {
    hint: `Give the pool blockSize ${String(first.cidr.prefixBits)}, or free the blocks first`,
    facts: { pool: name, cidr, blockSize },
  });
}

/**
 * Looks again after a pool was created: another may have been created at the same moment. Then this one goes, so that of
 * two that overlap at most one is accepted. @throws resource/invalid
 */
export async function withdrawOverlapping(
  store: AllocationStore & ResourceStore,
  pool: IpPool,
  signal: AbortSignal,
): Promise<void> {
  const { resources } = await store.listResources('IPPool', signal);
  const problems = poolProblems(pool, resources);
  if (problems.length === 0) return;
  const { name, resourceVersion } = pool.metadata;
  const which = { kind: 'IPPool', name, ...(resourceVersion === undefined ? {} : { resourceVersion }) } as const;
  await store.deleteResource(which, signal);
  throw problemsError(`IPPool "${name}"`, problems, 'resource/invalid');
}
