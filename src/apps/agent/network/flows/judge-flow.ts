import type { FlowTuple, TrackedFlow } from '../../../../dataplane/flow-table.ts';
import { type Address, formatAddress } from '../../../../net/address.ts';
import { type ConnectionEnd, type ConnectionVerdict, endAt, evaluateConnection } from '../../../../policy/evaluate.ts';
import type { Packet } from '../../../../policy/match-packet.ts';
import type { OpenPorts } from '../../../../policy/open-ports.ts';
import { type PacketContent, UNKNOWN_CONTENT } from '../../../../policy/packet-content.ts';
import type { PolicyView } from '../../../../policy/policy-view.ts';
import type { AtInterface, HostEndpointsToward } from './host-endpoints-toward.ts';

interface JudgeOptions {
  readonly node: string;
  /** Canonical texts of the addresses that the node itself has. */
  readonly hostAddresses: ReadonlySet<string>;
  readonly endpointToHost: 'Accept' | 'Drop';
  readonly open: OpenPorts;
  readonly hostEndpoints: HostEndpointsToward;
}

/** `unjudged` was or is allowed only where each request is judged, and nothing judges those that it carries. */
export type JudgedFlow = (typeof JUDGED_FLOWS)[number];
/** The one that counts of several interfaces first. */
const JUDGED_FLOWS = ['allowed', 'unjudged', 'denied'] as const;

/**
 * Returns a function that says whether the policies of the node allow the first packet of a flow. Where it may have passed
 * several interfaces, it is enough when they allow it at some of them: flows that are allowed must not end.
 */
export function flowJudge(view: PolicyView, options: JudgeOptions): (flow: TrackedFlow) => JudgedFlow {
  const { node, hostAddresses, endpointToHost, open, hostEndpoints } = options;
  const endOf = (address: Address): ConnectionEnd => {
    if (hostAddresses.has(formatAddress(address))) return { address, host: node };
    const { pod } = endAt(view, address);
    // Policies of a pod are enforced on its own node.
    return pod?.node === node ? { address, pod } : { address };
  };
  const isRemote = ({ pod, host }: ConnectionEnd): boolean => pod === undefined && host === undefined;
  const ownOf = (address: Address): Address | undefined =>
    hostAddresses.has(formatAddress(address)) ? address : undefined;
  return (flow) => {
    const { original } = flow;
    const packet = packetOf(flow);
    const [source, destination] = [endOf(packet.source), endOf(packet.destination)];
    const sent = packetTo(original, original.destination, original.destinationPort);
    const standingAt = (leaving: AtInterface, entering: AtInterface): JudgedFlow => {
      const evaluated = (content: PacketContent): ConnectionVerdict =>
        evaluateConnection(view, {
          source: { ...source, open, hostEndpoint: leaving },
          destination: { ...destination, open, hostEndpoint: entering },
          packet: { ...packet, content },
          sent,
          endpointToHost,
        });
      const { verdict, destination: end } = evaluated(UNKNOWN_CONTENT);
      if (verdict === 'deny') return flow.isNoted === true ? 'unjudged' : 'denied';
      if (end?.asks === undefined || flow.isNoted === true) return 'allowed';
      // Another rule may allow whatever it carries.
      return evaluated({ kind: 'stream' }).verdict === 'allow' ? 'allowed' : 'unjudged';
    };
    const arriving = { remote: source.address, own: ownOf(sent.destination), isArriving: true };
    const entered = isRemote(source) ? hostEndpoints(arriving) : [undefined];
    const departing = { remote: destination.address, own: ownOf(source.address), isArriving: false };
    const left = isRemote(destination) ? hostEndpoints(departing) : [undefined];
    const standings = left.flatMap((leaving) => entered.map((entering) => standingAt(leaving, entering)));
    return JUDGED_FLOWS.find((each) => standings.includes(each)) ?? 'denied';
  };
}

/** Returns the packet as policies saw it: after translation of the destination, before that of the source. */
export function packetOf({ original, reply }: Pick<TrackedFlow, 'original' | 'reply'>): Packet {
  return packetTo(original, reply.source, reply.sourcePort);
}

function packetTo(original: FlowTuple, destination: Address, destinationPort: number): Packet {
  const { source, sourcePort, protocol, icmp } = original;
  const hasPorts = icmp === undefined && sourcePort + original.destinationPort > 0;
  return {
    source,
    destination,
    protocol,
    ...(hasPorts ? { sourcePort, destinationPort } : {}),
    ...(icmp === undefined ? {} : { icmp }),
  };
}
