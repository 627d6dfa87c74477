import type { Address, Family } from '../net/address.ts';
import type { Cidr } from '../net/cidr.ts';

/** End of a packet. */
export type PacketSide = 'source' | 'destination';

/** Inclusive. */
export interface PortSpan {
  readonly first: number;
  readonly last: number;
}

export type AddressType = 'local' | 'broadcast' | 'multicast';

export type ConnectionState = 'new' | 'established' | 'related' | 'invalid' | 'untracked';

/** A condition of a rule. With `isNegated` it holds when the rest does not. */
export type FilterMatch =
  | { readonly kind: 'state'; readonly states: readonly ConnectionState[] }
  | { readonly kind: 'family'; readonly family: Family }
  /** IANA numbers; one of them is the packet's. */
  | { readonly kind: 'protocol'; readonly protocols: readonly number[]; readonly isNegated?: boolean }
  /** One of the CIDRs, which are disjoint and of the family, contains the address. */
  | {
      readonly kind: 'nets';
      readonly side: PacketSide;
      readonly family: Family;
      readonly nets: readonly Cidr[];
      readonly isNegated?: boolean;
    }
  /** The set of addresses contains the address. */
  | {
      readonly kind: 'member';
      readonly side: PacketSide;
      readonly family: Family;
      readonly set: string;
      readonly isNegated?: boolean;
    }
  /** The set of services contains address, protocol and port of the side. */
  | {
      readonly kind: 'service';
      readonly side: PacketSide;
      readonly family: Family;
      readonly set: string;
      readonly isNegated?: boolean;
    }
  /** Must follow a match of protocols that have ports. The set of flows contains both addresses and ports. */
  | { readonly kind: 'flow'; readonly family: Family; readonly set: string }
  /** Must follow a match of protocols that have ports. The spans are disjoint. */
  | {
      readonly kind: 'ports';
      readonly side: PacketSide;
      readonly spans: readonly PortSpan[];
      readonly isNegated?: boolean;
    }
  /** Must follow a match of one of the ICMP protocols. */
  | { readonly kind: 'icmp'; readonly types: readonly number[]; readonly isNegated?: boolean }
  | { readonly kind: 'icmp code'; readonly type: number; readonly code: number; readonly isNegated?: boolean }
  /** Must follow a match of protocol TCP. The packet opens a connection: of SYN, ACK, RST and FIN it has only SYN. */
  | { readonly kind: 'tcp opening'; readonly isNegated?: boolean }
  /** A name, or a prefix of names followed by `*`. Packets that the host itself sends come in by the empty name. */
  | {
      readonly kind: 'interface';
      readonly direction: 'in' | 'out';
      readonly name: string;
      readonly isNegated?: boolean;
    }
  /** The type of the address by the routes of the host, or by those of the interface that the packet leaves by. */
  | {
      readonly kind: 'address type';
      readonly side: PacketSide;
      readonly type: AddressType;
      readonly isOfLeaving?: boolean;
      readonly isNegated?: boolean;
    }
  /** The host has no route to the source by the interface that the packet came in by. */
  | { readonly kind: 'foreign source' }
  /** The route of the host to the source leaves by the interface: a name, or a prefix of names followed by `*`. */
  | { readonly kind: 'source route'; readonly name: string }
  /** Must follow a match of protocols. Bytes from the transport header on; a packet too short for them matches neither way. */
  | {
      readonly kind: 'payload';
      readonly offset: number;
      readonly bytes: readonly number[];
      readonly isNegated?: boolean;
    }
  /** Connection tracking translates the destination of the connection. */
  | { readonly kind: 'translated' }
  /** An action `mark` has set its bit. */
  | { readonly kind: 'marked' };

/** Action of a rule on packets that match. Those from `accept` on end the rule. */
export type FilterAction =
  | { readonly kind: 'count' }
  /** Goes on for at most so many packets per second. */
  | { readonly kind: 'limit'; readonly perSecond: number; readonly burst: number }
  /** Goes on for at most so many packets per second and interface, which the set of the kind `limits` counts. */
  | {
      readonly kind: 'limit each';
      readonly direction: 'in' | 'out';
      readonly set: string;
      readonly perSecond: number;
      readonly burst: number;
    }
  /** Writes the packet to the kernel log. */
  | { readonly kind: 'log'; readonly prefix: string }
  /** Sends the first bytes of the packet to the NFLOG group. */
  | { readonly kind: 'report'; readonly group: number; readonly prefix: string }
  | { readonly kind: 'untrack' }
  /** Sets the source to an address of the interface that the packet leaves by, and the port to a random one. */
  | { readonly kind: 'masquerade' }
  /** Sets the address of the side to what the map has for the address of the packet, or for both. Matches only those that it has. */
  | {
      readonly kind: 'translate';
      readonly side: PacketSide;
      readonly family: Family;
      readonly by: PacketSide | 'both';
      readonly map: string;
    }
  /** Sets or clears one bit of the packet mark, which rules at later hooks find. */
  | { readonly kind: 'mark'; readonly isSet: boolean }
  /** Notes on the tracked flow that a rule with this action accepted its first packet. */
  | { readonly kind: 'note flow' }
  /** Ends the evaluation in this base chain. */
  | { readonly kind: 'accept' }
  | { readonly kind: 'drop' }
  | { readonly kind: 'return' }
  | { readonly kind: 'jump'; readonly chain: string }
  /** Evaluates the chain instead of the rest of this one. */
  | { readonly kind: 'goto'; readonly chain: string }
  /** Goes to the chain that the map has for the name of the interface. Continues when it has none. */
  | { readonly kind: 'dispatch'; readonly direction: 'in' | 'out'; readonly map: string };

export interface TableRule {
  /** Identity of the rule in counters and listings; at most 64 bytes of `[a-z0-9-]`. */
  readonly id: string;
  /** Evaluated in order until one does not match or ends the rule. */
  readonly parts: readonly (FilterMatch | FilterAction)[];
}

/** Place where the kernel calls a base chain. */
export interface FilterHook {
  readonly type: 'filter' | 'nat';
  readonly hook: 'prerouting' | 'input' | 'forward' | 'output' | 'postrouting';
  readonly priority: number;
}

/** Accepts what no rule decides. */
export interface FilterChain {
  readonly hook?: FilterHook;
  readonly rules: readonly TableRule[];
}

/**
 * Elements of a named set or map, as canonical texts. Of the kinds `limits`, `flows` and `cut addresses` the desired state has none:
 * `apply` leaves those that are there, and they expire.
 */
export type FilterSet =
  /** `10.65.0.1` */
  | { readonly kind: 'addresses'; readonly family: Family; readonly elements: ReadonlySet<string> }
  /** `10.65.0.0/16`, disjoint. */
  | { readonly kind: 'nets'; readonly family: Family; readonly elements: ReadonlySet<string> }
  /** `10.65.0.1 6 80`: address, protocol, port. */
  | { readonly kind: 'services'; readonly family: Family; readonly elements: ReadonlySet<string> }
  /** `10.65.0.1 10.65.0.2 40000 80`: addresses and ports of source and destination. `renew` adds them. */
  | { readonly kind: 'flows'; readonly family: Family; readonly elements: ReadonlySet<string> }
  /** `10.65.0.1`. `renew` adds them. */
  | { readonly kind: 'cut addresses'; readonly family: Family; readonly elements: ReadonlySet<string> }
  /** Interfaces, which `limit each` adds. */
  | { readonly kind: 'limits'; readonly elements: ReadonlySet<string> }
  /** Chains by name of an interface. */
  | { readonly kind: 'interfaces'; readonly elements: ReadonlyMap<string, string> }
  /** `10.65.0.1` to `203.0.113.1`. The key is `by` both addresses `10.65.0.1 10.65.0.1`, or by one. */
  | {
      readonly kind: 'translations';
      readonly family: Family;
      readonly by: 'one' | 'both';
      readonly elements: ReadonlyMap<string, string>;
    };

/** The desired state of a table of family `inet`. What is the same object as before is unchanged. */
export interface FilterTable {
  readonly name: string;
  readonly chains: ReadonlyMap<string, FilterChain>;
  readonly sets: ReadonlyMap<string, FilterSet>;
  /** Owners of chains and sets, by name. What one has alone may be written apart from what others have. */
  readonly owners?: ReadonlyMap<string, string>;
}

/** Actions for which a kernel may have no module: writing packets to its log, and reporting them. */
export const PACKET_LOGS = ['log', 'report'] as const satisfies readonly FilterAction['kind'][];
export type PacketLog = (typeof PACKET_LOGS)[number];

/** Counts of what one call changed. All are 0 when the actual state was the desired one. */
export interface FilterChange {
  readonly chains: number;
  readonly sets: number;
  readonly elements: number;
}

/** Reports whether the actual state was not the desired one. */
export function hasChanged({ chains, sets, elements }: FilterChange): boolean {
  return chains + sets + elements > 0;
}

/** Counts of the rules of a chain that have the same id. */
export interface FilterCount {
  readonly chain: string;
  /** Id of the rules. */
  readonly rule: string;
  readonly packets: bigint;
  readonly bytes: bigint;
}

/** Elements of sets of the kinds `flows` and `cut addresses`, by the name of the set, each with the time until it expires in ms. */
export type ExpiringElements = ReadonlyMap<string, ReadonlyMap<string, number>>;

export interface ExpiringChange {
  /** By the name of the set. */
  readonly removed: ReadonlyMap<string, ReadonlySet<string>>;
  readonly added: ExpiringElements;
}

/** Elements of a table that were of a pod which is gone. */
export interface LeftElements {
  readonly interfaces: readonly string[];
  readonly addresses: readonly Address[];
}

/** A table of the packet filter of the host that changes by differences. Calls that change it must not overlap. */
export interface PolicyFilter {
  /**
   * Brings the table to the desired state, all or nothing, by the difference from its actual state. Chains and elements
   * that stay are not touched, so their counters remain. What is large is written in parts, an owner at a time: no packet meets
   * it until the last part takes effect, all or nothing, so a call that fails may leave what no packet meets. The first call,
   * each call after a failure, and calls with `reread` read the actual state from the kernel; others trust what this filter wrote.
   * @throws kernel/failed; the fact `rule` is the id of a rule that the kernel will never take, and `owner` the owner of what
   * it will never take
   */
  apply(
    table: FilterTable,
    options: { readonly signal: AbortSignal; readonly reread?: boolean },
  ): Promise<FilterChange>;

  /** Returns which kinds of actions the kernel refuses because it lacks their module. @throws kernel/failed */
  missingLogs(signal: AbortSignal): Promise<ReadonlySet<PacketLog>>;

  /** Reports whether there is a table of that name. @throws kernel/failed */
  has(table: string, signal: AbortSignal): Promise<boolean>;

  /** Makes the table unless there is one of its name. Reports whether it did. @throws kernel/failed */
  create(table: FilterTable, signal: AbortSignal): Promise<boolean>;

  /** Adds the elements to those of the sets that the table has, and leaves all else as it is. @throws kernel/failed */
  extend(table: string, sets: ReadonlyMap<string, FilterSet>, signal: AbortSignal): Promise<void>;

  /** Lists the elements of sets of the kinds `flows` and `cut addresses`; none without the table. @throws kernel/failed */
  expiring(table: string, signal: AbortSignal): Promise<ExpiringElements>;

  /**
   * Removes and adds elements of such sets, all or nothing. Sets that the table does not have are ignored.
   * @throws kernel/failed also when an element to remove has expired
   */
  renew(table: string, change: ExpiringChange, signal: AbortSignal): Promise<void>;

  /**
   * Removes interfaces from the maps of the table, and addresses from its sets of addresses and services. Leaves all else as it
   * is, and ignores what is in none. @throws kernel/failed
   */
  withdraw(table: string, left: LeftElements, signal: AbortSignal): Promise<void>;

  /** Returns the ids of the rules of the table; empty without a table. @throws kernel/failed */
  ruleIds(table: string, signal: AbortSignal): Promise<ReadonlySet<string>>;

  /** Returns the counters of the table, one per chain and id of a rule; empty without a table. @throws kernel/failed */
  counts(table: string, signal: AbortSignal): Promise<readonly FilterCount[]>;

  /** Removes the table. Succeeds when there is none. @throws kernel/failed */
  remove(table: string, signal: AbortSignal): Promise<void>;
}

/** What programs need that write whole tables. */
export type TableFilter = Pick<PolicyFilter, 'apply' | 'has' | 'remove'>;
