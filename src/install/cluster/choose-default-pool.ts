import type { InstallationPool } from '../../model/installation.ts';
import { cidrsOverlap, parseCidr, tryReadCidr } from '../../net/cidr.ts';

/** Private ranges, those that are seldom used for hosts first. */
const CANDIDATES = ['192.168.0.0/16', '10.244.0.0/16', '172.30.0.0/16', '10.128.0.0/14', '100.64.0.0/10'];

/**
 * Returns a pool for an installation that names none: the first common range that overlaps nothing of `taken`, which are CIDRs of
 * nodes, pods and services. Undefined when every candidate overlaps.
 */
export function chooseDefaultPool(taken: readonly string[]): InstallationPool | undefined {
  const ranges = taken.flatMap((text) => tryReadCidr(text)?.cidr ?? []);
  const cidr = CANDIDATES.find((candidate) => !ranges.some((range) => cidrsOverlap(range, parseCidr(candidate))));
  return cidr === undefined ? undefined : { cidr };
}
