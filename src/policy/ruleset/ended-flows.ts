import type { FilterSet } from '../../dataplane/policy-filter.ts';
import type { TrackedFlow } from '../../dataplane/flow-table.ts';
import { type Address, FAMILIES, type Family, formatAddress } from '../../net/address.ts';

const TCP = 6;
const SETS: ReadonlyMap<string, FilterSet> = setsOf([]);

/** The set of the flows of the family that were ended because policies deny them. */
export function endedSetName(family: Family): string {
  return `ended-v${String(family)}`;
}

/** Returns the sets as a table has them from the beginning. */
export function endedSets(): ReadonlyMap<string, FilterSet> {
  return SETS;
}

/**
 * Returns the flows as elements of these sets, in both directions, as packets pass the filter. Only TCP has packets that show
 * that they begin no connection.
 */
export function endedElements(flows: readonly TrackedFlow[]): ReadonlyMap<string, FilterSet> {
  return setsOf(
    flows
      .filter(({ original }) => original.protocol === TCP)
      .flatMap(({ original, reply }) => [
        { ends: [original.source, reply.source], ports: [original.sourcePort, reply.sourcePort] },
        { ends: [reply.source, reply.destination], ports: [reply.sourcePort, reply.destinationPort] },
        // After the translation of its source.
        { ends: [reply.destination, reply.source], ports: [reply.destinationPort, reply.sourcePort] },
      ]),
  );
}

interface Packets {
  readonly ends: readonly Address[];
  readonly ports: readonly number[];
}

function setsOf(packets: readonly Packets[]): ReadonlyMap<string, FilterSet> {
  return new Map(
    FAMILIES.map((family) => {
      const texts = packets
        .filter(({ ends }) => ends.every((end) => end.family === family))
        .map(({ ends, ports }) => [...ends.map(formatAddress), ...ports].join(' '));
      return [endedSetName(family), { kind: 'flows', family, elements: new Set(texts) }];
    }),
  );
}
