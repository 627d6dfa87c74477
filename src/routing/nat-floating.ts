import { type Address, type Family, formatAddress } from '../net/address.ts';
import type { NftJson, NftMap, NftObject } from '../dataplane/packet-filter.ts';
import { ADDRESS_TYPES, goesOutside, headerAddress, setName, rule, translate } from './nft-statements.ts';

/** A second address by which a pod of this node can be reached. */
export interface FloatingAddress {
  readonly external: Address;
  /** The pod's own, of the same family. */
  readonly internal: Address;
}

/**
 * Returns maps and rules for the floating addresses of one family. Packets to a floating address go to its pod. Packets
 * from the pod to destinations outside all pools get its first floating address as source. So do packets that a pod
 * sends to its own floating address, because otherwise the pod would answer itself without passing the host.
 */
export function floatingObjects(family: Family, floating: readonly FloatingAddress[]): readonly NftObject[] {
  const toPods = firstOfEach('external', floating);
  const fromPods = firstOfEach('internal', toPods);
  if (toPods.length === 0) return [];
  const address = ADDRESS_TYPES[family];
  const [source, destination] = [headerAddress(family, 'saddr'), headerAddress(family, 'daddr')];
  const toPod = setName('floating-to-pod', family);
  const toItself = setName('pod-to-itself', family);
  const fromPod = setName('pod-to-floating', family);
  const dnat = translate('dnat', family, { key: destination, map: toPod });
  return [
    mapOf(toPod, { type: address, map: address, elem: toPods.map((pair) => [external(pair), internal(pair)]) }),
    mapOf(toItself, {
      type: [address, address],
      map: address,
      elem: fromPods.map((pair) => [{ concat: [internal(pair), internal(pair)] }, external(pair)]),
    }),
    mapOf(fromPod, { type: address, map: address, elem: fromPods.map((pair) => [internal(pair), external(pair)]) }),
    rule('prerouting', dnat),
    rule('output', dnat),
    rule('postrouting', translate('snat', family, { key: { concat: [source, destination] }, map: toItself })),
    rule('postrouting', ...goesOutside(family), translate('snat', family, { key: source, map: fromPod })),
  ];
}

/** Returns the first pair for each address on that side. */
function firstOfEach(side: 'external' | 'internal', floating: readonly FloatingAddress[]): readonly FloatingAddress[] {
  const first = new Map<string, FloatingAddress>();
  for (const pair of floating) {
    const key = formatAddress(pair[side]);
    if (!first.has(key)) first.set(key, pair);
  }
  return [...first.values()];
}

/** Returns a map with sorted elements, so that equal maps render equally. */
function mapOf(
  name: string,
  { elem, ...types }: Omit<NftMap, 'name'> & { readonly elem: readonly NftJson[] },
): NftObject {
  const inOrder = elem.toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
  return { map: { name, ...types, elem: inOrder } };
}

function external(pair: FloatingAddress): string {
  return formatAddress(pair.external);
}

function internal(pair: FloatingAddress): string {
  return formatAddress(pair.internal);
}
