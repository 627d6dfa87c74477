import type { TrackedFlow } from '../../../dataplane/flow-table.ts';
import { type Address, formatAddress } from '../../../net/address.ts';
import { type ConnectionEnd, endAt, evaluateConnection } from '../../../policy/evaluate.ts';
import type { Packet } from '../../../policy/match-packet.ts';
import type { PolicyView } from '../../../policy/policy-view.ts';

interface JudgeOptions {
  readonly node: string;
  /** Canonical texts of the addresses that the node itself has. */
  readonly hostAddresses: ReadonlySet<string>;
  readonly endpointToHost: 'Accept' | 'Drop';
}

/** Returns a function that reports whether the policies of the pods of the node allow the first packet of a flow. */
export function flowJudge(view: PolicyView, options: JudgeOptions): (flow: TrackedFlow) => boolean {
  const { node, hostAddresses, endpointToHost } = options;
  return (flow) => {
    const packet = packetOf(flow);
    const endOf = (address: Address): ConnectionEnd => {
      const { pod } = endAt(view, address);
      // Policies of a pod are enforced on its own node.
      if (pod?.node === node) return { address, pod };
      return { address, ...(hostAddresses.has(formatAddress(address)) ? { host: node } : {}) };
    };
    const [source, destination] = [endOf(packet.source), endOf(packet.destination)];
    return evaluateConnection(view, { source, destination, packet, endpointToHost }).verdict === 'allow';
  };
}

/** Returns the packet as policies saw it: after translation of the destination, before that of the source. */
export function packetOf({ original, reply }: Pick<TrackedFlow, 'original' | 'reply'>): Packet {
  const { protocol, icmp } = original;
  const ports = icmp === undefined && original.sourcePort + original.destinationPort > 0;
  return {
    source: original.source,
    destination: reply.source,
    protocol,
    ...(ports ? { sourcePort: original.sourcePort, destinationPort: reply.sourcePort } : {}),
    ...(icmp === undefined ? {} : { icmp }),
  };
}
