import type { TrackedFlow } from '../../dataplane/flow-table.ts';
import type { FilterSet } from '../../dataplane/policy-filter.ts';
import { type Address, FAMILIES, type Family, formatAddress } from '../../net/address.ts';

const TCP = 6;
/** The sets as a table has them from the beginning. */
export const ENDED_SETS: ReadonlyMap<string, FilterSet> = new Map(
  FAMILIES.flatMap((family): [string, FilterSet][] => [
    [endedSetName(family), { kind: 'flows', family, elements: new Set() }],
    [cutSetName(family), { kind: 'cut addresses', family, elements: new Set() }],
  ]),
);

/** Returns the name of the set of the flows of the family that were ended because policies deny them. */
export function endedSetName(family: Family): string {
  return `ended-v${String(family)}`;
}

/** Returns the name of the set of the pods that have more ended flows than the other set has room for. */
export function cutSetName(family: Family): string {
  return `cut-v${String(family)}`;
}

/**
 * Returns the flow as elements of its set, in both directions, as packets pass the filter. Only TCP has packets that show
 * that they begin no connection.
 */
export function endedElements({ original, reply }: TrackedFlow): readonly string[] {
  if (original.protocol !== TCP) return [];
  const packets: readonly Packets[] = [
    { ends: [original.source, reply.source], ports: [original.sourcePort, reply.sourcePort] },
    { ends: [reply.source, reply.destination], ports: [reply.sourcePort, reply.destinationPort] },
    // After the translation of its source.
    { ends: [reply.destination, reply.source], ports: [reply.destinationPort, reply.sourcePort] },
  ];
  const ofFamily = packets.filter(({ ends }) => ends.every(({ family }) => family === original.source.family));
  return [...new Set(ofFamily.map(({ ends, ports }) => [...ends.map(formatAddress), ...ports].join(' ')))];
}

interface Packets {
  readonly ends: readonly Address[];
  readonly ports: readonly number[];
}
