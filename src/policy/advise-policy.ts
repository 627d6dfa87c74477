import { NAMESPACE_LABEL, ORCHESTRATOR_LABEL } from '../model/policy-names.ts';
import { evaluateSelector } from '../model/selector.ts';
import type { Selector } from '../model/selector-parser.ts';
import { cidrContains } from '../net/cidr.ts';
import { SYSTEM_NAMESPACES } from './reach/vital-services.ts';
import type { PeerMatch, PolicyDirection, PolicyRule, ResolvedPolicy } from './resolved-policy.ts';

/** Something that is probably not meant, with its path below `spec`. */
export interface PolicyAdvice {
  readonly path: string;
  readonly message: string;
}

const DNS = { protocol: 17, port: 53 };

/** Returns what is probably a mistake in a policy, as far as it shows without its cluster. */
export function advisePolicy({ appliesTo, isStaged, rules }: ResolvedPolicy): PolicyAdvice[] {
  return (['ingress', 'egress'] as const).flatMap((direction) => {
    const list = rules[direction];
    if (list === undefined) return [];
    return [
      ...(isStaged ? [] : adviseSystem(list, direction, appliesTo)),
      ...adviseOrder(list, direction),
      ...adviseMatches(list, direction),
      ...(direction === 'egress' ? adviseDns(list) : []),
    ];
  });
}

/** A policy that selects a whole system namespace can cut off DNS, controllers and the pods that would repair it. */
function adviseSystem(rules: readonly PolicyRule[], direction: PolicyDirection, appliesTo: Selector): PolicyAdvice[] {
  const selected = SYSTEM_NAMESPACES.filter((namespace) =>
    evaluateSelector(appliesTo, { [NAMESPACE_LABEL]: namespace, [ORCHESTRATOR_LABEL]: 'orch' }),
  );
  const decisive = rules.find((rule) => rule.action !== 'Log' && matchesEverything(rule));
  const isClosed = decisive === undefined || decisive.action === 'Deny';
  if (selected.length === 0 || !isClosed) return [];
  const message = `applies to every pod of ${selected.join(' and ')}, and cuts off what it does not allow: DNS and controllers run there`;
  return [{ path: direction, message }];
}

/** After a rule that decides every packet, the others have no effect. */
function adviseOrder(rules: readonly PolicyRule[], direction: PolicyDirection): PolicyAdvice[] {
  const position = rules.findIndex((rule) => rule.action !== 'Log' && matchesEverything(rule));
  const decisive = rules[position];
  if (decisive === undefined) return [];
  const later = new Set(rules.slice(position + 1).map(({ index }) => index));
  later.delete(decisive.index);
  return [...later].map((index) => ({
    path: joinPath(direction, index),
    message: `has no effect: ${joinPath(direction, decisive.index)} already matches every packet`,
  }));
}

/** Several rules may stand for one written rule: it is worth a remark when one of them cannot match. */
function adviseMatches(rules: readonly PolicyRule[], direction: PolicyDirection): PolicyAdvice[] {
  const said = new Map<string, PolicyAdvice>();
  for (const rule of rules) {
    for (const side of ['source', 'destination'] as const) {
      for (const message of whyNever(rule[side])) {
        const advice = { path: joinPath(direction, rule.index), message: `${side}: ${message}` };
        said.set(JSON.stringify(advice), advice);
      }
    }
  }
  return [...said.values()];
}

function whyNever({ nets, notNets, selector, ports, notPorts }: PeerMatch): string[] {
  const areNetsExcluded =
    nets !== undefined && nets.every((net) => (notNets ?? []).some((excluded) => cidrContains(excluded, net)));
  const arePortsExcluded =
    ports !== undefined &&
    ports.names.length === 0 &&
    ports.ranges.every(({ first, last }) =>
      (notPorts?.ranges ?? []).some((excluded) => excluded.first <= first && last <= excluded.last),
    );
  const areOnlyNamed = ports !== undefined && ports.names.length > 0 && nets !== undefined && selector === undefined;
  return [
    ...(areNetsExcluded ? ['never matches, because all of its networks are excluded'] : []),
    ...(arePortsExcluded ? ['never matches, because all of its ports are excluded'] : []),
    ...(selector !== undefined && isContradiction(selector.selector)
      ? ['never matches, because no labels satisfy its selectors']
      : []),
    ...(areOnlyNamed ? ['matches by name only the ports of pods; other addresses in its networks have no names'] : []),
  ];
}

function adviseDns(rules: readonly PolicyRule[]): PolicyAdvice[] {
  const isOpen = rules.some(({ action }) => action === 'Allow');
  if (!isOpen || rules.some((rule) => rule.action === 'Pass' || (rule.action === 'Allow' && mayBeDns(rule)))) return [];
  const message = 'allows connections, but no DNS (UDP port 53): pods resolve no names unless another policy allows it';
  return [{ path: 'egress', message }];
}

function mayBeDns({ protocol, notProtocol, destination: { ports, notPorts } }: PolicyRule): boolean {
  const isIn = (ranges: readonly { first: number; last: number }[]): boolean =>
    ranges.some(({ first, last }) => first <= DNS.port && DNS.port <= last);
  return (
    (protocol === undefined || protocol === DNS.protocol) &&
    notProtocol !== DNS.protocol &&
    (ports === undefined || ports.names.length > 0 || isIn(ports.ranges)) &&
    !isIn(notPorts?.ranges ?? [])
  );
}

function matchesEverything({ source, destination, ...rule }: PolicyRule): boolean {
  const { family, protocol, notProtocol, icmp, notIcmp } = rule;
  const isAny = [family, protocol, notProtocol, icmp, notIcmp].every((each) => each === undefined);
  return isAny && Object.keys(source).length === 0 && Object.keys(destination).length === 0;
}

/** Reports whether parts that must all match need different values of one label, or a label that must be absent. */
export function isContradiction(selector: Selector): boolean {
  if (!('of' in selector) || selector.kind !== 'and') return false;
  const allowed = new Map<string, ReadonlySet<string>>();
  const needed = new Set<string>();
  const absent = new Set<string>();
  for (const part of selector.of) {
    const values = valuesOf(part);
    if (values !== undefined && 'label' in part) {
      const before = allowed.get(part.label);
      allowed.set(part.label, before === undefined ? values : values.intersection(before));
      needed.add(part.label);
    } else if (part.kind === 'has') needed.add(part.label);
    else if (part.kind === 'not' && part.of.kind === 'has') absent.add(part.of.label);
  }
  return [...allowed.values()].some(({ size }) => size === 0) || !needed.isDisjointFrom(absent);
}

function valuesOf(part: Selector): ReadonlySet<string> | undefined {
  if (part.kind === '==') return new Set([part.value]);
  return part.kind === 'in' ? new Set(part.values) : undefined;
}

/** Returns the path of a rule below `spec`. */
export function joinPath(direction: PolicyDirection, index: number): string {
  return `${direction}[${String(index)}]`;
}
