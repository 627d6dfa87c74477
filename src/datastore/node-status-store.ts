import type { NodeName } from '../model/names.ts';
import type { NodeSpec } from '../model/node.ts';
import type { NodeReportSpec } from '../model/node-report.ts';

/** The state of a node's network, as reported to the orchestrator. */
export interface NetworkReport {
  readonly isUp: boolean;
  /** One word in CamelCase. */
  readonly reason: string;
  readonly message: string;
}

/** Facts that the agent of a node publishes for other nodes. */
export type NodeFacts = Pick<
  NodeSpec,
  | 'ipv4VXLANTunnelAddr'
  | 'vxlanTunnelMACAddr'
  | 'ipv6VXLANTunnelAddr'
  | 'vxlanTunnelMACAddrV6'
  | 'ipv4IPIPTunnelAddr'
  | 'netplugVersion'
> &
  Pick<NonNullable<NodeSpec['bgp']>, 'ipv4Address' | 'ipv6Address'>;

/** Writes of the agent of a node about its node. */
export interface NodeStatusStore {
  /**
   * Replaces the facts of the node, and keeps its other fields, such as labels and AS number. Creates the node where
   * netplug stores the nodes. Where the orchestrator stores them, also publishes its node to the other nodes. Writes
   * nothing when nothing differs. @throws resource/not-found when the orchestrator has no node of that name
   */
  publishNode(node: NodeName, facts: NodeFacts, signal: AbortSignal): Promise<void>;

  /**
   * Replaces the report of the node, which other nodes do not follow. Where the orchestrator stores the nodes, its Node owns
   * the report. @throws resource/not-found when the orchestrator has no node of that name
   */
  publishReport(node: NodeName, report: NodeReportSpec, signal: AbortSignal): Promise<void>;

  /**
   * Sets the condition NetworkUnavailable of the orchestrator's Node. Does nothing without an orchestrator, or when the
   * condition has this state already.
   * @throws resource/not-found when the orchestrator has no node of that name
   */
  reportNetwork(node: NodeName, report: NetworkReport, signal: AbortSignal): Promise<void>;
}
