import {
  type FilterAction,
  type FilterChain,
  type FilterHook,
  type FilterMatch,
  type FilterSet,
  type FilterTable,
  PACKET_LOGS,
  type TableRule,
} from '../../dataplane/policy-filter.ts';
import { FAMILIES } from '../../net/address.ts';
import { OWN_POD_LINKS, type PodLinkNames } from '../pod-link-names.ts';
import { cutSetName, endedSetName, ENDED_SETS } from './ended-flows.ts';
import { POLICY_TABLE, REPORT_GROUP, type RuleOrigin } from './policy-ruleset.ts';
import { idOfOrigin } from './rule-ids.ts';
import { chainsWithoutLogs } from './without-logs.ts';

/** Chains for packets from and to a pod, by the name of its interface. */
export const FROM_PODS = 'from-pods';
export const TO_PODS = 'to-pods';

const COUNT: FilterAction = { kind: 'count' };
const ACCEPT: FilterAction = { kind: 'accept' };
const DROP: FilterAction = { kind: 'drop' };
export const KNOWN_FLOW: FilterMatch = { kind: 'state', states: ['established', 'related'] };
export const INVALID: FilterMatch = { kind: 'state', states: ['invalid'] };
/** A TCP packet of a flow that is not tracked. */
const MIDSTREAM: readonly FilterMatch[] = [
  { kind: 'state', states: ['new'] },
  { kind: 'protocol', protocols: [6] },
  { kind: 'tcp opening', isNegated: true },
];

/**
 * Returns rules that drop the packets of flows that were ended because policies deny them: the next packet of the end that is
 * allowed to send would otherwise begin an entry in its own direction, and the flow would go on. Other flows of which the
 * kernel knows no beginning are judged like new ones: they are older than the table, or the kernel has forgotten them.
 */
export function endedFlowRules(...first: readonly FilterMatch[]): readonly TableRule[] {
  return FAMILIES.flatMap((family) => {
    const ended: readonly FilterMatch[] = [
      { kind: 'flow', family, set: endedSetName(family) },
      { kind: 'member', side: 'source', family, set: cutSetName(family) },
      { kind: 'member', side: 'destination', family, set: cutSetName(family) },
    ];
    return ended.map((isEnded) => ({ id: 'ended', parts: [...first, ...MIDSTREAM, isEnded, COUNT, DROP] }));
  });
}
/**
 * Multicast listeners, routers and neighbours: without them IPv6 does not work on a link. Over IPv4, a packet with the same
 * protocol number is none of these. What is forwarded is not between neighbours, whatever its type: it could carry anything
 * past policies.
 */
export const NEIGHBOURS: readonly FilterMatch[] = [
  { kind: 'family', family: 6 },
  { kind: 'protocol', protocols: [58] },
  { kind: 'icmp', types: [130, 131, 132, 133, 134, 135, 136, 143] },
];
const NEIGHBOUR_RULE: TableRule = { id: 'neighbours', parts: [...NEIGHBOURS, ACCEPT] };
/** Reports of one rule, or of one interface: a flood of denied packets must not occupy the reader. */
const REPORTS = { perSecond: 10, burst: 20 } as const;
const NO_LIMITS: FilterSet = { kind: 'limits', elements: new Set() };

/** Where packets of pods go that come from, or go to, the interface; and the origin of the rule that denies those of unknown ones. */
const DISPATCHED = {
  in: { map: FROM_PODS, origin: { kind: 'unknown interface', direction: 'egress' } },
  out: { map: TO_PODS, origin: { kind: 'unknown interface', direction: 'ingress' } },
} as const;
const TO_HOST: RuleOrigin = { kind: 'to host', direction: 'egress' };
/** Origins of the rules of base chains that deny. */
export const BASE_ORIGINS: readonly RuleOrigin[] = [DISPATCHED.in.origin, DISPATCHED.out.origin, TO_HOST];

/**
 * Returns the base chains. Egress and ingress are base chains of their own at the same hook: `accept` ends only the first
 * one, so a policy allows its direction without a packet mark, and no chain leads from one direction to the other.
 */
export function baseChains(
  endpointToHostAction: 'Accept' | 'Drop',
  podLinks: PodLinkNames = OWN_POD_LINKS,
): ReadonlyMap<string, FilterChain> {
  const toHost = endpointToHostAction === 'Accept' ? [] : toHostRules(podLinks);
  return new Map([
    ['forward-egress', { hook: hookAt('forward', 0), rules: dispatchRules('in', podLinks) }],
    ['forward-ingress', { hook: hookAt('forward', 1), rules: dispatchRules('out', podLinks) }],
    ['input-egress', { hook: hookAt('input', 0), rules: dispatchRules('in', podLinks, [NEIGHBOUR_RULE]) }],
    ['input-host', { hook: hookAt('input', 1), rules: toHost }],
  ]);
}

const DISPATCH = 'dispatch';
const CLOSED = 'closed-';

/** Reports whether a table whose rules have these ids drops packets of every interface of a pod that it does not know. */
export function closesUnknown(ruleIds: ReadonlySet<string>): boolean {
  return ruleIds.has(DISPATCH);
}

/** Returns a table that drops new connections of every pod, as long as no policies are known. */
export function closedToAll(podLinks: PodLinkNames = OWN_POD_LINKS): FilterTable {
  const none = (): FilterSet => ({ kind: 'interfaces', elements: new Map() });
  return {
    name: POLICY_TABLE,
    // Without an agent, reports have no reader, and the kernel may have no module for them.
    chains: chainsWithoutLogs(baseChains('Accept', podLinks), new Set(PACKET_LOGS)),
    sets: new Map([[FROM_PODS, none()], [TO_PODS, none()], ...ENDED_SETS]),
  };
}

/** Returns a table that drops new connections of the interfaces and leaves all other pods alone. */
export function closedTable(interfaces: ReadonlySet<string>): FilterTable {
  const rulesFor = (direction: 'in' | 'out', before: readonly TableRule[] = []): readonly TableRule[] => [
    { id: 'established', parts: [KNOWN_FLOW, ACCEPT] },
    ...before,
    ...[...interfaces].map((name): TableRule => {
      return { id: `${CLOSED}${name}`, parts: [{ kind: 'interface', direction, name }, COUNT, DROP] };
    }),
  ];
  const chains = new Map<string, FilterChain>([
    ['forward-egress', { hook: hookAt('forward', 0), rules: rulesFor('in') }],
    ['forward-ingress', { hook: hookAt('forward', 1), rules: rulesFor('out') }],
    ['input-egress', { hook: hookAt('input', 0), rules: rulesFor('in', [NEIGHBOUR_RULE]) }],
  ]);
  return { name: POLICY_TABLE, chains, sets: new Map() };
}

/** Returns the interfaces of a table of `closedTable`, from the ids of its rules. */
export function closedInterfaces(ruleIds: ReadonlySet<string>): readonly string[] {
  return [...ruleIds].filter((id) => id.startsWith(CLOSED)).map((id) => id.slice(CLOSED.length));
}

function hookAt(hook: FilterHook['hook'], priority: number): FilterHook {
  return { type: 'filter', hook, priority };
}

/** Accepts known flows, and dispatches packets of pods. An interface that is not in the map has no endpoint yet. */
function dispatchRules(
  direction: 'in' | 'out',
  podLinks: PodLinkNames,
  before: readonly TableRule[] = [],
): readonly TableRule[] {
  const { map, origin } = DISPATCHED[direction];
  const arePods = podMatches(direction, podLinks);
  return [
    { id: 'established', parts: [KNOWN_FLOW, ACCEPT] },
    ...otherLinkRules(direction, podLinks),
    ...arePods.map((isPod) => ({ id: 'invalid', parts: [isPod, INVALID, COUNT, DROP] })),
    ...arePods.flatMap((isPod) => endedFlowRules(isPod)),
    ...before,
    { id: DISPATCH, parts: [{ kind: 'dispatch', direction, map }] },
    ...denyPods(origin, arePods),
  ];
}

function podMatches(direction: 'in' | 'out', { prefixes }: PodLinkNames): readonly FilterMatch[] {
  return prefixes.map((prefix) => ({ kind: 'interface', direction, name: `${prefix}*` }));
}

/** Returns rules that accept packets of links that are not of pods, although their names begin like those of pods. */
function otherLinkRules(direction: 'in' | 'out', { others }: PodLinkNames): readonly TableRule[] {
  return others.map((name) => ({ id: 'other-link', parts: [{ kind: 'interface', direction, name }, ACCEPT] }));
}

function denyPods(origin: RuleOrigin, arePods: readonly FilterMatch[]): readonly TableRule[] {
  return arePods.flatMap((isPod) => denyRules(origin).map(({ id, parts }) => ({ id, parts: [isPod, ...parts] })));
}

function toHostRules(podLinks: PodLinkNames): readonly TableRule[] {
  return [
    { id: 'established', parts: [KNOWN_FLOW, ACCEPT] },
    NEIGHBOUR_RULE,
    ...otherLinkRules('in', podLinks),
    ...denyPods(TO_HOST, podMatches('in', podLinks)),
  ];
}

/** Returns rules that report and drop a packet. */
export function denyRules(origin: RuleOrigin): readonly TableRule[] {
  return reportingRules(origin, DROP);
}

/** Returns rules that report and count a packet, and then act. The limit ends the first rule only. */
export function reportingRules(origin: RuleOrigin, action: FilterAction): readonly TableRule[] {
  const id = idOfOrigin(origin);
  return [
    { id: `${id}-report`, parts: [limitOf(origin), reportOf(origin)] },
    { id, parts: [COUNT, action] },
  ];
}

/** Returns the limit of reports. The rule that denies by default has one for each pod: a flood must not hide others. */
function limitOf(origin: RuleOrigin): FilterAction {
  const set = limitSetOf(origin);
  if (set === undefined) return { kind: 'limit', ...REPORTS };
  return { kind: 'limit each', direction: origin.direction === 'egress' ? 'in' : 'out', set, ...REPORTS };
}

function limitSetOf(origin: RuleOrigin): string | undefined {
  return 'rule' in origin || origin.kind === 'staged tier' ? undefined : `reports-${idOfOrigin(origin)}`;
}

/** Returns the sets that the reports of rules with these origins need. */
export function limitSets(origins: Iterable<RuleOrigin>): ReadonlyMap<string, FilterSet> {
  const names = Array.from(origins, limitSetOf).filter((name) => name !== undefined);
  return new Map(names.map((name) => [name, NO_LIMITS]));
}

/** Returns the action that reports a packet under the id of the origin. */
export function reportOf(origin: RuleOrigin): FilterAction {
  return { kind: 'report', group: REPORT_GROUP, prefix: idOfOrigin(origin) };
}
