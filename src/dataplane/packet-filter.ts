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

/** A chain that the kernel itself calls. */
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

/** One table of family `inet` as it shall be: each object after those it names. Without objects there shall be no table. */
export interface NftTable {
  readonly name: string;
  readonly objects: readonly NftObject[];
  /** Where there is no such table, none is made. */
  readonly onlyIfThere?: boolean;
}

/** The packet filter of the host. Knows tables by name and touches no other. */
export interface PacketFilter {
  /**
   * Puts the table in place of what there is of that name, in one step: no packet meets half of it, and connections go
   * on with the translation they began with. Does nothing when the table is wanted as before and is still as this
   * filter left it; so a new filter replaces each table once. Calls for one table come one after the other.
   * @throws kernel/nft-missing, kernel/failed
   */
  replace(table: NftTable, signal: AbortSignal): Promise<'unchanged' | 'changed'>;

  /** Reports whether there is a table of that name. @throws kernel/nft-missing, kernel/failed */
  has(name: string, signal: AbortSignal): Promise<boolean>;
}
