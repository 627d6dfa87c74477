/** A value of the JSON that nftables reads and writes, see libnftables-json(5). */
export type NftJson = string | number | boolean | null | readonly NftJson[] | { readonly [key: string]: NftJson };

/** A match, a translation or a verdict of a rule. */
export type NftStatement = { readonly [key: string]: NftJson };

export interface NftSet {
  readonly name: string;
  readonly type: string | readonly string[];
  readonly flags?: readonly string[];
  readonly elem?: readonly NftJson[];
}

export interface NftMap extends NftSet {
  /** Type of the values. */
  readonly map: string;
}

/** A base chain, which the kernel calls at a hook. */
export interface NftChain {
  readonly name: string;
  readonly type: string;
  readonly hook: string;
  readonly prio: number;
  readonly policy: 'accept' | 'drop';
}

export interface NftRule {
  readonly chain: string;
  readonly expr: readonly NftStatement[];
}

export type NftObject =
  | { readonly set: NftSet }
  | { readonly map: NftMap }
  | { readonly chain: NftChain }
  | { readonly rule: NftRule };

/** The desired state of one table of family `inet`. Each object follows those it names. A table without objects is removed. */
export interface NftTable {
  readonly name: string;
  readonly objects: readonly NftObject[];
  /** Does not create the table when it does not exist. */
  readonly onlyIfExists?: boolean;
}

/** The packet filter of the host. Changes only the named tables. */
export interface PacketFilter {
  /**
   * Replaces the table atomically; established connections keep their translation. Does nothing when both the desired
   * table and the actual table are unchanged since this filter last replaced it. A new filter therefore replaces each
   * table once. Calls for one table must not overlap.
   * @throws kernel/nft-missing, kernel/failed
   */
  replace(table: NftTable, signal: AbortSignal): Promise<'unchanged' | 'changed'>;

  /** Reports whether there is a table of that name. @throws kernel/nft-missing, kernel/failed */
  has(name: string, signal: AbortSignal): Promise<boolean>;
}
