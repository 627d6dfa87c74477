import { isRecord } from './result.ts';

/**
 * What the standard host-local plugin is told: routes stay out, because netplug sets the pod's routes itself, and so do
 * gateways, which are ignored (specification, "ipam object fields").
 */
export function hostLocalConf(raw: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const ipam = isRecord(raw['ipam']) ? raw['ipam'] : {};
  const { routes: _routes, gateway: _gateway, ranges, ...rest } = ipam;
  const stripped = Array.isArray(ranges) ? { ranges: ranges.map(withoutGateways) } : {};
  return { ...raw, ipam: { ...rest, ...stripped } };
}

function withoutGateways(set: unknown): unknown {
  if (!Array.isArray(set)) return set;
  return set.map((range: unknown) => {
    if (!isRecord(range)) return range;
    const { gateway: _gateway, ...rest } = range;
    return rest;
  });
}
