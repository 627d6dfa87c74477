import type { AgentConfigurationSpec } from '../model/agent-configuration.ts';
import { protocolNumber } from '../model/protocol.ts';
import type { ServicePort } from '../model/service-endpoints.ts';
import { bitsOf } from '../net/address.ts';
import { type Cidr, cidrContains, tryReadCidr } from '../net/cidr.ts';
import type { Packet } from './match-packet.ts';
import type { PacketPath } from './packet-path.ts';
import type { PolicyDirection } from './resolved-policy.ts';

/** Packets that no policy of a host endpoint can block. */
export interface OpenPort {
  /** Failsafe ports keep the administrator in, the datastore the agent; through tunnels the nodes send packets of pods. */
  readonly kind: 'failsafe' | 'tunnel' | 'datastore';
  /** IANA number. */
  readonly protocol: number;
  /** Port of the destination; undefined for a protocol without ports. */
  readonly port: number | undefined;
  /** The net of the other end; any unless set. */
  readonly net: Cidr | undefined;
}

/** By direction of the packet, as the node sees it. */
export type OpenPorts = Readonly<Record<PolicyDirection, readonly OpenPort[]>>;

export const NO_OPEN_PORTS: OpenPorts = { ingress: [], egress: [] };

type FailsafePorts = Required<Pick<AgentConfigurationSpec, 'failsafeInboundHostPorts' | 'failsafeOutboundHostPorts'>>;

export function failsafePorts({ failsafeInboundHostPorts, failsafeOutboundHostPorts }: FailsafePorts): OpenPorts {
  const read = (ports: NonNullable<typeof failsafeInboundHostPorts>): readonly OpenPort[] =>
    ports.map(({ protocol, port, net }) => ({
      kind: 'failsafe',
      protocol: protocolNumber(protocol),
      port,
      net: net === undefined ? undefined : tryReadCidr(net)?.cidr,
    }));
  return { ingress: read(failsafeInboundHostPorts ?? []), egress: read(failsafeOutboundHostPorts ?? []) };
}

/** Returns the ports with those of tunnels, which are open in both directions. */
export function withTunnels(
  { ingress, egress }: OpenPorts,
  tunnels: readonly Pick<OpenPort, 'protocol' | 'port'>[],
): OpenPorts {
  const open = tunnels.map(({ protocol, port }): OpenPort => ({ kind: 'tunnel', protocol, port, net: undefined }));
  return { ingress: [...ingress, ...open], egress: [...egress, ...open] };
}

/** Returns the ports with those of the servers of the datastore, to which the node may connect. */
export function withServers({ ingress, egress }: OpenPorts, servers: readonly ServicePort[]): OpenPorts {
  const open = servers.map(({ address, protocol, port }): OpenPort => {
    const net = { base: address, prefixBits: bitsOf(address.family) };
    return { kind: 'datastore', protocol, port, net };
  });
  return { ingress, egress: [...egress, ...open] };
}

/** Condition for a packet to pass: `side` is the end that has the port. */
export interface OpenMatch extends OpenPort {
  readonly side: 'source' | 'destination';
}

/**
 * Returns what passes on the path. What the node forwards does not, since it locks no administrator out. Packets that are not tracked pass in
 * both directions, because nothing else tells an answer.
 */
export function openMatches(open: OpenPorts, direction: PolicyDirection, path: PacketPath): readonly OpenMatch[] {
  if (path === 'forwarded') return [];
  const asked = open[direction].map((port): OpenMatch => ({ ...port, side: 'destination' }));
  if (path !== 'untracked') return asked;
  const answered = open[direction === 'ingress' ? 'egress' : 'ingress'].filter(({ port }) => port !== undefined);
  return [...asked, ...answered.map((port): OpenMatch => ({ ...port, side: 'source' }))];
}

/** Returns what lets the packet pass. */
export function findOpenMatch(
  matches: readonly OpenMatch[],
  direction: PolicyDirection,
  packet: Packet,
): OpenMatch | undefined {
  const remote = direction === 'ingress' ? packet.source : packet.destination;
  return matches.find(({ protocol, port, net, side }) => {
    if (protocol !== packet.protocol) return false;
    const actual = side === 'source' ? packet.sourcePort : packet.destinationPort;
    return (port === undefined || port === actual) && (net === undefined || cidrContains(net, remote));
  });
}
