import { OneToMany } from '../base/one-to-many.ts';
import { getOrInsert } from '../base/get-or-insert.ts';
import { hostAddressesOf, tunnelAddressesOf } from '../model/node-addresses.ts';
import type { Node } from '../model/node.ts';
import { type Address, addressKey, FAMILIES } from '../net/address.ts';
import { type Cidr, hostCidr } from '../net/cidr.ts';
import { treesOf } from './cidr-tree.ts';

/** The addresses of a node in one family. */
interface NodeEnds {
  readonly own: readonly Address[];
  readonly tunnels: readonly Address[];
}

/**
 * Nodes by their addresses. What a process of a node sends through a tunnel has the tunnel address of the node as its source, so
 * that address stands for the node wherever policies match one of its own addresses of the family.
 */
export class NodeIndex {
  readonly #nodes = new Map<string, readonly NodeEnds[]>();
  readonly #trees = treesOf();
  readonly #tunnelsOf = new OneToMany<string, Address>();
  readonly #behind = new OneToMany<string, Address>();
  /** By the list that was asked for: rules ask for theirs with every change of anything. */
  #found = new WeakMap<readonly Cidr[], readonly Cidr[]>();

  /** Replaces the node of the name. Returns the own addresses whose tunnel addresses changed. */
  replace(name: string, node: Node | undefined): readonly Address[] {
    const before = this.#nodes.get(name) ?? [];
    const after = node === undefined ? [] : endsOf(node);
    if (textOf(before) === textOf(after)) return [];
    for (const ends of before) this.#index(ends, 'leaves');
    for (const ends of after) this.#index(ends, 'comes');
    this.#found = new WeakMap();
    if (after.length === 0) this.#nodes.delete(name);
    else this.#nodes.set(name, after);
    return [...before, ...after].flatMap(({ own }) => own);
  }

  /** Returns the tunnel addresses of the nodes that have an own address in the CIDRs, each once, but for those in them. */
  standInsFor(cidrs: readonly Cidr[]): readonly Cidr[] {
    return getOrInsert(this.#found, cidrs, () => this.#find(cidrs));
  }

  /** Returns the own addresses of the node whose tunnel address this is; none for any other address. */
  behind(address: Address): readonly Address[] {
    return this.#behind.get(addressKey(address));
  }

  /** Costs a step for each CIDR and node, however many CIDRs have the same nodes in them. */
  #find(cidrs: readonly Cidr[]): readonly Cidr[] {
    if (this.#nodes.size === 0) return [];
    const asked = treesOf(cidrs);
    const found = new Map<string, Cidr>();
    for (const family of FAMILIES)
      for (const cidr of asked[family].largest())
        for (const { base } of this.#trees[family].within(cidr))
          for (const tunnel of this.#tunnelsOf.get(addressKey(base)))
            if (!asked[family].covers(hostCidr(tunnel))) found.set(addressKey(tunnel), hostCidr(tunnel));
    return [...found].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, cidr]) => cidr);
  }

  #index({ own, tunnels }: NodeEnds, change: 'comes' | 'leaves'): void {
    for (const address of own) {
      const tree = this.#trees[address.family];
      if (change === 'comes') tree.add(hostCidr(address));
      else tree.remove(hostCidr(address));
      for (const tunnel of tunnels) {
        const pairs = [
          [this.#tunnelsOf, address, tunnel],
          [this.#behind, tunnel, address],
        ] as const;
        for (const [index, key, value] of pairs)
          if (change === 'comes') index.add(addressKey(key), value);
          else index.delete(addressKey(key), value);
      }
    }
  }
}

/** Families without a tunnel address are left out: nothing stands for the node there. */
function endsOf(node: Node): readonly NodeEnds[] {
  const own = [...new Map(hostAddressesOf(node).map((address) => [addressKey(address), address])).values()];
  const ends = Map.groupBy(tunnelAddressesOf(node), ({ family }) => family);
  return [...ends].flatMap(([family, tunnels]) => {
    const ofFamily = own.filter((address) => address.family === family);
    return ofFamily.length === 0 ? [] : [{ own: ofFamily, tunnels }];
  });
}

function textOf(ends: readonly NodeEnds[]): string {
  return JSON.stringify(ends.map(({ own, tunnels }) => [own.map(addressKey), tunnels.map(addressKey)]));
}
