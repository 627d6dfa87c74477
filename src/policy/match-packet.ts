import { type Address, sameAddress } from '../net/address.ts';
import { type Cidr, cidrContains } from '../net/cidr.ts';
import { isRequestOf } from './match-content.ts';
import { type PacketContent, UNKNOWN_CONTENT } from './packet-content.ts';
import type { PolicyView } from './policy-view.ts';
import type { HttpMatch, IcmpMatch, PeerMatch, PolicyRule, PortMatch } from './resolved-policy.ts';

/** The first packet of a connection, as policies see it: after translation of its destination, before that of its source. */
export interface Packet {
  readonly source: Address;
  readonly destination: Address;
  /** IANA number. */
  readonly protocol: number;
  /** Undefined for protocols without ports. */
  readonly sourcePort?: number | undefined;
  readonly destinationPort?: number | undefined;
  readonly icmp?: { readonly type: number; readonly code: number } | undefined;
  /** Unknown unless given: a kernel sees no requests. */
  readonly content?: PacketContent;
}

/** All packets of one client to one port: whatever a rule says of source ports matches. */
export type ClientPackets = Omit<Packet, 'sourcePort'> & { readonly sourcePort: 'any' };

/** Returns an echo request, the packet of ICMP that stands for a connection. */
export function echoRequest(ends: Pick<Packet, 'source' | 'destination'>): Packet {
  const [protocol, type] = ends.source.family === 6 ? [58, 128] : [1, 8];
  return { ...ends, protocol, icmp: { type, code: 0 } };
}

/** One end of a packet. */
interface PacketEnd {
  readonly side: 'source' | 'destination';
  readonly address: Address;
  readonly port: number | 'any' | undefined;
  readonly protocol: number;
}

/** Reports whether every part of the rule matches the packet. */
export function ruleMatches(view: PolicyView, rule: PolicyRule, packet: Packet): boolean {
  const { http } = rule;
  return (http === undefined || isContentOf(view, http, packet)) && endsMatch(view, rule, packet);
}

/** Reports whether the rule can match requests of the client: methods, paths and source ports tell those apart. */
export function ruleMatchesClient(view: PolicyView, rule: PolicyRule, client: ClientPackets): boolean {
  return (rule.http === undefined || client.content?.kind === 'request') && endsMatch(view, rule, client);
}

function endsMatch(view: PolicyView, rule: PolicyRule, packet: Packet | ClientPackets): boolean {
  const { protocol } = packet;
  const { family, protocol: wanted, notProtocol, icmp, notIcmp } = rule;
  if (family !== undefined && family !== packet.source.family) return false;
  if (wanted !== undefined && wanted !== protocol) return false;
  if (notProtocol !== undefined && notProtocol === protocol) return false;
  if (icmp !== undefined && !isIcmp(icmp, packet)) return false;
  if (notIcmp !== undefined && isIcmp(notIcmp, packet)) return false;
  const { source: address, sourcePort: port } = packet;
  return (
    isSenderOf(view, rule, packet) &&
    peerMatches(view, rule.source, { side: 'source', address, port, protocol }) &&
    peerMatches(view, rule.destination, {
      side: 'destination',
      address: packet.destination,
      port: packet.destinationPort,
      protocol,
    })
  );
}

/** Requests that nothing has seen may match where something looks at each of them. */
function isContentOf(view: PolicyView, http: HttpMatch, packet: Packet): boolean {
  const { content = UNKNOWN_CONTENT, destination, destinationPort } = packet;
  if (content.kind !== 'unknown') return isRequestOf(http, content);
  return destinationPort !== undefined && view.isGuarded(destination, destinationPort);
}

/** A certificate that names another account contradicts the address. */
function isSenderOf(
  view: PolicyView,
  { source: { accounts } }: PolicyRule,
  { content = UNKNOWN_CONTENT }: Pick<Packet, 'content'>,
): boolean {
  if (accounts === undefined || content.kind === 'unknown' || content.peer === undefined) return true;
  return content.peer !== 'nobody' && view.isAccountOf(accounts, content.peer);
}

function peerMatches(view: PolicyView, peer: PeerMatch, end: PacketEnd): boolean {
  const { nets, notNets, selector, notSelector, ports, notPorts, service } = peer;
  if (nets !== undefined && !isWithin(view, nets, end.address)) return false;
  if (notNets !== undefined && isWithin(view, notNets, end.address)) return false;
  if (selector !== undefined && !view.isMember(selector, end.address)) return false;
  if (notSelector !== undefined && view.isMember(notSelector, end.address)) return false;
  if (ports !== undefined && end.port !== 'any' && !isPort(view, ports, end)) return false;
  if (notPorts !== undefined && end.port !== 'any' && isPort(view, notPorts, end)) return false;
  return service === undefined || isServiceEnd(view, service, end);
}

/** A tunnel address of a node is also within what its own addresses are within. */
function isWithin({ nodes }: PolicyView, nets: readonly Cidr[], address: Address): boolean {
  const isInside = (each: Address): boolean => nets.some((net) => cidrContains(net, each));
  return isInside(address) || nodes.behind(address).some(isInside);
}

/** A name means the ports of that name of the endpoint that has the address at this end. */
function isPort(view: PolicyView, { ranges, names }: PortMatch, { address, port, protocol }: PacketEnd): boolean {
  if (port === undefined || port === 'any') return false;
  if (ranges.some(({ first, last }) => first <= port && port <= last)) return true;
  if (names.length === 0) return false;
  const named = view.endpointsAt(address).flatMap(({ ports }) => ports);
  return named.some((each) => each.port === port && each.protocol === protocol && names.includes(each.name));
}

/** Clients of a service have its addresses and any port; servers have its addresses and ports. */
function isServiceEnd(
  view: PolicyView,
  { namespace, name }: { readonly namespace: string; readonly name: string },
  { side, address, port, protocol }: PacketEnd,
): boolean {
  if (side === 'source') return view.services.addressesOf(namespace, name).some((each) => sameAddress(each, address));
  return typeof port === 'number' && view.services.hasPort(namespace, name, { address, protocol, port });
}

function isIcmp({ type, code }: IcmpMatch, { protocol, icmp }: Pick<Packet, 'protocol' | 'icmp'>): boolean {
  return (protocol === 1 || protocol === 58) && icmp?.type === type && (code === undefined || icmp.code === code);
}
