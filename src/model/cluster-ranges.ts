import { bitsOf } from '../net/address.ts';
import { parseCidr, tryReadRange } from '../net/cidr.ts';
import type { IpPool } from './ip-pool.ts';
import type { Node } from './node.ts';
import { overlappedPools } from './pool-conflicts.ts';
import { describeRange, findOverlap, type UsedRange } from './used-range.ts';

/** A node with what a pool must not overlap. */
export interface NodeRanges {
  readonly name: string;
  /** Addresses, with the prefix of their network where it is known. */
  readonly addresses: readonly string[];
}

export interface RangeFacts {
  readonly nodes: readonly NodeRanges[];
  readonly serviceCidrs: readonly string[];
}

/** Returns what Services and nodes of the cluster use. Leaves out a text that is neither an address nor a CIDR. */
export function clusterRanges({ nodes, serviceCidrs }: RangeFacts): readonly UsedRange[] {
  return [
    ...serviceCidrs.flatMap((text) =>
      rangeIn(text, { address: 'an address of Services', network: 'a range of Services' }),
    ),
    ...nodes.flatMap(({ name, addresses }) =>
      addresses.flatMap((text) =>
        rangeIn(text, { address: `the address of node "${name}"`, network: `the network of node "${name}"` }),
      ),
    ),
  ];
}

/** Returns the addresses of the node, those first that its agent has published with their network. */
export function rangesOfNode({ metadata, spec }: Node): NodeRanges {
  const { ipv4Address, ipv6Address } = spec.bgp ?? {};
  const published = [ipv4Address, ipv6Address].filter((text) => text !== undefined);
  const shown = (spec.addresses ?? []).map(({ address }) => address);
  return { name: metadata.name, addresses: [...published, ...shown] };
}

function rangeIn(text: string, what: { readonly address: string; readonly network: string }): readonly UsedRange[] {
  const cidr = tryReadRange(text);
  if (cidr === undefined) return [];
  return [{ cidr, what: cidr.prefixBits === bitsOf(cidr.base.family) ? what.address : what.network }];
}

/** Returns what each pool overlaps, in words, by its name: one of the ranges, or an older pool. Leaves out pools that overlap nothing. */
export function overlapsOfPools(pools: readonly IpPool[], used: readonly UsedRange[]): ReadonlyMap<string, string> {
  const older = overlappedPools(pools);
  return new Map(
    pools.flatMap(({ metadata: { name }, spec }) => {
      const range = findOverlap(parseCidr(spec.cidr), used);
      if (range !== undefined) return [[name, describeRange(range)]];
      const pool = older.get(name);
      return pool === undefined ? [] : [[name, `the older pool "${pool}"`]];
    }),
  );
}
