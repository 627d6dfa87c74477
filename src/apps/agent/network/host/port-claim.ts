import { ownValue } from '../../../../base/own-value.ts';
import { type PortRule, portMarksOf } from '../../../../dataplane/chained-state.ts';
import { isGiven, othersOf } from '../../../../install/host/chained-plugins.ts';
import { type PluginEntry, podOf, type RuntimeRecord } from '../../../../install/host/runtime-records.ts';
import type { NodeProblem } from '../../../../model/node-report.ts';
import { isRecord } from '../../../../model/read-schema.ts';
import { type Family, tryParseAddress } from '../../../../net/address.ts';

const PORTMAP = 'portmap';
const MAPPINGS = 'portMappings';
const NAMED = 3;

/** A port of the host that leads to a container. */
export interface PortMapping {
  readonly hostPort: number;
  /** `tcp`, `udp` or `sctp`. */
  readonly protocol: string;
  /** The family of the host's address; undefined for every address. */
  readonly family: Family | undefined;
}

/** The ports of the host for which an ADD has called the plugin portmap. */
export interface PortClaim {
  readonly record: RuntimeRecord;
  readonly plugin: PluginEntry;
  readonly mappings: readonly PortMapping[];
  readonly families: ReadonlySet<Family>;
}

export type PortProblem = Required<Pick<NodeProblem, 'text' | 'remedy'>>;

/** Returns undefined for an attachment without ports of the host, or whose chain gives them to no plugin. */
export function portClaimOf(record: RuntimeRecord): PortClaim | undefined {
  const plugin = othersOf(record).find((each) => each.type === PORTMAP && isGiven(each, MAPPINGS));
  const mappings = portMappingsOf(record);
  if (plugin === undefined || mappings.length === 0) return undefined;
  return { record, plugin, mappings, families: familiesOf(record) };
}

/** Rules of portmap by `<family> <mark>`. */
export type PortRules = ReadonlyMap<string, readonly PortRule[]>;

export function indexRules(rules: readonly PortRule[]): PortRules {
  return Map.groupBy(rules, ({ family, mark }) => keyOf(family, mark));
}

/**
 * Reports whether packets come to the rules of the claim, in each of its families by one back end of portmap: iptables leads
 * to one chain for all ports, nftables has a rule for each port.
 */
export function isMapped({ record, mappings, families }: PortClaim, rules: PortRules): boolean {
  const { chain, comment } = portMarksOf(record);
  return [...families].every((family) => {
    const wanted = mappings.filter((mapping) => (mapping.family ?? family) === family).length;
    if (wanted === 0) return true;
    const reached = (mark: string): number =>
      (rules.get(keyOf(family, mark)) ?? []).filter(({ isReached }) => isReached).length;
    return reached(chain) > 0 || reached(comment) >= wanted;
  });
}

/** Reports whether there is any rule for the container. */
export function hasRules({ record }: Pick<PortClaim, 'record'>, rules: PortRules): boolean {
  const families: readonly Family[] = [4, 6];
  return Object.values(portMarksOf(record)).some((mark) => families.some((family) => rules.has(keyOf(family, mark))));
}

/** Returns the problem of ports that cannot be mapped again. */
export function describeLostPorts(claim: PortClaim, reason: string): PortProblem {
  return {
    text: `${subjectOf(claim)} have lost rules and cannot be mapped again: ${reason}`,
    remedy: 'Correct what the plugin names, or delete the pod so that its controller makes another',
  };
}

/** Returns the problem of ports for which the plugin cannot be called. */
export function describeUncalledPorts(claim: PortClaim): PortProblem {
  return {
    text: `${subjectOf(claim)} have lost rules and cannot be mapped again: the runtime has not recorded the network namespace, and none is visible behind the link`,
    remedy: 'Delete the pod so that its controller makes another',
  };
}

/** Returns the problem of ports that still lead to a pod that has gone. */
export function describeLeftPorts(claim: PortClaim, reason: string): PortProblem {
  return {
    text: `${subjectOf(claim)}, which has gone, are still mapped: ${reason}`,
    remedy: 'Correct what the plugin names; the agent tries again until it succeeds',
  };
}

function subjectOf({ record, mappings }: PortClaim): string {
  const pod = podOf(record);
  const ports = mappings.slice(0, NAMED).map(({ hostPort, protocol }) => `${String(hostPort)}/${protocol}`);
  const more = mappings.length > NAMED ? [`${String(mappings.length - NAMED)} more`] : [];
  const container = `container "${record.containerId}"`;
  return `host ports ${[...ports, ...more].join(', ')} of ${pod === undefined ? container : `pod "${pod}" (${container})`}`;
}

function keyOf(family: Family, mark: string): string {
  return `${String(family)} ${mark}`;
}

/** Returns the ports of the host that the runtime asked for, as far as they can be read. */
function portMappingsOf({ capabilityArgs }: RuntimeRecord): readonly PortMapping[] {
  const asked = ownValue(capabilityArgs, MAPPINGS);
  return Array.isArray(asked) ? asked.flatMap(portMappingOf) : [];
}

/** Runtimes spell the keys `hostPort` or `HostPort`: plugins read them in either case. */
function portMappingOf(entry: unknown): readonly PortMapping[] {
  const fields = new Map(
    isRecord(entry) ? Object.entries(entry).map(([key, value]) => [key.toLowerCase(), value]) : [],
  );
  const [hostPort, protocol, hostIp] = ['hostport', 'protocol', 'hostip'].map((key) => fields.get(key));
  if (typeof hostPort !== 'number' || !Number.isInteger(hostPort) || hostPort < 1 || hostPort > 65_535) return [];
  if (typeof protocol !== 'string' || !/^[a-z]{1,7}$/i.test(protocol)) return [];
  const family = typeof hostIp === 'string' ? tryParseAddress(hostIp)?.family : undefined;
  return [{ hostPort, protocol: protocol.toLowerCase(), family }];
}

/** Returns the families in which the container has an address. */
function familiesOf({ result }: RuntimeRecord): ReadonlySet<Family> {
  const ips = isRecord(result) && Array.isArray(result['ips']) ? result['ips'] : [];
  const texts = ips.flatMap((ip) => (isRecord(ip) && typeof ip['address'] === 'string' ? [ip['address']] : []));
  return new Set(texts.flatMap((text) => tryParseAddress(text.split('/')[0] ?? '')?.family ?? []));
}
