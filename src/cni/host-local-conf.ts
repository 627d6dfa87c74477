import { ownValue } from '../base/own-value.ts';
import { POD_CIDR_WORDS, type PodSubnets } from './pod-subnets.ts';
import { isJsonObject } from './result.ts';

/**
 * Returns the configuration for the standard host-local plugin. Leaves out routes, which netplug sets itself, and
 * gateways, which are ignored (specification, "ipam object fields"). Replaces `usePodCidr` words by subnets.
 */
export function hostLocalConf(
  raw: Readonly<Record<string, unknown>>,
  subnets: PodSubnets,
): Readonly<Record<string, unknown>> {
  const ipam = isJsonObject(raw['ipam']) ? raw['ipam'] : {};
  const { routes: _routes, ranges, ...rest } = ipam;
  const stripped = Array.isArray(ranges) ? { ranges: ranges.map((set: unknown) => plainSet(set, subnets)) } : {};
  return { ...raw, ipam: { ...plainRange(rest, subnets), ...stripped } };
}

function plainSet(set: unknown, subnets: PodSubnets): unknown {
  if (!Array.isArray(set)) return set;
  return set.map((range: unknown) => (isJsonObject(range) ? plainRange(range, subnets) : range));
}

function plainRange({ gateway: _gateway, ...range }: Record<string, unknown>, subnets: PodSubnets): object {
  const { subnet } = range;
  const family = typeof subnet === 'string' ? ownValue(POD_CIDR_WORDS, subnet) : undefined;
  return family === undefined ? range : { ...range, subnet: subnets[family] };
}
