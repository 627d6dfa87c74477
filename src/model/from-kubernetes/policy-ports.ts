import * as v from 'valibot';

const PROTOCOLS = ['TCP', 'UDP', 'SCTP'] as const;
export type RuleProtocol = (typeof PROTOCOLS)[number];
const Number16 = v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(65_535));
const PortName = v.pipe(v.string(), v.regex(/^(?=.*[a-zA-Z])[a-zA-Z0-9-]{1,63}$/));

/** One entry of `ports` of a rule. A port is a number or a name; `endPort` needs a number that is not larger. */
export const PolicyPort = v.pipe(
  v.object({
    protocol: v.nullish(v.picklist(PROTOCOLS), 'TCP'),
    port: v.nullish(v.union([Number16, PortName], 'port is neither a number from 1 to 65535 nor the name of a port')),
    endPort: v.nullish(Number16),
  }),
  v.check(
    ({ port, endPort }) => endPort === undefined || endPort === null || (typeof port === 'number' && endPort >= port),
    'endPort needs a port that is a number and not larger',
  ),
);

/** Ports of one protocol; all of them when undefined. */
export interface PortGroup {
  readonly protocol: RuleProtocol;
  readonly ports: readonly (number | string)[] | undefined;
}

/** Returns a group for each protocol, in order of their first entry. Overlapping and adjacent numbers become ranges. */
export function groupPorts(entries: readonly v.InferOutput<typeof PolicyPort>[]): PortGroup[] {
  const groups = Map.groupBy(entries, ({ protocol }) => protocol);
  return [...groups].map(([protocol, group]) => {
    const isAny = group.some(({ port }) => port === undefined || port === null);
    return { protocol, ports: isAny ? undefined : portsOf(group) };
  });
}

function portsOf(group: readonly v.InferOutput<typeof PolicyPort>[]): (number | string)[] {
  const names = new Set<string>();
  const ranges: { first: number; last: number }[] = [];
  for (const { port, endPort } of group) {
    if (typeof port === 'string') names.add(port);
    if (typeof port === 'number') ranges.push({ first: port, last: endPort ?? port });
  }
  return [...mergeRanges(ranges), ...names];
}

function mergeRanges(ranges: readonly { first: number; last: number }[]): (number | string)[] {
  const merged: { first: number; last: number }[] = [];
  for (const range of ranges.toSorted((a, b) => a.first - b.first)) {
    const before = merged.at(-1);
    if (before !== undefined && range.first <= before.last + 1) before.last = Math.max(before.last, range.last);
    else merged.push({ ...range });
  }
  return merged.map(({ first, last }) => (first === last ? first : `${String(first)}:${String(last)}`));
}
