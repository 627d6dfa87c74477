import { formatAddress } from '../../net/address.ts';
import { asksForRequests } from '../judge-request.ts';
import type { PolicyView, TouchedPolicy } from '../policy-view.ts';
import type { PolicyEndpoint, PolicyRule, ResolvedPolicy, ResolvedProfile } from '../resolved-policy.ts';
import type { FedSets } from './fed-sets.ts';
import type { FedEndpoint, FedPart } from './messages.ts';
import { type KnownFields, lowered, toWire } from './wire-rule.ts';

/** Entries of a set in one message. */
const MOST_ENTRIES = 5000;

/** What one pod's sidecar has been told of policies, and what it has to be told next. */
export class SidecarFeed {
  readonly #view: PolicyView;
  readonly #sets: FedSets;
  readonly #pod: string;
  readonly #known: KnownFields;
  #endpoint = '';
  #asks = false;
  readonly #policies = new Map<string, ResolvedPolicy>();
  readonly #profiles = new Map<string, ResolvedProfile>();
  /** Number of changes that each set had. */
  readonly #counts = new Map<string, number>();
  /** Rules that the sidecar's release does not know, by place, such as `NetworkPolicy shop/web, ingress[0]`. */
  readonly left = new Set<string>();

  /** `pod` is the key of its endpoint. */
  constructor(view: PolicyView, sets: FedSets, { pod, known }: { readonly pod: string; readonly known: KnownFields }) {
    this.#view = view;
    this.#sets = sets;
    this.#pod = pod;
    this.#known = known;
  }

  /** Keys of the sets that it needs. */
  get setKeys(): Iterable<string> {
    return this.#counts.keys();
  }

  /** Whether the sidecar has been told to judge requests. */
  get asks(): boolean {
    return this.#asks;
  }

  /** Whether the pod has been known, and was told of. */
  get hasBegun(): boolean {
    return this.#endpoint !== '';
  }

  isTouched(touched: TouchedPolicy, sets: ReadonlySet<string>): boolean {
    return (
      touched.endpoints.has(this.#pod) ||
      touched.policies.size + touched.profiles.size > 0 ||
      hasOneOf(this.#counts, sets)
    );
  }

  /** Returns what changed since the last call; all of it at first. Without an endpoint the pod has no policies yet. */
  next(): readonly FedPart[] {
    const endpoint = this.#view.endpoints.get(this.#pod);
    if (endpoint === undefined) return [];
    this.#asks ||= asksForRequests(this.#view, endpoint);
    const wanted = this.#wanted(endpoint);
    const owners = [...wanted.policies.values(), ...wanted.profiles.values()];
    const sets = new Set(owners.flatMap((owner) => this.#sets.keep(owner)));
    const parts: FedPart[] = [
      ...[...sets].flatMap((key) => this.#setParts(key)),
      ...this.#policyParts(wanted.policies),
      ...this.#profileParts(wanted.profiles),
    ];
    const fed = fedEndpoint(endpoint, { tiers: wanted.tiers, asks: this.#asks });
    const text = JSON.stringify(fed);
    if (text !== this.#endpoint) parts.push({ type: 'endpoint', endpoint: fed });
    this.#endpoint = text;
    for (const key of this.#counts.keys()) {
      if (sets.has(key)) continue;
      parts.push({ type: 'gone', what: 'set', key });
      this.#counts.delete(key);
    }
    return parts;
  }

  /** A pod that never had rules about requests needs none: its sidecar has nothing to judge. */
  #wanted(endpoint: PolicyEndpoint): Wanted {
    const policies = new Map<string, ResolvedPolicy>();
    const profiles = new Map<string, ResolvedProfile>();
    if (!this.#asks) return { tiers: [], policies, profiles };
    const tiers = this.#view.tiers.map((tier) => {
      const applied = this.#view.policiesOf(endpoint, tier, 'ingress');
      for (const policy of applied) policies.set(policy.id, policy);
      return { name: tier.name, defaultAction: tier.defaultAction, policies: applied.map(({ id }) => id) };
    });
    for (const name of endpoint.profiles) {
      const profile = this.#view.profile(name);
      if (profile !== undefined) profiles.set(name, profile);
    }
    return { tiers, policies, profiles };
  }

  #setParts(key: string): FedPart[] {
    const { isWhole, added, removed, count } = this.#sets.since(key, this.#counts.get(key));
    const isNew = !this.#counts.has(key);
    this.#counts.set(key, count);
    if (!isNew && !isWhole && added.length + removed.length === 0) return [];
    const pieces = Math.max(1, Math.ceil(Math.max(added.length, removed.length) / MOST_ENTRIES));
    return Array.from({ length: pieces }, (_, at) => {
      const [first, last] = [at * MOST_ENTRIES, (at + 1) * MOST_ENTRIES];
      return {
        type: 'set',
        key,
        isWhole: isWhole && at === 0,
        added: added.slice(first, last),
        removed: removed.slice(first, last),
      };
    });
  }

  #policyParts(wanted: ReadonlyMap<string, ResolvedPolicy>): FedPart[] {
    return changed(this.#policies, wanted).map(({ id, value }) =>
      value === undefined
        ? { type: 'gone', what: 'policy', key: id }
        : { type: 'policy', id, isStaged: value.isStaged, rules: this.#lowered(id, value.rules.ingress ?? []) },
    );
  }

  #profileParts(wanted: ReadonlyMap<string, ResolvedProfile>): FedPart[] {
    return changed(this.#profiles, wanted).map(({ id, value }) =>
      value === undefined
        ? { type: 'gone', what: 'profile', key: id }
        : { type: 'profile', name: id, rules: this.#lowered(`Profile ${id}`, value.rules.ingress) },
    );
  }

  #lowered(owner: string, rules: readonly PolicyRule[]): ReturnType<typeof toWire>[] {
    for (const place of this.left) if (place.startsWith(`${owner}, `)) this.left.delete(place);
    return rules.flatMap((rule) => {
      const part = lowered(rule, this.#known);
      if (part !== rule) this.left.add(`${owner}, ingress[${String(rule.index)}]`);
      return part === undefined ? [] : [toWire(part)];
    });
  }
}

interface Wanted {
  readonly tiers: FedEndpoint['tiers'];
  readonly policies: ReadonlyMap<string, ResolvedPolicy>;
  readonly profiles: ReadonlyMap<string, ResolvedProfile>;
}

function hasOneOf(known: ReadonlyMap<string, unknown>, touched: ReadonlySet<string>): boolean {
  return [...touched].some((each) => known.has(each));
}

/** Brings `sent` to what is wanted, and returns what differs; a value is undefined for what went. Equal objects are equal. */
function changed<T>(
  sent: Map<string, T>,
  wanted: ReadonlyMap<string, T>,
): { readonly id: string; readonly value: T | undefined }[] {
  const news = [...wanted].filter(([id, value]) => sent.get(id) !== value).map(([id, value]) => ({ id, value }));
  const gone = [...sent.keys()].filter((id) => !wanted.has(id)).map((id) => ({ id, value: undefined }));
  for (const { id } of gone) sent.delete(id);
  for (const { id, value } of news) sent.set(id, value);
  return [...news, ...gone];
}

function fedEndpoint(endpoint: PolicyEndpoint, which: Pick<FedEndpoint, 'tiers' | 'asks'>): FedEndpoint {
  const { key, shown, node, namespace = '', addresses, profiles } = endpoint;
  return { key, shown, node, namespace, addresses: addresses.map(formatAddress), profiles, ...which };
}
