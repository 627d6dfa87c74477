import type { Address } from '../net/address.ts';

/** The first packet of a connection, or an echo request. */
export interface ProbePacket {
  readonly source: Address;
  readonly destination: Address;
  readonly protocol: 'TCP' | 'UDP' | 'ICMP';
  /** The port of the destination; not with ICMP. */
  readonly port?: number;
  readonly sender: ProbeSender;
}

export type ProbeSender =
  /** The network of the host itself. */
  | { readonly kind: 'host' }
  /** The pod behind the interface of the host. */
  | { readonly kind: 'pod'; readonly interfaceName: string }
  /** Another machine: the packet arrives by an interface that exists only meanwhile. */
  | { readonly kind: 'outside' };

/** Verdict of a rule, or of the end of a base chain, about the packet. */
export interface ProbeStep {
  /** Family and name. */
  readonly table: string;
  readonly chain: string;
  readonly verdict: 'accept' | 'drop' | 'next';
  /** Id of the rule in a table of policies; undefined for other tables and the end of a base chain. */
  readonly rule?: string;
}

export interface ProbeTrail {
  /** In the order in which the packet met them. */
  readonly steps: readonly ProbeStep[];
  /**
   * `passed` all hooks to a process of the host or to an interface, was `dropped` by the last step, or was `lost` between hooks:
   * by routing, the check of its source address, or a filter other than nftables. `unseen`: it reached no hook.
   */
  readonly end: 'passed' | 'dropped' | 'lost' | 'unseen';
}

/** Sends packets and follows them through the packet filter of the host. */
export interface PacketProbe {
  /**
   * Sends the packet, and waits at most a few seconds for its end. Answers go to the source address.
   * Names rules of the table. @throws kernel/failed, kernel/netns-invalid when the network namespace of the pod is not found
   */
  follow(packet: ProbePacket, table: string, signal: AbortSignal): Promise<ProbeTrail>;
}
