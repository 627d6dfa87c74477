import { getOrInsert } from '../../base/get-or-insert.ts';
import type { FilterChain, FilterSet } from '../../dataplane/policy-filter.ts';
import { reachedPolicies } from '../closed-rules.ts';
import { rulesAt } from '../evaluate.ts';
import { hasDefault, type PacketPath, policiesOn } from '../packet-path.ts';
import type { PolicyView, TouchedPolicy } from '../policy-view.ts';
import type {
  PolicyDirection,
  PolicyEndpoint,
  PolicyTier,
  ResolvedPolicy,
  ResolvedProfile,
} from '../resolved-policy.ts';
import { BASE_ORIGINS, FROM_PODS, TO_PODS, baseChains, limitSets } from './base-chains.ts';
import { ownerKey, UnusableRules } from '../unusable-rules.ts';
import { ENDED_SETS } from './ended-flows.ts';
import { HostChains, type HostRuleset } from './host-chains.ts';
import {
  type HostLinks,
  POLICY_TABLE,
  type PolicyRuleset,
  type RuleOrigin,
  type RulesetSettings,
} from './policy-ruleset.ts';
import {
  acceptChain,
  ALLOW,
  type RenderedChain,
  chainOf,
  denyChain,
  renderRuleList,
  type RuleList,
  stagedChain,
} from './render-rules.ts';
import { idOfOrigin } from './rule-ids.ts';
import { chainsWithoutLogs, withoutLogs } from './without-logs.ts';
import { RuleSets } from './rule-sets.ts';
import { UnusedChains } from './unused-chains.ts';

const BASE_RULES = BASE_ORIGINS.map((origin) => [idOfOrigin(origin), origin] as const);
const DIRECTIONS: readonly PolicyDirection[] = ['egress', 'ingress'];

/** Packets of one direction at an endpoint. */
interface RenderedEnd {
  readonly endpoint: PolicyEndpoint;
  readonly direction: PolicyDirection;
  /** `local` at a pod. */
  readonly path: PacketPath;
}

/** Chains that packets of an interface go to, by direction. */
type Entries = Readonly<Record<PolicyDirection, RenderedChain>>;

/** Facts on which the chains of a tier depend besides its policies. */
interface TierContext {
  readonly end: RenderedEnd;
  /** The next tier, after the last the profiles. */
  readonly next: RenderedChain;
  /** Whether a policy of the tier that applies is not staged. */
  readonly isEnforced: boolean;
}

/**
 * Compiles what a view says about the pods and the interfaces of one node. Later calls render only what changed: chains are cached by
 * what they were rendered from, and unchanged chains and sets stay the same objects.
 */
export class RulesetCompiler {
  readonly #settings: RulesetSettings;
  readonly #bases: ReadonlyMap<string, FilterChain>;
  #sets: RuleSets | undefined;
  /** By interface. */
  #entries = new Map<string, Entries>();
  /** Interface by key of the endpoint. */
  #interfaces = new Map<string, string>();
  #rendered = new Rendered();
  readonly #unused = new UnusedChains();
  /** Chains of the table by name, with the rules they were made from. */
  #chains: ReadonlyMap<string, FilterChain> = new Map();
  #maps: readonly (readonly [string, FilterSet])[] = [];
  readonly #hostChains: HostChains;
  #host: HostRuleset | undefined;
  #facts: HostLinks | undefined;

  constructor(settings: RulesetSettings) {
    this.#settings = settings;
    this.#hostChains = new HostChains(settings, (view, end) => this.#renderTiers(view, end));
    this.#bases = chainsWithoutLogs(baseChains(settings.endpointToHostAction, settings.podLinks), settings.missingLogs);
  }

  /** Sets the interfaces and addresses of the host for later compilations, which leave host endpoints out until then. */
  useHost(facts: HostLinks): void {
    this.#facts = facts;
    this.#host = undefined;
  }

  /**
   * Compiles the view. With `touched`, since the last call only that changed. After a failure, call it without.
   * @throws UnusableRules
   */
  compile(view: PolicyView, touched?: TouchedPolicy): PolicyRuleset {
    const sets = this.#sets;
    const isFresh = touched === undefined || sets === undefined;
    const isReshaped = isFresh || sets.update(view, touched);
    this.#sets = isFresh ? new RuleSets(view) : sets;
    if (isReshaped) {
      this.#rendered = new Rendered();
      // Their rules may look up a set that is gone.
      this.#unused.clear();
    }
    const isEveryEndpoint = isReshaped || touched.policies.size + touched.profiles.size > 0;
    if (isEveryEndpoint) this.#renderAll(view);
    else for (const key of touched.endpoints) this.#renderEndpoint(view, key);
    if (this.#host === undefined) this.#host = this.#hostChains.render(view, this.#facts);
    return this.#assemble(this.#host);
  }

  /** Leaves out, from the next compilation on, what has not been used since the last call. Reports whether that is anything. */
  dropUnused(): boolean {
    return this.#unused.age();
  }

  #renderAll(view: PolicyView): void {
    this.#rendered.beginGeneration();
    this.#entries = new Map();
    this.#interfaces = new Map();
    for (const key of view.endpoints.keys()) this.#renderEndpoint(view, key);
    this.#host = this.#hostChains.render(view, this.#facts);
    this.#rendered.endGeneration();
    this.#ruleSets().retain(this.#rendered.contentKeys());
  }

  #renderEndpoint(view: PolicyView, key: string): void {
    const before = this.#interfaces.get(key);
    const endpoint = view.endpoints.get(key);
    if (this.#hostChains.isAffectedBy(key, endpoint)) this.#host = undefined;
    const after = endpoint !== undefined && this.#isLocalPod(endpoint) ? endpoint.interfaceName : undefined;
    if (after === undefined) this.#interfaces.delete(key);
    else this.#interfaces.set(key, after);
    for (const interfaceName of new Set([before, after]))
      if (interfaceName !== undefined) this.#renderInterface(view, interfaceName);
  }

  /** Renders the chains of an interface. If several endpoints have it, which should not happen, the first by key counts. */
  #renderInterface(view: PolicyView, interfaceName: string): void {
    const before = this.#entries.get(interfaceName);
    if (before !== undefined)
      for (const direction of DIRECTIONS)
        this.#unused.add(before[direction], (contents) => this.#ruleSets().sizeOf(contents));
    this.#entries.delete(interfaceName);
    const keys = [...this.#interfaces].filter(([, name]) => name === interfaceName).map(([key]) => key);
    const [first = ''] = keys.toSorted();
    const endpoint = view.endpoints.get(first);
    if (endpoint === undefined) return;
    this.#entries.set(interfaceName, {
      egress: this.#renderTiers(view, { endpoint, direction: 'egress', path: 'local' }),
      ingress: this.#renderTiers(view, { endpoint, direction: 'ingress', path: 'local' }),
    });
  }

  #isLocalPod(endpoint: PolicyEndpoint): endpoint is PolicyEndpoint & { readonly interfaceName: string } {
    return (
      endpoint.kind === 'workload' && endpoint.node === this.#settings.node && endpoint.interfaceName !== undefined
    );
  }

  /** Renders from the last tier to the first, because each chain names the one to which it passes. */
  #renderTiers(view: PolicyView, end: RenderedEnd): RenderedChain {
    let next: RenderedChain | undefined;
    for (const tier of view.tiers.toReversed()) {
      const policies = reachedPolicies(policiesOn(view, { ...end, tier }), end.direction);
      if (policies.length === 0) continue;
      next ??= this.#renderLast(view, end);
      next = this.#renderTier(policies, { tier, end, next });
    }
    return next ?? this.#renderLast(view, end);
  }

  /** Profiles decide only where a packet begins or ends. */
  #renderLast(view: PolicyView, { endpoint, direction, path }: RenderedEnd): RenderedChain {
    return path === 'local' ? this.#renderProfiles(view, endpoint, direction) : acceptChain();
  }

  #renderTier(
    policies: readonly ResolvedPolicy[],
    { tier, end, next }: { readonly tier: PolicyTier; readonly end: RenderedEnd; readonly next: RenderedChain },
  ): RenderedChain {
    const isEnforced = policies.some(({ isStaged }) => !isStaged);
    const context = { end, next, isEnforced };
    const chains = policies.map((policy) => this.#renderPolicy(policy, context));
    return this.#rendered.sequence('tier', chains, this.#endOfTier(policies, tier, context));
  }

  /** Returns where packets go that no policy of the tier decides. */
  #endOfTier(
    policies: readonly ResolvedPolicy[],
    { name, defaultAction }: PolicyTier,
    { end: { direction, path }, next, isEnforced }: TierContext,
  ): RenderedChain {
    if (defaultAction !== 'Deny' || !hasDefault(path)) return next;
    const forwarded = path === 'forwarded' ? ({ isForwarded: true } as const) : {};
    if (isEnforced) return denyChain({ kind: 'tier', name, direction, ...forwarded });
    return stagedChain({ kind: 'staged tier', name, direction, policies: policies.map(({ id }) => id) }, next);
  }

  #renderPolicy(
    policy: ResolvedPolicy,
    { end: { endpoint, direction, path }, next, isEnforced }: TierContext,
  ): RenderedChain {
    const rules = rulesAt(endpoint, policy.rules[direction] ?? []);
    const passes = policy.isStaged ? !isEnforced : rules.some(({ action }) => action === 'Pass');
    const pass = passes ? next : undefined;
    return this.#rendered.list(policy, `${direction} ${path} ${endpoint.kind} ${pass?.name ?? ''}`, () =>
      this.#renderRules(
        { owner: { kind: 'policy', name: policy.id }, direction, rules, isStaged: policy.isStaged },
        path,
        pass,
      ),
    );
  }

  #renderProfiles(view: PolicyView, endpoint: PolicyEndpoint, direction: PolicyDirection): RenderedChain {
    const profiles = endpoint.profiles.map((name) => view.profile(name)).filter((profile) => profile !== undefined);
    const chains = profiles.map((profile) => this.#renderProfile(profile, endpoint, direction));
    return this.#rendered.sequence('profiles', chains, denyChain({ kind: 'profiles', direction }));
  }

  #renderProfile(profile: ResolvedProfile, endpoint: PolicyEndpoint, direction: PolicyDirection): RenderedChain {
    const rules = rulesAt(endpoint, profile.rules[direction]);
    return this.#rendered.list(profile, `${direction} ${endpoint.kind}`, () =>
      this.#renderRules(
        { owner: { kind: 'profile', name: profile.name }, direction, rules, isStaged: false },
        'local',
        undefined,
      ),
    );
  }

  /** @throws UnusableRules */
  #renderRules(list: RuleList, path: PacketPath, pass: RenderedChain | undefined): RenderedChain {
    try {
      return renderRuleList(list, {
        sets: this.#ruleSets(),
        logPrefix: this.#settings.logPrefix,
        allow: ALLOW[path],
        pass,
      });
    } catch (cause) {
      throw new UnusableRules(list.owner, cause);
    }
  }

  #ruleSets(): RuleSets {
    const sets = this.#sets;
    if (sets === undefined) throw new Error('nothing was compiled yet');
    return sets;
  }

  /** Collects what the entries of the interfaces lead to. */
  #assemble(host: HostRuleset): PolicyRuleset {
    const collected = new Collected();
    for (const entries of this.#entries.values()) for (const direction of DIRECTIONS) collected.add(entries[direction]);
    for (const chain of [...host.next, ...this.#unused.list()]) collected.add(chain);
    const chains = new Map<string, FilterChain>([...this.#bases, ...host.chains]);
    // The name is a digest of the rules.
    for (const [name, { rules }] of collected.chains)
      chains.set(name, this.#chains.get(name) ?? { rules: withoutLogs(rules, this.#settings.missingLogs) });
    for (const [interfaceName, entries] of this.#entries)
      for (const direction of DIRECTIONS) {
        const name = entryName(direction, interfaceName);
        chains.set(name, this.#keptEntry(name, entries[direction]));
      }
    this.#chains = chains;
    this.#maps = this.#keptMaps();
    const { sets, owners } = this.#lookedUpBy(collected);
    const origins = new Map([...collected.origins, ...BASE_RULES]);
    const limits = this.#settings.missingLogs?.has('report') === true ? [] : limitSets(origins.values());
    return {
      table: {
        name: POLICY_TABLE,
        chains,
        sets: new Map([...this.#maps, ...ENDED_SETS, ...limits, ...host.sets, ...sets]),
        owners,
      },
      origins,
    };
  }

  /** Returns the sets that the chains look up, and the owner of each chain and set: of a set that several look up, the first one. */
  #lookedUpBy({ chains }: Collected): {
    readonly sets: ReadonlyMap<string, FilterSet>;
    readonly owners: ReadonlyMap<string, string>;
  } {
    const sets = new Map<string, FilterSet>();
    const owners = new Map<string, string>();
    const [seen, owned] = [new Set<string>(), new Set<string>()];
    for (const { name, owner, contents } of chains.values()) {
      const ownerText = owner === undefined ? undefined : ownerKey(owner);
      if (ownerText !== undefined) owners.set(name, ownerText);
      for (const [key, content] of contents) {
        if (ownerText === undefined ? seen.has(key) : owned.has(key)) continue;
        seen.add(key);
        if (ownerText !== undefined) owned.add(key);
        for (const [set, filter] of this.#ruleSets().keep(key, content)) {
          sets.set(set, filter);
          if (ownerText !== undefined) owners.set(set, ownerText);
        }
      }
    }
    return { sets, owners };
  }

  /** The chain of an interface is stable, so that another class of policies changes no element of a map. */
  #keptEntry(name: string, entry: RenderedChain): FilterChain {
    const kept = this.#chains.get(name);
    const goes = kept?.rules[0]?.parts[0];
    if (kept !== undefined && goes?.kind === 'goto' && goes.chain === entry.name) return kept;
    return { rules: [{ id: 'policies', parts: [{ kind: 'goto', chain: entry.name }] }] };
  }

  #keptMaps(): readonly (readonly [string, FilterSet])[] {
    const names = [...this.#entries.keys()];
    const [kept] = this.#maps;
    if (kept?.[1].elements.size === names.length && names.every((name) => kept[1].elements.has(name)))
      return this.#maps;
    const mapOf = (direction: PolicyDirection): FilterSet => ({
      kind: 'interfaces',
      elements: new Map(names.map((name) => [name, entryName(direction, name)])),
    });
    return [
      [FROM_PODS, mapOf('egress')],
      [TO_PODS, mapOf('ingress')],
    ];
  }
}

function entryName(direction: PolicyDirection, interfaceName: string): string {
  return `${direction}-${interfaceName}`;
}

/** Rendered chains, kept while what they were rendered from is in use. */
class Rendered {
  #lists = new Map<ResolvedPolicy | ResolvedProfile, Map<string, RenderedChain>>();
  #sequences = new Map<string, RenderedChain>();
  #oldLists = this.#lists;
  #oldSequences = this.#sequences;

  /** Entries that are not used until the generation ends are evicted. */
  beginGeneration(): void {
    [this.#oldLists, this.#lists] = [this.#lists, new Map()];
    [this.#oldSequences, this.#sequences] = [this.#sequences, new Map()];
  }

  endGeneration(): void {
    [this.#oldLists, this.#oldSequences] = [this.#lists, this.#sequences];
  }

  /** Returns the keys of what the rules of all kept lists look up. */
  contentKeys(): ReadonlySet<string> {
    const keys = new Set<string>();
    for (const variants of this.#lists.values())
      for (const { contents } of variants.values()) for (const key of contents.keys()) keys.add(key);
    return keys;
  }

  /** Returns the chain of the rules of the owner; `variant` names what else it depends on. */
  list(owner: ResolvedPolicy | ResolvedProfile, variant: string, render: () => RenderedChain): RenderedChain {
    const variants = getOrInsert(this.#lists, owner, () => new Map<string, RenderedChain>());
    return getOrInsert(variants, variant, () => this.#oldLists.get(owner)?.get(variant) ?? render());
  }

  /** Returns a chain that jumps to each chain, and then goes to the last one. */
  sequence(prefix: string, chains: readonly RenderedChain[], last: RenderedChain): RenderedChain {
    const key = [prefix, ...chains.map(({ name }) => name), last.name].join(' ');
    return getOrInsert(this.#sequences, key, () => this.#oldSequences.get(key) ?? sequenceOf(prefix, chains, last));
  }
}

function sequenceOf(prefix: string, chains: readonly RenderedChain[], last: RenderedChain): RenderedChain {
  // A chain without rules decides nothing.
  const used = chains.filter(({ rules }) => rules.length > 0);
  const jumps = used.map(({ name }) => ({ id: prefix, parts: [{ kind: 'jump', chain: name } as const] }));
  const end = { id: `${prefix}-end`, parts: [{ kind: 'goto', chain: last.name } as const] };
  return chainOf(prefix, [...jumps, end], { next: [...used, last] });
}

class Collected {
  readonly chains = new Map<string, RenderedChain>();
  readonly origins = new Map<string, RuleOrigin>();

  add(chain: RenderedChain): void {
    if (this.chains.has(chain.name)) return;
    this.chains.set(chain.name, chain);
    for (const [id, origin] of chain.origins) this.origins.set(id, origin);
    for (const next of chain.next) this.add(next);
  }
}
