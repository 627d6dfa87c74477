import { HOST_LINK_PREFIX } from '../../dataplane/kernel.ts';
import type {
  FilterAction,
  FilterChain,
  FilterHook,
  FilterMatch,
  FilterSet,
  FilterTable,
  TableRule,
} from '../../dataplane/policy-filter.ts';
import { POLICY_TABLE, REPORT_GROUP, type RuleOrigin } from './policy-ruleset.ts';
import { idOfOrigin } from './rule-ids.ts';

/** Chains for packets from and to a pod, by the name of its interface. */
export const FROM_PODS = 'from-pods';
export const TO_PODS = 'to-pods';

const COUNT: FilterAction = { kind: 'count' };
const ACCEPT: FilterAction = { kind: 'accept' };
const DROP: FilterAction = { kind: 'drop' };
export const KNOWN_FLOW: FilterMatch = { kind: 'state', states: ['established', 'related'] };
export const INVALID: FilterMatch = { kind: 'state', states: ['invalid'] };
/**
 * A TCP packet of a flow that is not tracked. When a flow is denied, its entry is deleted: the next packet of the end that is
 * allowed to send would otherwise begin an entry in its own direction, and the flow would go on.
 */
export const MIDSTREAM: readonly FilterMatch[] = [
  { kind: 'state', states: ['new'] },
  { kind: 'protocol', protocols: [6] },
  { kind: 'tcp opening', isNegated: true },
];
/**
 * Multicast listeners, routers and neighbours: without them IPv6 does not work on a link. Over IPv4, a packet with the same
 * protocol number is none of these.
 */
export const NEIGHBOURS: readonly FilterMatch[] = [
  { kind: 'family', family: 6 },
  { kind: 'protocol', protocols: [58] },
  { kind: 'icmp', types: [130, 131, 132, 133, 134, 135, 136, 143] },
];
/** Reports of one rule: a flood of denied packets must not occupy the reader. */
const REPORTS: FilterAction = { kind: 'limit', perSecond: 10, burst: 20 };

const TO_HOST: RuleOrigin = { kind: 'to host', direction: 'egress' };
/** Where the rules of base chains come from that deny. */
export const BASE_ORIGINS: readonly RuleOrigin[] = [
  { kind: 'unknown interface', direction: 'egress' },
  { kind: 'unknown interface', direction: 'ingress' },
  TO_HOST,
];

/**
 * Returns the base chains. Egress and ingress are base chains of their own at the same hook: `accept` ends only the first
 * one, so a policy allows its direction without a packet mark, and no chain leads from one direction to the other.
 */
export function baseChains(endpointToHostAction: 'Accept' | 'Drop'): ReadonlyMap<string, FilterChain> {
  const fromPods = dispatchRules('in', { map: FROM_PODS, origin: { kind: 'unknown interface', direction: 'egress' } });
  const toPods = dispatchRules('out', { map: TO_PODS, origin: { kind: 'unknown interface', direction: 'ingress' } });
  const toHost = endpointToHostAction === 'Accept' ? [] : toHostRules();
  return new Map([
    ['forward-egress', { hook: hookAt('forward', 0), rules: fromPods }],
    ['forward-ingress', { hook: hookAt('forward', 1), rules: toPods }],
    ['input-egress', { hook: hookAt('input', 0), rules: fromPods }],
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
export function closedToAll(): FilterTable {
  const none = (): FilterSet => ({ kind: 'interfaces', elements: new Map() });
  return {
    name: POLICY_TABLE,
    chains: baseChains('Accept'),
    sets: new Map([
      [FROM_PODS, none()],
      [TO_PODS, none()],
    ]),
  };
}

/** Returns a table that drops new connections of the interfaces and leaves all other pods alone. */
export function closedTable(interfaces: ReadonlySet<string>): FilterTable {
  const rulesFor = (direction: 'in' | 'out'): readonly TableRule[] => [
    { id: 'established', parts: [KNOWN_FLOW, ACCEPT] },
    { id: 'neighbours', parts: [...NEIGHBOURS, ACCEPT] },
    ...[...interfaces].map((name): TableRule => {
      return { id: `${CLOSED}${name}`, parts: [{ kind: 'interface', direction, name }, COUNT, DROP] };
    }),
  ];
  const chains = new Map<string, FilterChain>([
    ['forward-egress', { hook: hookAt('forward', 0), rules: rulesFor('in') }],
    ['forward-ingress', { hook: hookAt('forward', 1), rules: rulesFor('out') }],
    ['input-egress', { hook: hookAt('input', 0), rules: rulesFor('in') }],
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
  { map, origin }: { readonly map: string; readonly origin: RuleOrigin },
): readonly TableRule[] {
  const isPod: FilterMatch = { kind: 'interface', direction, name: `${HOST_LINK_PREFIX}*` };
  return [
    { id: 'established', parts: [KNOWN_FLOW, ACCEPT] },
    { id: 'invalid', parts: [isPod, INVALID, COUNT, DROP] },
    { id: 'midstream', parts: [isPod, ...MIDSTREAM, COUNT, DROP] },
    { id: 'neighbours', parts: [...NEIGHBOURS, ACCEPT] },
    { id: DISPATCH, parts: [{ kind: 'dispatch', direction, map }] },
    ...denyRules(origin).map(({ id, parts }) => ({ id, parts: [isPod, ...parts] })),
  ];
}

function toHostRules(): readonly TableRule[] {
  const isPod: FilterMatch = { kind: 'interface', direction: 'in', name: `${HOST_LINK_PREFIX}*` };
  return [
    { id: 'established', parts: [KNOWN_FLOW, ACCEPT] },
    { id: 'neighbours', parts: [...NEIGHBOURS, ACCEPT] },
    ...denyRules(TO_HOST).map(({ id, parts }) => ({ id, parts: [isPod, ...parts] })),
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
    { id: `${id}-report`, parts: [REPORTS, reportOf(origin)] },
    { id, parts: [COUNT, action] },
  ];
}

/** Returns the action that reports a packet under the id of the origin. */
export function reportOf(origin: RuleOrigin): FilterAction {
  return { kind: 'report', group: REPORT_GROUP, prefix: idOfOrigin(origin) };
}
