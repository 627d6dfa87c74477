import type { Address } from '../net/address.ts';

/** One direction of a tracked flow. Ports are 0 for protocols without ports; of ICMP, the type and code of the request. */
export interface FlowTuple {
  readonly source: Address;
  readonly destination: Address;
  /** IANA number. */
  readonly protocol: number;
  readonly sourcePort: number;
  readonly destinationPort: number;
  readonly icmp?: { readonly type: number; readonly code: number };
}

/** A flow that the kernel tracks. After translation of addresses, `reply` is not the inverse of `original`. */
export interface TrackedFlow {
  readonly original: FlowTuple;
  readonly reply: FlowTuple;
  /** TCP has not completed its opening, or has begun to end it: the kernel forgets it within minutes without packets. */
  readonly isUnsettled?: true;
  /** An action `note flow` was met by its first packet. */
  readonly isNoted?: true;
  /** A packet was seen in the direction of the reply. */
  readonly isReplied: boolean;
  /** Identifies the entry to the kernel. */
  readonly handle: Uint8Array;
}

/** A place of an address in an entry. */
export interface FlowEnd {
  readonly direction: 'original' | 'reply';
  readonly side: 'source' | 'destination';
  readonly address: Address;
}

/** The flows that the kernel tracks for a host. */
export interface FlowTable {
  /** Lists the flows of which one of the addresses is an end, in either direction, or all. @throws kernel/failed */
  list(addresses: readonly Address[] | 'all'): Promise<readonly TrackedFlow[]>;
  /**
   * Lists the wanted flows of those with one of the ends, or of all. It costs little for a few ends of IPv4, whatever the number
   * of flows. @throws kernel/failed
   */
  find(ends: readonly FlowEnd[] | 'all', isWanted: (flow: TrackedFlow) => boolean): Promise<readonly TrackedFlow[]>;
  /**
   * Ends the flows: their next packets are judged like the first ones of a new flow. Ignores flows that have ended meanwhile.
   * Returns how many it ended. @throws kernel/failed
   */
  end(flows: readonly TrackedFlow[]): Promise<number>;
  /** Ends every flow of which one of the addresses is an end, in either direction. @throws kernel/failed */
  endAll(addresses: readonly Address[]): Promise<void>;
}
