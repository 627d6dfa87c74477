import type { NodeName } from '../model/names.ts';
import type { NodeSpec } from '../model/node.ts';

/** The state of a node's network, as reported to the orchestrator. */
export interface NetworkReport {
  readonly isUp: boolean;
  /** One word in CamelCase. */
  readonly reason: string;
  readonly message: string;
}

/** What the agent of a node publishes for other nodes. */
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
   * Sets the condition NetworkUnavailable of the orchestrator's Node; does nothing without an orchestrator, or when the
   * condition says so already.
   * @throws resource/not-found when the orchestrator has no node of that name
   */
  reportNetwork(node: NodeName, report: NetworkReport, signal: AbortSignal): Promise<void>;
}
