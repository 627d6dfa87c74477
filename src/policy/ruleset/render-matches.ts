import type { FilterMatch, PacketSide } from '../../dataplane/policy-filter.ts';
import { FAMILIES, type Family } from '../../net/address.ts';
import { type Cidr, outermostCidrs } from '../../net/cidr.ts';
import { disjointRanges } from '../port-ranges.ts';
import type { IcmpMatch, PeerMatch, PolicyRule, PortMatch, PortRange } from '../resolved-policy.ts';
import { namedPorts, PORT_PROTOCOLS, type SetContent } from '../set-content.ts';
import type { RuleSets } from './rule-sets.ts';

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
    const { family, http } = this.#rule;
    const dependsOnFamily =
      family !== undefined || http !== undefined || SIDES.some((side) => namesAddresses(this.#rule[side]));
    if (SIDES.some((side) => isEmpty(this.#rule[side].ports))) return [];
    return this.#protocols().flatMap((protocols) => {
      if (!dependsOnFamily) return [this.#plain(protocols)];
      return FAMILIES.filter((one) => family === undefined || one === family).flatMap((one) =>
        this.#ofFamily(one, protocols),
      );
    });
  }

  #ofFamily(family: Family, protocols: Protocols): Alternatives {
    const always: Matches = [{ kind: 'family', family }, ...this.#plain(protocols)];
    return product([
      [always],
      ...this.#requests(family),
      ...SIDES.flatMap((side) => this.#peer(side, family, protocols)),
    ]);
  }

  /** Returns the protocols that the rule matches, in groups: ports and ICMP types are conditions for one group only. */
  #protocols(): readonly Protocols[] {
    const { protocol, icmp, notIcmp } = this.#rule;
    const needsPorts = SIDES.some((side) => this.#rule[side].ports !== undefined);
    const refusesPorts = SIDES.some((side) => this.#rule[side].notPorts !== undefined);
    const [withPorts, ofIcmp] = [
      { kind: 'ports', protocols: PORT_PROTOCOLS },
      { kind: 'icmp', protocols: ICMP_PROTOCOLS },
    ] as const;
    if (needsPorts && icmp !== undefined) return [];
    const outside = [...(refusesPorts ? PORT_PROTOCOLS : []), ...(notIcmp === undefined ? [] : ICMP_PROTOCOLS)];
    const groups: readonly Protocols[] =
      needsPorts || icmp !== undefined
        ? [needsPorts ? withPorts : ofIcmp]
        : [
            ...(refusesPorts ? [withPorts] : []),
            ...(notIcmp === undefined ? [] : [ofIcmp]),
            { kind: 'other', outside },
          ];
    if (protocol === undefined) return groups;
    const group = groups.find((one) =>
      'protocols' in one ? one.protocols.includes(protocol) : !one.outside.includes(protocol),
    );
    return group === undefined ? [] : [{ kind: group.kind, protocols: [protocol] }];
  }

  /** Returns matches that do not depend on the family. */
  #plain(group: Protocols): Matches {
    const { notProtocol, icmp, notIcmp } = this.#rule;
    return [
      ...protocolMatch(group),
      ...(notProtocol === undefined ? [] : [{ kind: 'protocol', protocols: [notProtocol], isNegated: true } as const]),
      ...(group.kind === 'icmp' && icmp !== undefined ? [icmpMatch(icmp, false)] : []),
      ...(group.kind === 'icmp' && notIcmp !== undefined ? [icmpMatch(notIcmp, true)] : []),
      ...(group.kind === 'ports' ? SIDES.flatMap((side) => plainPorts(side, this.#rule[side])) : []),
    ];
  }

  /** The kernel sees no requests: it lets connections begin where something looks at all that they carry. */
  #requests(family: Family): readonly Alternatives[] {
    if (this.#rule.http === undefined) return [];
    const guarded = this.#lookUps({ kind: 'guarded' }, 'destination', family);
    return [guarded.map((match): Matches => [{ kind: 'tcp opening' }, match])];
  }

  /** Returns a list of alternatives for each condition of a peer. */
  #peer(side: PacketSide, family: Family, { kind }: Protocols): readonly Alternatives[] {
    const peer = this.#rule[side];
    const conditions: Alternatives[] = [];
    if (peer.nets !== undefined) conditions.push(this.#nets(side, family, { nets: peer.nets, isNegated: false }));
    if (peer.notNets !== undefined) conditions.push(this.#nets(side, family, { nets: peer.notNets, isNegated: true }));
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
        ...this.#names(peer.ports, side, family).map((match) => [match]),
      ]);
    if (kind === 'ports' && peer.notPorts !== undefined && peer.notPorts.names.length > 0) {
      const inside = this.#names(peer.notPorts, side, family);
      conditions.push([inside.map((match) => ({ ...match, isNegated: true }))]);
    }
    return conditions;
  }

  /** Networks with nodes in them need a set, because nodes come and go. */
  #nets(side: PacketSide, family: Family, { nets, isNegated }: NetsCondition): Alternatives {
    const looked = this.#lookUps({ kind: 'nets', nets }, side, family);
    if (looked.length === 0) return netsMatch(side, family, { nets, isNegated });
    return [looked.map((match) => (isNegated ? { ...match, isNegated } : match))];
  }

  #names(match: PortMatch, side: PacketSide, family: Family): readonly LookUpMatch[] {
    return namedPorts(match, this.#rule.protocol).flatMap((content) => this.#lookUps(content, side, family));
  }

  /** Returns a match for each set of the content. */
  #lookUps(content: SetContent, side: PacketSide, family: Family): readonly LookUpMatch[] {
    this.contents.push(content);
    return this.#sets
      .of(content, family)
      .map(([set, { kind }]) => ({ kind: kind === 'services' ? 'service' : 'member', side, family, set }));
  }
}

interface NetsCondition {
  readonly nets: readonly Cidr[];
  readonly isNegated: boolean;
}

type LookUpMatch = FilterMatch & { readonly kind: 'member' | 'service' };

/** Protocols of a group: those, or all but those. */
type Protocols =
  | { readonly kind: 'ports' | 'icmp' | 'other'; readonly protocols: readonly number[] }
  | { readonly kind: 'other'; readonly outside: readonly number[] };

function protocolMatch(group: Protocols): Matches {
  if ('protocols' in group) return [{ kind: 'protocol', protocols: group.protocols }];
  return group.outside.length === 0 ? [] : [{ kind: 'protocol', protocols: group.outside, isNegated: true }];
}

/** Also named ports are looked up by address. */
function namesAddresses({ nets, notNets, selector, notSelector, service, ports, notPorts }: PeerMatch): boolean {
  const isSet = [nets, notNets, selector, notSelector, service].some((condition) => condition !== undefined);
  return isSet || (ports?.names.length ?? 0) > 0 || (notPorts?.names.length ?? 0) > 0;
}

function isEmpty(ports: PortMatch | undefined): boolean {
  return ports !== undefined && ports.ranges.length + ports.names.length === 0;
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
  return [{ kind: 'ports', side, spans: disjointRanges(ranges), ...(isNegated ? { isNegated } : {}) }];
}

function icmpMatch({ type, code }: IcmpMatch, isNegated: boolean): FilterMatch {
  const negation = isNegated ? { isNegated } : {};
  return code === undefined
    ? { kind: 'icmp', types: [type], ...negation }
    : { kind: 'icmp code', type, code, ...negation };
}

/** A family that the list does not mention is outside of all its CIDRs. */
function netsMatch(side: PacketSide, family: Family, { nets, isNegated }: NetsCondition): Alternatives {
  const ofFamily = outermostCidrs(nets.filter(({ base }) => base.family === family));
  const isEverything = ofFamily.some(({ prefixBits }) => prefixBits === 0);
  if (ofFamily.length === 0 || isEverything) return isEverything !== isNegated ? [[]] : [];
  return [[{ kind: 'nets', side, family, nets: ofFamily, ...(isNegated ? { isNegated } : {}) }]];
}

/** Returns one list of matches for each choice of an alternative of every condition. */
function product(conditions: readonly Alternatives[]): Alternatives {
  return conditions.reduce<Alternatives>(
    (chosen, alternatives) => chosen.flatMap((matches) => alternatives.map((more) => [...matches, ...more])),
    [[]],
  );
}
