import { never } from '../../base/errors.ts';
import { getOrInsert } from '../../base/get-or-insert.ts';
import { noteChange } from '../../dataplane/changed-sets.ts';
import type { FilterSet } from '../../dataplane/policy-filter.ts';
import { digestOfText } from '../../dataplane/rule-digest.ts';
import { protocolNumber } from '../../model/protocol.ts';
import { type ServicePort, servicePortText } from '../../model/service-endpoints.ts';
import { type Address, FAMILIES, type Family, formatAddress } from '../../net/address.ts';
import { type Cidr, formatCidr } from '../../net/cidr.ts';
import type { MemberChange, PolicyView, TouchedPolicy } from '../policy-view.ts';
import { elementText, isSingle, MemberSet } from '../member-set.ts';
import { isContentTouched, keyOfContent, type SetContent } from '../set-content.ts';

const TCP = protocolNumber('TCP');

/** Sets of one content by their name in the table. */
type NamedSets = ReadonlyMap<string, FilterSet>;

interface KeptSets {
  readonly content: SetContent;
  sets: NamedSets;
}

/** The sets that rules look up, kept while their contents change. */
export class RuleSets {
  readonly #kept = new Map<string, KeptSets>();
  #view: PolicyView;

  constructor(view: PolicyView) {
    this.#view = view;
  }

  /**
   * Applies a change of the view. Returns whether a set came or went, so that rules have to be rendered again; elements
   * of sets that stay change without that.
   */
  update(view: PolicyView, touched: TouchedPolicy): boolean {
    this.#view = view;
    let isReshaped = false;
    for (const [key, kept] of this.#kept) {
      const { content } = kept;
      if (content.kind !== 'members' && content.kind !== 'nets') {
        // Read again when a rule still looks it up: users decide how large it is.
        if (isContentTouched(content, touched)) this.#kept.delete(key);
        continue;
      }
      const sets = this.#changed(content, kept.sets, touched);
      if (sets === undefined) continue;
      isReshaped ||= sets.size !== kept.sets.size || [...sets.keys()].some((name) => !kept.sets.has(name));
      kept.sets = sets;
    }
    return isReshaped;
  }

  /** Returns the sets of the content and family by name. Their kinds differ when some members are wider than one address. */
  of(content: SetContent, family: Family): readonly (readonly [string, FilterSet])[] {
    const sets = this.keep(keyOfContent(content), content);
    return [...sets].filter(([, set]) => 'family' in set && set.family === family);
  }

  /** Forgets the sets of other contents. Those of rendered rules must stay: a change of them may reshape the rules. */
  retain(keys: ReadonlySet<string>): void {
    for (const key of this.#kept.keys()) if (!keys.has(key)) this.#kept.delete(key);
  }

  /** Returns all sets of the content, of which the key is known. */
  keep(key: string, content: SetContent): NamedSets {
    return getOrInsert(this.#kept, key, () => ({ content, sets: this.#read(content) })).sets;
  }

  /** Returns how many elements the sets of the contents have. */
  sizeOf(contents: ReadonlyMap<string, SetContent>): number {
    let size = 0;
    for (const [key, content] of contents)
      for (const { elements } of this.keep(key, content).values()) size += elements.size;
    return size;
  }

  /** Returns the new sets of the content when the change affects them. */
  #changed(content: ReshapingContent, before: NamedSets, touched: TouchedPolicy): NamedSets | undefined {
    if (content.kind === 'nets') return isContentTouched(content, touched) ? this.#read(content) : undefined;
    const change = touched.selectors.get(content.selector.id);
    return change === undefined ? undefined : membersAfter(content, before, change);
  }

  #read(content: SetContent): NamedSets {
    switch (content.kind) {
      case 'members':
        return membersAfter(content, new Map(), {
          added: new Map(this.#view.membersOf(content.selector).map((cidr) => [elementText(cidr), cidr])),
          removed: new Map(),
          areNamedPortsTouched: false,
        });
      case 'nets':
        return netSets(content, this.#view.nodes.standInsFor(content.nets));
      case 'named port': {
        const { name, protocol } = content;
        const found = this.#view.namedPortsOf(name, protocol);
        return serviceSets(
          content,
          found.map(({ address, port }) => ({ address, protocol, port })),
        );
      }
      case 'service': {
        const { namespace, name } = content;
        return content.holds === 'ports'
          ? serviceSets(content, this.#view.services.portsOf(namespace, name))
          : addressSets(content, this.#view.services.addressesOf(namespace, name));
      }
      case 'guarded':
        return serviceSets(
          content,
          this.#view.guardedPorts().map((each) => ({ ...each, protocol: TCP })),
        );
      default:
        return never(content);
    }
  }
}

/** Contents whose sets come and go with what is in them. */
type ReshapingContent = Extract<SetContent, { readonly kind: 'members' | 'nets' }>;

function membersAfter(content: SetContent, before: NamedSets, change: MemberChange): NamedSets {
  const sets = new Map<string, FilterSet>();
  const [added, removed] = [bySet(change.added), bySet(change.removed)];
  for (const family of FAMILIES)
    for (const kind of ['addresses', 'nets'] as const) {
      const name = setNameOf(content, kind, family);
      const of = keyOfSet(kind, family);
      const old = before.get(name);
      const set =
        old !== undefined && !added.has(of) && !removed.has(of)
          ? old
          : withChanges({ kind, family, old, added: added.get(of) ?? [], removed: removed.get(of) ?? [] });
      // Ranges are rare, so their sets exist only with elements.
      if (kind === 'addresses' || set.elements.size > 0) sets.set(name, set);
    }
  return sets;
}

type MemberKind = 'addresses' | 'nets';

/** Returns the texts of the members by the set that they are in. */
function bySet(members: ReadonlyMap<string, Cidr>): ReadonlyMap<string, readonly string[]> {
  const texts = new Map<string, string[]>();
  for (const [text, cidr] of members)
    getOrInsert(texts, keyOfSet(isSingle(cidr) ? 'addresses' : 'nets', cidr.base.family), () => []).push(text);
  return texts;
}

function keyOfSet(kind: MemberKind, family: Family): string {
  return family === 4 ? kind : `${kind} v6`;
}

function netSets(content: SetContent & { readonly kind: 'nets' }, standIns: readonly Cidr[]): NamedSets {
  const sets = new Map<string, FilterSet>();
  for (const family of FAMILIES) {
    const isOfFamily = ({ base }: Cidr): boolean => base.family === family;
    if (!standIns.some(isOfFamily)) continue;
    const members = new MemberSet();
    for (const cidr of [...content.nets, ...standIns].filter(isOfFamily)) members.add(cidr);
    const elements = new Set(members.list().map(formatCidr));
    sets.set(setNameOf(content, 'nets', family), { kind: 'nets', family, elements });
  }
  return sets;
}

interface SetChange {
  readonly kind: MemberKind;
  readonly family: Family;
  readonly old: FilterSet | undefined;
  readonly added: readonly string[];
  readonly removed: readonly string[];
}

function withChanges({ kind, family, old, added, removed }: SetChange): FilterSet {
  const elements = new Set(old?.elements.keys());
  for (const text of removed) elements.delete(text);
  for (const text of added) elements.add(text);
  const set: FilterSet = { kind, family, elements };
  if (old !== undefined) noteChange(set, old, { added, removed });
  return set;
}

function addressSets(content: SetContent, addresses: readonly Address[]): NamedSets {
  return new Map(
    FAMILIES.map((family) => {
      const elements = new Set(addresses.filter((address) => address.family === family).map(formatAddress));
      return [setNameOf(content, 'addresses', family), { kind: 'addresses', family, elements }];
    }),
  );
}

function serviceSets(content: SetContent, ports: readonly ServicePort[]): NamedSets {
  return new Map(FAMILIES.map((family) => [setNameOf(content, 'services', family), serviceSet(family, ports)]));
}

/** Returns the set of the ports of the family. */
export function serviceSet(family: Family, ports: readonly ServicePort[]): FilterSet {
  const ofFamily = ports.filter(({ address }) => address.family === family);
  return { kind: 'services', family, elements: new Set(ofFamily.map(servicePortText)) };
}

function setNameOf(content: SetContent, kind: FilterSet['kind'], family: Family): string {
  return `${kind}-${digestOfText(keyOfContent(content))}-v${String(family)}`;
}
