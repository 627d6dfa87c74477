import type { InstallationPool } from '../../model/installation.ts';
import { rangesOverlap } from '../../net/cidr.ts';

/** Private ranges, those that are seldom used for hosts first. */
const CANDIDATES = ['192.168.0.0/16', '10.244.0.0/16', '172.30.0.0/16', '10.128.0.0/14', '100.64.0.0/10'];

/**
 * Returns a pool for an installation that names none: the first common range that overlaps nothing of `taken`, which are CIDRs and
 * addresses of nodes, pods and services. Undefined when every candidate overlaps.
 */
export function chooseDefaultPool(taken: readonly string[]): InstallationPool | undefined {
  const cidr = CANDIDATES.find((candidate) => !taken.some((range) => rangesOverlap(range, candidate)));
  return cidr === undefined ? undefined : { cidr };
}
