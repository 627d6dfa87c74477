import type { FlowTuple, TrackedFlow } from '../../../dataplane/flow-table.ts';
import { type Address, formatAddress } from '../../../net/address.ts';
import { type ConnectionEnd, endAt, evaluateConnection } from '../../../policy/evaluate.ts';
import type { Packet } from '../../../policy/match-packet.ts';
import type { OpenPorts } from '../../../policy/open-ports.ts';
import type { PolicyView } from '../../../policy/policy-view.ts';
import type { PolicyEndpoint } from '../../../policy/resolved-policy.ts';

interface JudgeOptions {
  readonly node: string;
  /** Canonical texts of the addresses that the node itself has. */
  readonly hostAddresses: ReadonlySet<string>;
  readonly endpointToHost: 'Accept' | 'Drop';
  readonly open: OpenPorts;
  /** Returns the host endpoints of the interfaces by which the node reaches addresses, by canonical text. */
  readonly findHostEndpoints: (remotes: Iterable<Address>) => Promise<ReadonlyMap<string, PolicyEndpoint>>;
}

/** Returns a function that reports whether the policies of the node allow the first packet of one of the flows. */
export async function flowJudge(
  view: PolicyView,
  flows: readonly TrackedFlow[],
  options: JudgeOptions,
): Promise<(flow: TrackedFlow) => boolean> {
  const { node, hostAddresses, endpointToHost, open, findHostEndpoints } = options;
  const endOf = (address: Address): ConnectionEnd => {
    const { pod } = endAt(view, address);
    // Policies of a pod are enforced on its own node.
    if (pod?.node === node) return { address, pod };
    return { address, ...(hostAddresses.has(formatAddress(address)) ? { host: node } : {}) };
  };
  const remotes = new Map<string, Address>();
  for (const { original, reply } of flows)
    for (const { source } of [original, reply]) {
      const end = endOf(source);
      if (end.pod === undefined && end.host === undefined) remotes.set(formatAddress(source), source);
    }
  const hostEndpoints = await findHostEndpoints(remotes.values());
  return (flow) => {
    const { original } = flow;
    const packet = packetOf(flow);
    const [source, destination] = [endOf(packet.source), endOf(packet.destination)];
    // A packet crosses the interface that leads to the other end.
    const crossing = (end: ConnectionEnd, { address }: ConnectionEnd): ConnectionEnd => ({
      ...end,
      open,
      hostEndpoint: hostEndpoints.get(formatAddress(address)),
    });
    const { verdict } = evaluateConnection(view, {
      source: crossing(source, destination),
      destination: crossing(destination, source),
      packet,
      sent: packetTo(original, original.destination, original.destinationPort),
      endpointToHost,
    });
    return verdict === 'allow';
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
