import type { BgpConfiguration } from '../model/bgp-configuration.ts';
import type { Node } from '../model/node.ts';
import type { Labels } from '../model/selector.ts';
import { type Address, type Family, formatAddress, tryParseAddress } from '../net/address.ts';
import { type CidrReading, tryReadCidr } from '../net/cidr.ts';
import { bgpSettingsOf } from './bgp-settings.ts';

/** A node as its peers see it. */
export interface Speaker {
  readonly name: string;
  readonly labels: Labels;
  readonly asNumber: number;
  readonly port: number;
  /** Set for route reflectors; always IPv4. */
  readonly clusterId: Address | undefined;
  /** Its addresses, each with the subnet it is in. */
  readonly addresses: Readonly<Partial<Record<Family, CidrReading>>>;
}

/** Returns the nodes with BGP addresses, by name. */
export function speakersOf(
  nodes: readonly Node[],
  configurations: readonly BgpConfiguration[],
): ReadonlyMap<string, Speaker> {
  const speakers = nodes.flatMap((node) => {
    const speaker = speakerOf(node, configurations);
    return speaker === undefined ? [] : [[speaker.name, speaker] as const];
  });
  return new Map(speakers.sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** Returns the speakers by each of their addresses, as text. */
export function speakersByAddress(speakers: Iterable<Speaker>): ReadonlyMap<string, Speaker> {
  const byAddress = new Map<string, Speaker>();
  for (const speaker of speakers) {
    for (const { address } of Object.values(speaker.addresses)) byAddress.set(formatAddress(address), speaker);
  }
  return byAddress;
}

function speakerOf({ metadata, spec }: Node, configurations: readonly BgpConfiguration[]): Speaker | undefined {
  if (spec.bgp === undefined) return undefined;
  const { ipv4Address, ipv6Address, asNumber, routeReflectorClusterID } = spec.bgp;
  const settings = bgpSettingsOf(metadata.name, configurations);
  const ipv4 = ipv4Address === undefined ? undefined : tryReadCidr(ipv4Address);
  const ipv6 = ipv6Address === undefined ? undefined : tryReadCidr(ipv6Address);
  const clusterId = routeReflectorClusterID === undefined ? undefined : tryParseAddress(routeReflectorClusterID);
  return {
    name: metadata.name,
    labels: metadata.labels ?? {},
    asNumber: asNumber ?? settings.asNumber,
    port: settings.listenPort,
    clusterId: clusterId?.family === 4 ? clusterId : undefined,
    addresses: { ...(ipv4 !== undefined && { 4: ipv4 }), ...(ipv6 !== undefined && { 6: ipv6 }) },
  };
}
