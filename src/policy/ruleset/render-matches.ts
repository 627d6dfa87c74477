import type { FilterMatch, PacketSide, PortSpan } from '../../dataplane/policy-filter.ts';
import { FAMILIES, type Family } from '../../net/address.ts';
import { type Cidr, cidrContains, compareCidrs } from '../../net/cidr.ts';
import type { IcmpMatch, PeerMatch, PolicyRule, PortMatch, PortRange } from '../resolved-policy.ts';
import { PORT_PROTOCOLS, type RuleSets, type SetContent } from './rule-sets.ts';

const SIDES: readonly PacketSide[] = ['source', 'destination'];
const ICMP_PROTOCOLS: readonly number[] = [1, 58];

/** Conditions that all hold. */
type Matches = readonly FilterMatch[];

/** One of them holds. None: the rule matches no packet. */
type Alternatives = readonly Matches[];

export interface RenderedMatches {
  readonly alternatives: Alternatives;
  /** Contents of the sets that the matches look up. */
  readonly contents: readonly SetContent[];
}

/**
 * Renders what a rule matches. One rule of nftables looks at one family, and cannot say "in one of two sets", so a rule
 * may need several.
 */
export function renderMatches(rule: PolicyRule, sets: RuleSets): RenderedMatches {
  const renderer = new MatchRenderer(rule, sets);
  return { alternatives: renderer.render(), contents: renderer.contents };
}

class MatchRenderer {
  readonly contents: SetContent[] = [];
  readonly #rule: PolicyRule;
  readonly #sets: RuleSets;

  constructor(rule: PolicyRule, sets: RuleSets) {
    this.#rule = rule;
    this.#sets = sets;
  }

  render(): Alternatives {
    const { family } = this.#rule;
    if (SIDES.some((side) => isEmpty(this.#rule[side].ports))) return [];
    if (family === undefined && !SIDES.some((side) => dependsOnFamily(this.#rule[side]))) return [this.#protocols()];
    return FAMILIES.filter((one) => family === undefined || one === family).flatMap((one) => this.#ofFamily(one));
  }

  #ofFamily(family: Family): Alternatives {
    const always: Matches = [{ kind: 'family', family }, ...this.#protocols()];
    return product([[always], ...SIDES.flatMap((side) => this.#peer(side, family))]);
  }

  /** Returns matches that do not depend on the family. */
  #protocols(): Matches {
    const { protocol, notProtocol, icmp, notIcmp } = this.#rule;
    const hasPorts = SIDES.some((side) => usesPorts(this.#rule[side]));
    const implied = hasPorts
      ? PORT_PROTOCOLS
      : icmp !== undefined || notIcmp !== undefined
        ? ICMP_PROTOCOLS
        : undefined;
    const protocols = protocol === undefined ? implied : [protocol];
    return [
      ...(protocols === undefined ? [] : [{ kind: 'protocol', protocols } as const]),
      ...(notProtocol === undefined ? [] : [{ kind: 'protocol', protocols: [notProtocol], isNegated: true } as const]),
      ...(icmp === undefined ? [] : [icmpMatch(icmp, false)]),
      ...(notIcmp === undefined ? [] : [icmpMatch(notIcmp, true)]),
      ...SIDES.flatMap((side) => plainPorts(side, this.#rule[side])),
    ];
  }

  /** Returns a list of alternatives for each condition of a peer. */
  #peer(side: PacketSide, family: Family): readonly Alternatives[] {
    const peer = this.#rule[side];
    const conditions: Alternatives[] = [];
    if (peer.nets !== undefined) conditions.push(netsMatch(side, family, { nets: peer.nets, isNegated: false }));
    if (peer.notNets !== undefined) conditions.push(netsMatch(side, family, { nets: peer.notNets, isNegated: true }));
    if (peer.selector !== undefined)
      conditions.push(
        this.#lookUps({ kind: 'members', selector: peer.selector }, side, family).map((match) => [match]),
      );
    if (peer.notSelector !== undefined) {
      const inside = this.#lookUps({ kind: 'members', selector: peer.notSelector }, side, family);
      conditions.push([inside.map((match) => ({ ...match, isNegated: true }))]);
    }
    if (peer.service !== undefined) {
      // The source port of a packet that a service sends is no port of the service in a rule about its clients.
      const holds = side === 'destination' ? 'ports' : 'addresses';
      const content: SetContent = { kind: 'service', ...peer.service, holds };
      conditions.push(this.#lookUps(content, side, family).map((match) => [match]));
    }
    if (peer.ports !== undefined && peer.ports.names.length > 0)
      conditions.push([
        ...rangesMatch(side, peer.ports),
        ...this.#names(peer.ports.names, side, family).map((match) => [match]),
      ]);
    if (peer.notPorts !== undefined && peer.notPorts.names.length > 0) {
      const inside = this.#names(peer.notPorts.names, side, family);
      conditions.push([inside.map((match) => ({ ...match, isNegated: true }))]);
    }
    return conditions;
  }

  #names(names: readonly string[], side: PacketSide, family: Family): readonly LookUpMatch[] {
    const { protocol } = this.#rule;
    const protocols = protocol === undefined ? PORT_PROTOCOLS : [protocol];
    const { selector } = this.#rule[side];
    return names.flatMap((name) =>
      protocols.flatMap((one) => {
        const content: SetContent = { kind: 'named port', name, protocol: one };
        return this.#lookUps(selector === undefined ? content : { ...content, selector }, side, family);
      }),
    );
  }

  /** Returns a match for each set of the content. */
  #lookUps(content: SetContent, side: PacketSide, family: Family): readonly LookUpMatch[] {
    this.contents.push(content);
    return this.#sets
      .of(content, family)
      .map(([set, { kind }]) => ({ kind: kind === 'services' ? 'service' : 'member', side, family, set }));
  }
}

type LookUpMatch = FilterMatch & { readonly kind: 'member' | 'service' };

function dependsOnFamily({ nets, notNets, selector, notSelector, service, ports, notPorts }: PeerMatch): boolean {
  const isSet = [nets, notNets, selector, notSelector, service].some((condition) => condition !== undefined);
  return isSet || (ports?.names.length ?? 0) > 0 || (notPorts?.names.length ?? 0) > 0;
}

function isEmpty(ports: PortMatch | undefined): boolean {
  return ports !== undefined && ports.ranges.length + ports.names.length === 0;
}

function usesPorts({ ports, notPorts }: PeerMatch): boolean {
  return ports !== undefined || notPorts !== undefined;
}

/** Returns the ports that need no set of their own. Ranges beside names are alternatives to them. */
function plainPorts(side: PacketSide, { ports, notPorts }: PeerMatch): Matches {
  const wanted = ports === undefined || ports.names.length > 0 ? [] : spansMatch(side, ports.ranges, false);
  return [
    ...wanted,
    ...(notPorts === undefined || notPorts.ranges.length === 0 ? [] : spansMatch(side, notPorts.ranges, true)),
  ];
}

function rangesMatch(side: PacketSide, { ranges }: PortMatch): Alternatives {
  return ranges.length === 0 ? [] : [spansMatch(side, ranges, false)];
}

function spansMatch(side: PacketSide, ranges: readonly PortRange[], isNegated: boolean): Matches {
  return [{ kind: 'ports', side, spans: disjointSpans(ranges), ...(isNegated ? { isNegated } : {}) }];
}

function disjointSpans(ranges: readonly PortRange[]): readonly PortSpan[] {
  const spans: { first: number; last: number }[] = [];
  for (const { first, last } of ranges.toSorted((a, b) => a.first - b.first)) {
    const before = spans.at(-1);
    if (before !== undefined && first <= before.last + 1) before.last = Math.max(before.last, last);
    else spans.push({ first, last });
  }
  return spans;
}

function icmpMatch({ type, code }: IcmpMatch, isNegated: boolean): FilterMatch {
  const negation = isNegated ? { isNegated } : {};
  return code === undefined
    ? { kind: 'icmp', types: [type], ...negation }
    : { kind: 'icmp code', type, code, ...negation };
}

/** A family that the list does not mention is outside of all its CIDRs. */
function netsMatch(
  side: PacketSide,
  family: Family,
  { nets, isNegated }: { readonly nets: readonly Cidr[]; readonly isNegated: boolean },
): Alternatives {
  const ofFamily = outermost(nets.filter(({ base }) => base.family === family));
  const isEverything = ofFamily.some(({ prefixBits }) => prefixBits === 0);
  if (ofFamily.length === 0 || isEverything) return isEverything !== isNegated ? [[]] : [];
  return [[{ kind: 'nets', side, family, nets: ofFamily, ...(isNegated ? { isNegated } : {}) }]];
}

/** Returns the CIDRs that are in no other one: an interval set refuses overlaps. */
function outermost(cidrs: readonly Cidr[]): readonly Cidr[] {
  const kept: Cidr[] = [];
  for (const cidr of cidrs.toSorted(compareCidrs)) {
    const last = kept.at(-1);
    if (last === undefined || !cidrContains(last, cidr)) kept.push(cidr);
  }
  return kept;
}

/** Returns one list of matches for each choice of an alternative of every condition. */
function product(conditions: readonly Alternatives[]): Alternatives {
  return conditions.reduce<Alternatives>(
    (chosen, alternatives) => chosen.flatMap((matches) => alternatives.map((more) => [...matches, ...more])),
    [[]],
  );
}
