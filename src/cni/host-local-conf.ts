import { isRecord } from './result.ts';

const WHOLE_FAMILY: ReadonlyMap<string, string> = new Map([
  ['usepodcidr', '0.0.0.0/0'],
  ['usepodcidripv6', '::/0'],
]);

/**
 * What the standard host-local plugin is told: routes stay out, because netplug sets the pod's routes itself, and so do
 * gateways, which are ignored (specification, "ipam object fields"). A subnet that only the orchestrator knows becomes
 * the whole family: ADD never comes this far with one, and DEL, which finds files by container, needs none.
 */
export function hostLocalConf(raw: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const ipam = isRecord(raw['ipam']) ? raw['ipam'] : {};
  const { routes: _routes, gateway: _gateway, ranges, ...rest } = ipam;
  const stripped = Array.isArray(ranges) ? { ranges: ranges.map(withoutGateways) } : {};
  return { ...raw, ipam: { ...withPlainSubnet(rest), ...stripped } };
}

function withoutGateways(set: unknown): unknown {
  if (!Array.isArray(set)) return set;
  return set.map((range: unknown) => {
    if (!isRecord(range)) return range;
    const { gateway: _gateway, ...rest } = range;
    return withPlainSubnet(rest);
  });
}

function withPlainSubnet(range: Record<string, unknown>): Record<string, unknown> {
  const { subnet } = range;
  const plain = typeof subnet === 'string' ? WHOLE_FAMILY.get(subnet.toLowerCase()) : undefined;
  return plain === undefined ? range : { ...range, subnet: plain };
}
