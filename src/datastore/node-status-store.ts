import type { NodeName } from '../model/names.ts';
import type { NodeSpec } from '../model/node.ts';

/** What the orchestrator is told about the network of a node. */
export interface NetworkReport {
  readonly isUp: boolean;
  /** One word in CamelCase. */
  readonly reason: string;
  readonly message: string;
}

/** What a node's agent tells the others about its node. */
export type NodeFacts = Pick<
  NodeSpec,
  'ipv4VXLANTunnelAddr' | 'vxlanTunnelMACAddr' | 'ipv6VXLANTunnelAddr' | 'vxlanTunnelMACAddrV6' | 'ipv4IPIPTunnelAddr'
> &
  Pick<NonNullable<NodeSpec['bgp']>, 'ipv4Address' | 'ipv6Address'>;

/** What the agent of a node writes about its node. */
export interface NodeStatusStore {
  /**
   * Makes these facts those of the node: what is left out is removed, everything else of the node (labels, AS number,
   * what people wrote) stays. Makes the node where netplug keeps the nodes itself; where the orchestrator does,
   * publishes the node as it is there to the other nodes. Writes nothing when nothing differs.
   * @throws resource/not-found when the orchestrator, which keeps its own nodes, has none of that name
   */
  publishNode(node: NodeName, facts: NodeFacts, signal: AbortSignal): Promise<void>;

  /**
   * Tells the orchestrator whether the node's network works, as its condition NetworkUnavailable; without an
   * orchestrator there is nobody to tell. Writes nothing when the condition says so already.
   * @throws resource/not-found when the orchestrator has no node of that name
   */
  reportNetwork(node: NodeName, report: NetworkReport, signal: AbortSignal): Promise<void>;
}
