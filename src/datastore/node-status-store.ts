import type { NodeName } from '../model/names.ts';
import type { NodeCondition } from '../model/node-readiness.ts';
import type { NodeSpec } from '../model/node.ts';
import type { NodeMachine, NodeReportSpec } from '../model/node-report.ts';

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

export interface NameClaimWrite {
  readonly machine: NodeMachine;
  /** Whether this machine may take the name from the one that has it. */
  readonly mayReplace: (holder: NodeMachine) => boolean;
}

/** Records which machine has the name of a node. */
export interface NameStore {
  /**
   * Records the machine in the report of the node, as one step that a concurrent claim makes fail. Returns undefined, or the
   * machine that has the name and may not be replaced; then nothing is written. @throws resource/contested
   */
  claimName(node: NodeName, claim: NameClaimWrite, signal: AbortSignal): Promise<NodeMachine | undefined>;
}

/** Writes of the agent of a node about its node. */
export interface NodeStatusStore extends NameStore {
  /**
   * Replaces the facts of the node, and keeps its other fields, such as labels and AS number. Creates the node where
   * netplug stores the nodes. Where the orchestrator stores them, also publishes its node to the other nodes. Writes
   * nothing when nothing differs. @throws resource/not-found when the orchestrator has no node of that name
   */
  publishNode(node: NodeName, facts: NodeFacts, signal: AbortSignal): Promise<void>;

  /**
   * Replaces the report of the node but its machine. Other nodes do not follow it. Where the orchestrator stores the nodes, its Node owns
   * the report. @throws resource/not-found when the orchestrator has no node of that name
   */
  publishReport(node: NodeName, report: NodeReportSpec, signal: AbortSignal): Promise<void>;

  /**
   * Sets these conditions of the orchestrator's Node in one write, and leaves the others. Does nothing without an orchestrator,
   * or when the conditions have this state already.
   * @throws resource/not-found when the orchestrator has no node of that name
   */
  reportConditions(node: NodeName, conditions: readonly NodeCondition[], signal: AbortSignal): Promise<void>;
}
