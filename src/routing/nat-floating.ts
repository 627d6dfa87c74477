import type { FilterSet, TableRule } from '../dataplane/policy-filter.ts';
import { type Address, type Family, formatAddress } from '../net/address.ts';
import { goesOutside, rule, setName } from './filter-parts.ts';

/** A second address by which a pod of this node can be reached. */
export interface FloatingAddress {
  readonly external: Address;
  /** The pod's own, of the same family. */
  readonly internal: Address;
}

/** A part of the table of address translation. */
export interface NatPart {
  readonly sets: readonly (readonly [name: string, set: FilterSet])[];
  /** Rules for packets that arrive, or that the host sends. */
  readonly arriving: readonly TableRule[];
  /** Rules for packets that leave. */
  readonly leaving: readonly TableRule[];
}

/**
 * Returns maps and rules for the floating addresses of one family. Packets to a floating address go to its pod. Packets
 * from the pod to destinations outside all pools get its first floating address as source. So do packets that a pod
 * sends to its own floating address, because otherwise the pod would answer itself without passing the host.
 */
export function floatingPart(family: Family, floating: readonly FloatingAddress[]): NatPart {
  const { inside, outside } = floatingMaps(floating);
  if (inside.size === 0) return { sets: [], arriving: [], leaving: [] };
  const [toPod, toItself, fromPod] = ['floating-to-pod', 'pod-to-itself', 'pod-to-floating'].map((name) =>
    setName(name, family),
  ) as [string, string, string];
  const translations = (by: 'one' | 'both', elements: ReadonlyMap<string, string>): FilterSet => {
    return { kind: 'translations', family, by, elements };
  };
  const outsideOfBoth = new Map([...outside].map(([own, floating]) => [`${own} ${own}`, floating]));
  return {
    sets: [
      [toPod, translations('one', inside)],
      [toItself, translations('both', outsideOfBoth)],
      [fromPod, translations('one', outside)],
    ],
    arriving: [rule(toPod, { kind: 'translate', side: 'destination', family, by: 'destination', map: toPod })],
    leaving: [
      rule(toItself, { kind: 'translate', side: 'source', family, by: 'both', map: toItself }),
      rule(fromPod, ...goesOutside(family), { kind: 'translate', side: 'source', family, by: 'source', map: fromPod }),
    ],
  };
}

/** The maps of translation, by canonical texts of addresses. */
export interface FloatingMaps {
  /** The pod that each floating address leads to. */
  readonly inside: ReadonlyMap<string, string>;
  /** The floating address that each pod sends with. */
  readonly outside: ReadonlyMap<string, string>;
}

export function floatingMaps(floating: readonly FloatingAddress[]): FloatingMaps {
  const toPods = firstOfEach(
    'external',
    floating.filter((pair) => pair.external.family === pair.internal.family),
  );
  const fromPods = firstOfEach('internal', toPods);
  return {
    inside: new Map(toPods.map((pair) => [external(pair), internal(pair)])),
    outside: new Map(fromPods.map((pair) => [internal(pair), external(pair)])),
  };
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

function external(pair: FloatingAddress): string {
  return formatAddress(pair.external);
}

function internal(pair: FloatingAddress): string {
  return formatAddress(pair.internal);
}
