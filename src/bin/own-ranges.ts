import { networkInterfaces } from 'node:os';
import { isDeepStrictEqual } from 'node:util';
import { systemClock } from '../base/clock.ts';
import type { UsedRange } from '../model/used-range.ts';
import { tryReadCidr } from '../net/cidr.ts';
import { protectedRanges } from '../routing/protected-ranges.ts';

/** Calls of one moment share what was read. */
const READ_MS = 1000;

/** Returns a function that returns the networks of the host's interfaces, as the same list until they change. */
export function ownRangesOfHost(): () => readonly UsedRange[] {
  let ranges: readonly UsedRange[] = [];
  let readMs = Number.NEGATIVE_INFINITY;
  return () => {
    if (systemClock.monotonic() - readMs < READ_MS) return ranges;
    readMs = systemClock.monotonic();
    const interfaces = Object.entries(networkInterfaces()).map(([name, addresses = []]) => ({
      name,
      addresses: addresses.flatMap(({ cidr }) => {
        const reading = tryReadCidr(cidr ?? '');
        return reading === undefined ? [] : { address: reading.address, prefixBits: reading.cidr.prefixBits };
      }),
    }));
    const read = protectedRanges(interfaces, []);
    if (!isDeepStrictEqual(read, ranges)) ranges = read;
    return ranges;
  };
}
