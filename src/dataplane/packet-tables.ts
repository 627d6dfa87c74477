/** What stands for content that is not decoded. */
export const NOT_READ = 'not read';

/** A table of any program, as the kernel lists it. */
export interface HostTable {
  /** Name of the family in nftables; `inet` covers IPv4 and IPv6. */
  readonly family: string;
  readonly name: string;
  readonly chains: readonly HostChain[];
  /** Named and anonymous sets and maps, without their elements. */
  readonly sets: readonly HostSet[];
}

export interface HostChain {
  readonly name: string;
  /** Where the kernel calls the chain, and what becomes of a packet that no rule decides; undefined for other chains. */
  readonly base?: {
    readonly type: string;
    readonly hook: string;
    readonly priority: number;
    readonly policy: 'accept' | 'drop';
  };
  readonly rules: readonly HostRule[];
}

export interface HostRule {
  readonly comment?: string;
  readonly expressions: readonly HostExpression[];
}

/** A step of a rule. Bytes are in hexadecimal digits, verdicts such as `drop` or `jump chain`. */
export type HostExpression = {
  /** As the kernel names it. */
  readonly kind: string;
  readonly content?: typeof NOT_READ;
} & Readonly<Record<string, string | number | undefined>>;

export interface HostSet {
  readonly name: string;
  /** Numbers of nft for the types of keys, and of values of a map. */
  readonly keyType: number;
  readonly dataType?: number;
  readonly flags: number;
}

export interface HostElement {
  /** Addresses, interfaces, ports and protocols as text, other keys in hexadecimal digits. */
  readonly key: string;
  /** The range of elements that the element before it begins ends before this one. */
  readonly isEnd?: true;
  /** The last key of a range of concatenations. */
  readonly last?: string;
  /** What a map has for the key. */
  readonly value?: string;
}

export type TableName = Pick<HostTable, 'family' | 'name'>;

/** Reads the tables of all programs in the packet filter of the host. */
export interface PacketTables {
  /** Lists all tables. @throws kernel/failed */
  list(signal: AbortSignal): Promise<readonly HostTable[]>;

  /** Lists the base chains of all tables, without rules and sets: of the chains of other programs there may be many thousands. @throws kernel/failed */
  listBaseChains(signal: AbortSignal): Promise<readonly HostTable[]>;

  /** Lists the rules of one chain; empty when there is none of the name. @throws kernel/failed */
  rulesOf(table: TableName, chain: string, signal: AbortSignal): Promise<readonly HostRule[]>;

  /** Lists the sets and maps of one table; empty when there is none of the name. @throws kernel/failed */
  setsOf(table: TableName, signal: AbortSignal): Promise<readonly HostSet[]>;

  /** Lists the elements of a set; empty when there is none of the name. @throws kernel/failed */
  elements(table: TableName, set: HostSet, signal: AbortSignal): Promise<readonly HostElement[]>;

  /** Lists the names of the sets of ipset, which are beside nftables. @throws kernel/failed */
  listIpSets(signal: AbortSignal): Promise<readonly string[]>;
}
