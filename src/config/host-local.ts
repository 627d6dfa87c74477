import { at, type Findings, foundNotAllowed, type Problem } from '../base/problem.ts';
import type { PartialOutput } from '../model/read-schema.ts';
import { type Cidr, formatCidr, tryReadCidr } from '../net/cidr.ts';
import {
  overlaps,
  QUOTED_POD_CIDR_WORDS,
  podCidrWord,
  readRange,
  type RangeText,
  type ReadRange,
} from './host-local-range.ts';
import type { HOST_LOCAL_FIELDS } from './ipam-fields.ts';
import type { Ipam } from './netconf.ts';

type HostLocal = Extract<Ipam, { type: 'host-local' }>;

/** The section with each range and route read separately. */
export interface HostLocalValues extends Omit<PartialOutput<typeof HOST_LOCAL_FIELDS>, 'ranges' | 'routes'> {
  readonly ranges: readonly (RangeText & { readonly place: readonly number[]; readonly path: string })[];
  readonly routes: readonly { readonly path: string; readonly dst?: string | undefined }[] | undefined;
}

/**
 * Checks what the standard plugin would refuse only at the first pod, and finds values that need the node's pod CIDR.
 * `hasOtherRanges`: the runtime passes ranges, or those of the configuration could not be read, so that none is missing.
 */
export function decideHostLocal(values: HostLocalValues, hasOtherRanges: boolean, { problems }: Findings): HostLocal {
  const sets = rangeSets(values, problems);
  const ranges = sets.flat();
  for (const set of sets) refuseMixedFamilies(set, problems);
  refuseOverlaps(ranges, problems);
  if (values.subnet === undefined && values.ranges.length === 0 && !hasOtherRanges) {
    const message = 'missing; host-local needs at least one range with "subnet"';
    problems.push({ path: 'ipam.ranges', message, code: 'netconf/invalid' });
  }
  return {
    type: 'host-local',
    routes: values.routes === undefined ? undefined : readRoutes(values.routes, problems),
    podCidrPaths: ranges.filter(({ podCidr }) => podCidr !== undefined).map(({ path }) => at(path, 'subnet')),
  };
}

function rangeSets(values: HostLocalValues, problems: Problem[]): ReadRange[][] {
  const { subnet, rangeStart, rangeEnd, gateway } = values;
  const inShort =
    subnet === undefined ? [] : [[readRange({ subnet, rangeStart, rangeEnd, gateway }, 'ipam', problems)]];
  const sets = new Map<number, ReadRange[]>();
  for (const { place, path, ...range } of values.ranges) {
    const set = sets.get(place[0] ?? 0) ?? [];
    set.push(readRange(range, path, problems));
    sets.set(place[0] ?? 0, set);
  }
  return [...inShort, ...sets.values()];
}

function refuseMixedFamilies(set: readonly ReadRange[], problems: Problem[]): void {
  const [first] = set;
  for (const { family, path } of set) {
    if (first?.family === undefined || family === undefined || family === first.family) continue;
    const message = `is IPv${String(family)}, while the set starts with IPv${String(first.family)}`;
    const hint = 'a pod gets one address from each set: put the other family into a separate set';
    problems.push({ path: at(path, 'subnet'), message, hint, code: 'netconf/invalid' });
  }
}

function refuseOverlaps(ranges: readonly ReadRange[], problems: Problem[]): void {
  for (const [index, range] of ranges.entries()) {
    const other = ranges.slice(0, index).find((earlier) => overlaps(earlier, range));
    if (other === undefined) continue;
    problems.push({ path: range.path, message: `overlaps ${other.path}`, code: 'netconf/invalid' });
  }
}

/** Decodes the routes; an empty list means no routes. */
function readRoutes(routes: NonNullable<HostLocalValues['routes']>, problems: Problem[]): Cidr[] {
  const cidrs: Cidr[] = [];
  for (const { path, dst } of routes) {
    if (dst === undefined) continue;
    const reading = tryReadCidr(dst);
    if (reading !== undefined && !reading.hostBits) {
      cidrs.push(reading.cidr);
      continue;
    }
    let allowed = reading === undefined ? 'a CIDR' : `a CIDR without host bits, here "${formatCidr(reading.cidr)}"`;
    if (podCidrWord(dst) !== undefined) allowed = `a CIDR; ${QUOTED_POD_CIDR_WORDS} may only be the value of "subnet"`;
    problems.push({ path: at(path, 'dst'), message: foundNotAllowed(dst, allowed), code: 'netconf/invalid' });
  }
  return cidrs;
}
