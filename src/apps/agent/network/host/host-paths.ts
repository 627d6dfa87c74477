import { getOrInsert } from '../../../../base/get-or-insert.ts';
import type { HostPath } from '../../../../dataplane/host-network.ts';
import { type Address, bitsOf } from '../../../../net/address.ts';

/** Routes by masked destination, by prefix length. */
type Table = Map<number, Map<bigint, HostPath[]>>;

/** The routes of a host, to look up many addresses. */
export class HostPaths {
  /** All through which a route leads. */
  readonly devices: ReadonlySet<string>;
  /** Devices by which a route leads to other networks than those of the link. */
  readonly uplinks: ReadonlySet<string>;
  readonly #tables = new Map<string, Table>();

  constructor(paths: readonly HostPath[]) {
    this.devices = new Set(paths.flatMap(({ devices }) => devices));
    this.uplinks = new Set(paths.flatMap(({ isConnected, devices }) => (isConnected ? [] : devices)));
    for (const path of paths) {
      const { destination, table } = path;
      const { base, prefixBits } = destination;
      const lengths = getOrInsert(this.#tables, `${String(base.family)} ${String(table)}`, () => new Map() as Table);
      const destinations = getOrInsert(lengths, prefixBits, () => new Map<bigint, HostPath[]>());
      getOrInsert(destinations, masked(base, prefixBits), () => [] as HostPath[]).push(path);
    }
  }

  /** Returns the longest matches of each table: rules choose the table by more than the address. */
  toward(address: Address): readonly HostPath[] {
    return [...this.#tables].flatMap(([key, lengths]) =>
      key.startsWith(`${String(address.family)} `) ? longestMatch(lengths, address) : [],
    );
  }
}

function longestMatch(lengths: Table, address: Address): readonly HostPath[] {
  let [best, paths]: [number, readonly HostPath[]] = [-1, []];
  for (const [prefixBits, destinations] of lengths) {
    const match = prefixBits > best ? destinations.get(masked(address, prefixBits)) : undefined;
    if (match !== undefined) [best, paths] = [prefixBits, match];
  }
  return paths;
}

function masked({ family, value }: Address, prefixBits: number): bigint {
  const hostBits = BigInt(bitsOf(family) - prefixBits);
  return (value >> hostBits) << hostBits;
}
