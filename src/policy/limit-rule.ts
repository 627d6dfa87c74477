import { getOrInsert } from '../base/get-or-insert.ts';
import { MOST_RULE_ENTRIES } from '../model/policy-rule.ts';
import { FAMILIES, type Family } from '../net/address.ts';
import { disjointRanges } from './port-ranges.ts';
import type { PeerMatch, PolicyRule, PortMatch } from './resolved-policy.ts';
import { PORT_PROTOCOLS } from './set-content.ts';

/** Number of kernel rules that one rule of a policy may become: one for each choice of what can match. */
const MOST_KERNEL_RULES = 1024;
/** The kernel takes 128 steps per rule, and each excluded name and protocol needs four. */
const MOST_EXCLUDED_NAMES = 16;
/** Members of a selector are addresses and networks, in a set each. */
const SETS_OF_SELECTOR = 2;

/**
 * Bounds what the rules of one direction of a policy take in the kernel, because all policies of a node are written
 * together: one that the kernel refuses would stop all others.
 */
export class RuleLimit {
  #entries = 0;
  /** Rules that stand for one written rule share their ports. */
  readonly #spans = new Map<PortMatch, number>();

  /** Number of entries of the rules that were counted. */
  get entries(): number {
    return this.#entries;
  }

  /** Returns why the rule is too large, or undefined and counts it. */
  refusal(rule: PolicyRule): string | undefined {
    const rules = countRules(rule);
    if (rules > MOST_KERNEL_RULES)
      return `would become ${String(rules)} rules in the kernel, more than ${String(MOST_KERNEL_RULES)}: use fewer named ports`;
    const names = protocolsOf(rule) * sum(rule, ({ notPorts }) => notPorts?.names.length ?? 0);
    if (names > MOST_EXCLUDED_NAMES)
      return `excludes ${String(names)} named ports, more than ${String(MOST_EXCLUDED_NAMES)}`;
    const entries = rules * (1 + sum(rule, (peer) => this.#countElements(peer))) + countTexts(rule);
    if (this.#entries + entries > MOST_RULE_ENTRIES)
      return `would exceed ${String(MOST_RULE_ENTRIES)} entries of the policy in the kernel: use fewer ports and networks`;
    this.#entries += entries;
    return undefined;
  }

  #countElements({ nets = [], notNets = [], ports, notPorts }: PeerMatch): number {
    return nets.length + notNets.length + this.#countSpans(ports) + this.#countSpans(notPorts);
  }

  #countSpans(match: PortMatch | undefined): number {
    if (match === undefined) return 0;
    return getOrInsert(this.#spans, match, () => disjointRanges(match.ranges).length);
  }
}

/** Methods and paths take nothing in the kernel, and as much as a port where requests are judged. */
function countTexts({ http: { methods = [], paths = [] } = {} }: PolicyRule): number {
  return methods.length + paths.length;
}

/** Returns the rule without its ports and networks: it matches at least as much, and is small. */
export function withoutLists(rule: PolicyRule): PolicyRule {
  return { ...rule, source: withoutListsAt(rule.source), destination: withoutListsAt(rule.destination) };
}

function withoutListsAt({ selector, notSelector, accounts, service }: PeerMatch): PeerMatch {
  return {
    ...(selector === undefined ? {} : { selector }),
    ...(notSelector === undefined ? {} : { notSelector }),
    ...(accounts === undefined ? {} : { accounts }),
    ...(service === undefined ? {} : { service }),
  };
}

/** Returns at least as many as the rule becomes. */
function countRules(rule: PolicyRule): number {
  const choices = [rule.source, rule.destination].map(
    ({ selector, ports }) => (selector === undefined ? 1 : SETS_OF_SELECTOR) * countPortChoices(ports, rule),
  );
  return choices.reduce((product, count) => product * count, familiesOf(rule).length * countGroups(rule));
}

/** Without a protocol, excluded ports and ICMP messages need rules of their own. */
function countGroups({ protocol, notIcmp, source, destination }: PolicyRule): number {
  const excludes = notIcmp !== undefined || source.notPorts !== undefined || destination.notPorts !== undefined;
  return protocol === undefined && excludes ? 3 : 1;
}

/** Ranges are one choice. */
function countPortChoices(ports: PortMatch | undefined, rule: PolicyRule): number {
  if (ports === undefined || ports.names.length === 0) return 1;
  return ports.names.length * protocolsOf(rule) + Math.min(ports.ranges.length, 1);
}

function protocolsOf({ protocol }: PolicyRule): number {
  return protocol === undefined ? PORT_PROTOCOLS.length : 1;
}

function familiesOf({ family, source, destination }: PolicyRule): readonly Family[] {
  const isPossible = ({ nets }: PeerMatch, one: Family): boolean =>
    nets === undefined || nets.some(({ base }) => base.family === one);
  return FAMILIES.filter(
    (one) => (family === undefined || family === one) && isPossible(source, one) && isPossible(destination, one),
  );
}

function sum({ source, destination }: PolicyRule, count: (peer: PeerMatch) => number): number {
  return count(source) + count(destination);
}
