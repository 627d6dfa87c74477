import { never, reasonOf } from '../base/errors.ts';
import { OneToMany } from '../base/one-to-many.ts';
import { pack, type Packed, unpack } from '../base/packed.ts';
import { digestOfText } from '../dataplane/rule-digest.ts';
import type { AnyResource } from '../model/kinds.ts';
import { fromNamespace } from '../model/from-kubernetes/profiles.ts';
import {
  derivedOriginal,
  NAMESPACE_LABEL,
  NAMESPACE_NAME_LABEL,
  namespaceProfile,
  SERVICE_ACCOUNT_LABEL,
  serviceAccountProfile,
} from '../model/policy-names.ts';
import { DEFAULT_ALLOW } from '../model/profile.ts';
import type { Node } from '../model/node.ts';
import { fullId, type ResourceId } from '../model/resource-id.ts';
import { evaluateSelector, type Labels, MOST_LABELS } from '../model/selector.ts';
import { type Address, addressKey, sameAddress } from '../net/address.ts';
import { type Cidr, cidrContains, hostCidr } from '../net/cidr.ts';
import { AddressClaims, type AddressStanding } from './address-claims.ts';
import { closedPolicy, closedProfile, closedText } from './closed-rules.ts';
import { AppliedPolicies } from './applied-policies.ts';
import { EndpointIndex, type EndpointItem } from './endpoint-index.ts';
import { MemberSet } from './member-set.ts';
import { NodeIndex } from './node-index.ts';
import { type BudgetClaim, type BudgetLimits, PolicyBudgets } from './policy-budgets.ts';
import { type PolicyChange, type ChangedResource, unreadable, unreadableResource } from './policy-change.ts';
import { GuardIndex } from './guard-index.ts';
import type { AddressPort, PolicyView, TouchedPolicy } from './policy-view.ts';
import type {
  Account,
  PeerSelector,
  PolicyDirection,
  PolicyEndpoint,
  PolicyRule,
  PolicyTier,
  ResolvedPolicy,
  ResolvedProfile,
} from './resolved-policy.ts';
import {
  hostKey,
  labelsOf,
  type Selectable,
  selectableHost,
  selectableSet,
  selectableWorkload,
  setKey,
} from './resolve-endpoint.ts';
import { type OrderedPolicy, policyId, resolvePolicy, resolveProfile } from './resolve-policy.ts';
import { ServiceIndex } from './service-index.ts';
import type { SetContent } from './set-content.ts';
import { noTouches, type Touches, unsettleAround } from './touches.ts';
import { cidrsFor, TrackedSelectors } from './tracked-selectors.ts';
import { ownerKey, type RuleOwner } from './unusable-rules.ts';

/** Shared by all that have none. */
const NO_CIDRS: readonly Cidr[] = [];

interface KnownProfile {
  readonly resolved: ResolvedProfile;
  readonly labels: Labels;
  /** Digest of the rules, to see what changed. */
  readonly rules: string;
}

/** The last change of a policy, which is read again when its budgets change. */
interface KeptChange {
  readonly which: ResourceId;
  readonly value: AnyResource | Packed<AnyResource | undefined> | undefined;
  readonly problem?: string | undefined;
}

/** Policies of a cluster, resolved and kept by changes of records. The cost of a change depends on what it touches. */
export class PolicyState implements PolicyView {
  readonly endpoints = new Map<string, PolicyEndpoint>();
  readonly hostEndpoints = new Map<string, PolicyEndpoint>();
  /** Problems with records, by policy, profile or other record. */
  readonly problems = new Map<string, readonly string[]>();
  readonly #selectables = new Map<string, Selectable>();
  readonly #index = new EndpointIndex();
  readonly #keysOfRecords = new Map<string, string>();
  readonly #keysOfProfiles = new OneToMany<string, string>();
  /** Digests, by id of a policy or profile. */
  readonly #specs = new Map<string, string>();
  /** By id of the policy. */
  readonly #records = new Map<string, KeptChange>();
  readonly #budgets = new PolicyBudgets();
  /** By id, why policies are beyond the budget of the node. */
  #withheld: ReadonlyMap<string, string> = new Map();
  /** By id, why policies are closed that are beyond a budget. */
  readonly refused = new Map<string, string>();
  readonly #profiles = new Map<string, KnownProfile>();
  readonly #applied = new AppliedPolicies();
  readonly #tracked = new TrackedSelectors();
  readonly #claims = new AddressClaims();
  readonly nodes = new NodeIndex();
  readonly services = new ServiceIndex(this.nodes);
  readonly #guards = new GuardIndex();
  /** Keys of pods that have more labels than may be. */
  readonly #excessive = new Set<string>();
  /** Owners of rules that cannot be enforced. */
  readonly #closed = new Set<string>();

  readonly #areGuardsAssumed: boolean;
  #onTouched: ((touched: TouchedPolicy) => void) | undefined;

  /** Tools do not know what nodes have been shown: with `assumed`, each request is taken to be judged wherever a rule asks for it. */
  constructor({ guards = 'known' }: { readonly guards?: 'known' | 'assumed' } = {}) {
    this.#areGuardsAssumed = guards === 'assumed';
    this.apply([
      { kind: 'resource', which: { kind: 'Profile', name: DEFAULT_ALLOW.metadata.name }, value: DEFAULT_ALLOW },
    ]);
  }

  /** Has `onTouched` called with what each change touches from now on, whatever makes it. */
  follow(onTouched: (touched: TouchedPolicy) => void): void {
    this.#onTouched = onTouched;
  }

  /** Number of policies and profiles that are closed. */
  get closedCount(): number {
    return this.refused.size + this.#closed.size;
  }

  get tiers(): readonly PolicyTier[] {
    return this.#applied.tiers;
  }

  /**
   * Applies changes that belong together and returns what they touched. Applying a change again touches nothing. One that
   * fails counts as unreadable, because the others must not be lost: nothing brings them a second time.
   */
  apply(changes: readonly PolicyChange[]): TouchedPolicy {
    const touches = noTouches();
    for (const change of changes) {
      try {
        this.#applyOne(change, touches);
      } catch (cause) {
        this.#applyOne(unreadable(change, cause), touches);
        if (change.kind !== 'resource')
          this.#report(change.key, [`${change.key} cannot be applied: ${reasonOf(cause)}`]);
      }
    }
    this.#settlePolicies(touches);
    unsettleAround(touches, this.#selectables);
    for (const key of touches.unsettled) {
      try {
        this.#settle(key, touches);
      } catch (cause) {
        // An endpoint that is not there has no rules, so its interface is closed. It claims no address, either.
        this.#place(key, undefined, touches);
        this.#settle(key, touches);
        this.#report(key, [`${key} cannot be used: ${reasonOf(cause)}`]);
      }
    }
    return this.#touched(touches);
  }

  get limits(): BudgetLimits {
    return this.#budgets.limits;
  }

  /** Sets the budgets of policies and namespaces. What is beyond is closed until it is within them. */
  setLimits(limits: BudgetLimits): TouchedPolicy {
    const touches = noTouches();
    this.#budgets.setLimits(limits);
    this.#settlePolicies(touches);
    return this.#touched(touches);
  }

  /** Closes the policies, by id with the reason, that are beyond the budget of the node, and no others for that reason. */
  withhold(withheld: ReadonlyMap<string, string>): TouchedPolicy {
    const touches = noTouches();
    const before = this.#withheld;
    this.#withheld = withheld;
    for (const id of new Set([...before.keys(), ...withheld.keys()]))
      if (before.get(id) !== withheld.get(id)) touches.unsettledPolicies.set(id, undefined);
    this.#settlePolicies(touches);
    return this.#touched(touches);
  }

  /** Reports whether the policy is closed because it is beyond the budget of the node alone. */
  isWithheld(id: string): boolean {
    return this.#withheld.has(id) && this.#budgets.refusal(id) === undefined;
  }

  /** Returns what the policy takes of its budgets; undefined when there is none of the id. */
  claimOf(id: string): BudgetClaim | undefined {
    return this.#budgets.claimOf(id);
  }

  /** Returns at least the number of elements that the content has; undefined for a selector that no rules use. */
  sizeOf(content: SetContent): number | undefined {
    switch (content.kind) {
      case 'members':
        return this.#tracked.find(content.selector)?.members.size;
      case 'nets':
        // The networks themselves are entries of the policy.
        return this.nodes.standInsFor(content.nets).length;
      case 'named port':
        return this.#index.countNamedPorts(content.name, content.protocol);
      case 'service':
        return content.holds === 'ports'
          ? this.services.countPorts(content.namespace, content.name)
          : this.services.addressesOf(content.namespace, content.name).length;
      case 'guarded':
        // What sidecars show is bounded for each pod, and charged to no policy.
        return 0;
      default:
        return never(content);
    }
  }

  #touched(touches: Touches): TouchedPolicy {
    const { unsettled: _, unsettledPolicies: __, ofNodes: ___, ...rest } = touches;
    const touched = { ...rest, selectors: this.#tracked.takeChanges() };
    this.#onTouched?.(touched);
    return touched;
  }

  /**
   * Closes what a policy or profile applies to, because its rules cannot be enforced, until its record changes. A staged policy
   * counts everything as denied. Returns undefined when that is so already, it does not exist, or `rule` is none of its rules.
   */
  close(owner: RuleOwner, reason: string, rule?: PolicyRule): TouchedPolicy | undefined {
    const touches = noTouches();
    if (this.#closed.has(ownerKey(owner))) return undefined;
    if (rule !== undefined && !this.#rulesOf(owner).includes(rule)) return undefined;
    if (!(owner.kind === 'policy' ? this.#closePolicy(owner.name, touches) : this.#closeProfile(owner.name, touches)))
      return undefined;
    this.#closed.add(ownerKey(owner));
    const id = owner.kind === 'policy' ? owner.name : `Profile ${owner.name}`;
    const isStaged = owner.kind === 'policy' && this.#applied.find(owner.name)?.policy.isStaged === true;
    const text = closedText({ id, isStaged }, `its rules cannot be enforced: ${reason}`);
    this.#report(id, [...(this.problems.get(id) ?? []), text]);
    return this.#touched(touches);
  }

  policiesOf(endpoint: PolicyEndpoint, tier: PolicyTier, direction: PolicyDirection): readonly ResolvedPolicy[] {
    return tier.name === this.tiers[0]?.name ? this.#applied.policiesOf(endpoint, direction) : [];
  }

  profile(name: string): ResolvedProfile | undefined {
    return this.#profiles.get(name)?.resolved;
  }

  membersOf(selector: PeerSelector): readonly Cidr[] {
    const tracked = this.#tracked.find(selector);
    if (tracked !== undefined) return tracked.members.list();
    const members = new MemberSet();
    for (const item of this.#index.selected(selector)) for (const cidr of cidrsFor(selector, item)) members.add(cidr);
    return members.list();
  }

  isMember(selector: PeerSelector, address: Address): boolean {
    const tracked = this.#tracked.find(selector);
    if (tracked !== undefined) return tracked.members.contains(address);
    return this.#index
      .selected(selector)
      .some((item) => cidrsFor(selector, item).some((cidr) => cidrContains(cidr, address)));
  }

  endpointsAt(address: Address): readonly PolicyEndpoint[] {
    return this.#index.endpointsAt(address);
  }

  namedPortsOf(name: string, protocol: number, selector?: PeerSelector): readonly AddressPort[] {
    return this.#index.namedPortsOf(name, protocol, selector);
  }

  isAccountOf({ selector }: PeerSelector, { namespace, name }: Account): boolean {
    const own = serviceAccountProfile(namespace, name);
    if (!this.#profiles.has(own)) return false;
    const profiles = [namespaceProfile(namespace), own];
    const setLabels = { [NAMESPACE_LABEL]: namespace, [SERVICE_ACCOUNT_LABEL]: name };
    return evaluateSelector(selector, labelsOf({ ownLabels: {}, setLabels }, this.#labelsOfProfiles(profiles)));
  }

  accountsOf(selector: PeerSelector): readonly Account[] {
    return [...this.#profiles.keys()].flatMap((profile): Account[] => {
      const { from, namespace, name = '' } = derivedOriginal({ kind: 'Profile', name: profile }) ?? {};
      if (from !== 'ServiceAccount' || namespace === undefined) return [];
      return this.isAccountOf(selector, { namespace, name }) ? [{ namespace, name }] : [];
    });
  }

  guardedPorts(): readonly AddressPort[] {
    return this.#guards.ports();
  }

  isGuarded(address: Address, port: number): boolean {
    return this.#areGuardsAssumed || this.#guards.has(address, port);
  }

  #applyOne(change: PolicyChange, touches: Touches): void {
    switch (change.kind) {
      case 'endpoint':
        return this.#applyWorkload(change, touches);
      case 'service':
        this.problems.delete(change.key);
        for (const service of this.services.replace(change.key, change.value)) touches.services.add(service);
        return undefined;
      case 'guard':
        if (this.#guards.replace(change.key, change.value)) touches.guards.add(change.key);
        return undefined;
      case 'resource':
        return this.#applyResource(change, touches);
      default:
        return never(change);
    }
  }

  #applyWorkload({ key: record, value }: Extract<PolicyChange, { kind: 'endpoint' }>, touches: Touches): void {
    const next = value === undefined ? undefined : selectableWorkload(value);
    const before = this.#keysOfRecords.get(record);
    for (const key of [record, before, next?.key]) if (key !== undefined) this.problems.delete(key);
    if (before !== undefined && before !== next?.key) this.#place(before, undefined, touches);
    if (next === undefined) {
      this.#keysOfRecords.delete(record);
      return;
    }
    this.#keysOfRecords.set(record, next.key);
    this.#place(next.key, next, touches);
  }

  #applyResource({ which, value, problem }: Extract<PolicyChange, { kind: 'resource' }>, touches: Touches): void {
    const { name, namespace } = fullId(which);
    const { kind } = which;
    if (kind === 'NetworkPolicy' || kind === 'GlobalNetworkPolicy') {
      this.#applyPolicy(policyId(kind, name, namespace), { kind: 'resource', which, value, problem }, touches);
    } else if (kind === 'Profile') {
      this.#applyProfile(name, { value: value?.kind === kind ? value : undefined, problem }, touches);
    } else if (kind === 'HostEndpoint') {
      this.#report(hostKey(name), [problem]);
      this.#place(hostKey(name), value?.kind === kind ? selectableHost(value) : undefined, touches);
    } else if (kind === 'NetworkSet' || kind === 'GlobalNetworkSet') {
      this.#report(setKey(name, namespace), [problem]);
      const isSet = value?.kind === 'NetworkSet' || value?.kind === 'GlobalNetworkSet';
      this.#place(setKey(name, namespace), isSet ? selectableSet(value) : undefined, touches);
    } else if (kind === 'Node') {
      this.#applyNode(name, value?.kind === kind ? value : undefined, touches);
    }
  }

  #applyNode(name: string, node: Node | undefined, { nodes, services, ofNodes }: Touches): void {
    const changed = this.nodes.replace(name, node);
    if (changed.length === 0) return;
    nodes.add(name);
    ofNodes.push(...changed);
    for (const service of this.services.having(changed)) services.add(service);
  }

  #applyPolicy(id: string, change: ChangedResource, touches: Touches): void {
    const { value, problem } = change;
    if (!this.#isNews(id, value, problem)) return;
    if (value === undefined && problem === undefined) this.#records.delete(id);
    else this.#records.set(id, { which: change.which, value: pack(value), problem });
    const resolved = resolvePolicy(id, change);
    this.#budgets.replace(id, 'policy' in resolved ? resolved : undefined);
    touches.unsettledPolicies.set(id, resolved);
  }

  /** Brings the policies up to date that have changed, and those that came within their budgets, or left them, for that. */
  #settlePolicies(touches: Touches): void {
    const { unsettledPolicies } = touches;
    for (;;) {
      for (const id of this.#budgets.decide()) if (!unsettledPolicies.has(id)) unsettledPolicies.set(id, undefined);
      const [next] = unsettledPolicies;
      if (next === undefined) return;
      const [id, known] = next;
      unsettledPolicies.delete(id);
      const kept = this.#records.get(id);
      const resolved = known ?? (kept && resolvePolicy(id, { ...kept, value: unpack(kept.value) }));
      if (resolved === undefined) continue;
      try {
        this.#settlePolicy(id, resolved, touches);
      } catch (cause) {
        if (kept === undefined) throw cause;
        this.#applyResource(unreadableResource(kept, cause), touches);
      }
    }
  }

  #settlePolicy(id: string, resolved: ReturnType<typeof resolvePolicy>, touches: Touches): void {
    const refusal = this.#budgets.refusal(id) ?? this.#withheld.get(id);
    const isRefused = 'policy' in resolved && refusal !== undefined;
    if (isRefused) this.refused.set(id, refusal);
    else this.refused.delete(id);
    const next = 'policy' in resolved ? resolved : undefined;
    this.#replacePolicy(id, isRefused ? closedPolicy(resolved) : next, touches);
    this.#report(id, [...resolved.problems, isRefused ? closedText(resolved.policy, refusal) : undefined]);
  }

  #replacePolicy(id: string, next: OrderedPolicy | undefined, touches: Touches): void {
    this.#closed.delete(ownerKey({ kind: 'policy', name: id }));
    const before = this.#applied.find(id);
    // The new rules first: a selector that stays in use keeps its members.
    this.#useSelectors(rulesOfPolicy(next), 'use');
    for (const key of this.#applied.replace(id, next, this.endpoints.values())) touches.endpoints.add(key);
    this.#useSelectors(rulesOfPolicy(before), 'release');
    touches.policies.add(id);
  }

  #rulesOf({ kind, name }: RuleOwner): readonly PolicyRule[] {
    return kind === 'policy' ? rulesOfPolicy(this.#applied.find(name)) : rulesOfProfile(this.#profiles.get(name));
  }

  #closePolicy(id: string, touches: Touches): boolean {
    const before = this.#applied.find(id);
    if (before === undefined) return false;
    this.#replacePolicy(id, closedPolicy(before), touches);
    return true;
  }

  #closeProfile(name: string, touches: Touches): boolean {
    const before = this.#profiles.get(name);
    if (before === undefined) return false;
    this.#useSelectors(rulesOfProfile(before), 'release');
    this.#profiles.set(name, { ...before, resolved: closedProfile(name), rules: '' });
    touches.profiles.add(name);
    return true;
  }

  #applyProfile(
    name: string,
    { value, problem }: { value: Extract<AnyResource, { kind: 'Profile' }> | undefined; problem: string | undefined },
    touches: Touches,
  ): void {
    const before = this.#profiles.get(name);
    if (!this.#isNews(`Profile ${name}`, value, problem)) return;
    this.#closed.delete(ownerKey({ kind: 'profile', name }));
    const { problems, ...resolved } =
      value === undefined ? { problems: [], rules: undefined } : resolveProfile(value, problem !== undefined);
    this.#report(`Profile ${name}`, [problem, ...problems]);
    const next =
      resolved.rules === undefined
        ? undefined
        : {
            resolved,
            labels: value?.spec.labelsToApply ?? {},
            rules: digestOfText(JSON.stringify([value?.spec.ingress, value?.spec.egress])),
          };
    this.#useSelectors(rulesOfProfile(next), 'use');
    this.#useSelectors(rulesOfProfile(before), 'release');
    if (next === undefined) this.#profiles.delete(name);
    else this.#profiles.set(name, next);
    if (before?.rules !== next?.rules) touches.profiles.add(name);
    if (JSON.stringify(before?.labels) === JSON.stringify(next?.labels)) return;
    if (derivedOriginal({ kind: 'Profile', name }) !== undefined) touches.accounts.add(name);
    for (const key of this.#keysOfProfiles.get(name)) touches.unsettled.add(key);
  }

  /** Reports whether the record differs from what is known of it, and keeps what it says now. */
  #isNews(id: string, value: AnyResource | undefined, problem: string | undefined): boolean {
    const isThere = value !== undefined || problem !== undefined;
    const text = isThere ? digestOfText(JSON.stringify([value?.spec, problem])) : undefined;
    if (text === this.#specs.get(id)) return false;
    if (text === undefined) this.#specs.delete(id);
    else this.#specs.set(id, text);
    return true;
  }

  #useSelectors(rules: readonly PolicyRule[], change: 'use' | 'release'): void {
    for (const { source, destination } of rules) {
      for (const { selector, notSelector } of [source, destination]) {
        for (const peer of [selector, notSelector]) {
          if (peer === undefined) continue;
          if (change === 'use') this.#tracked.use(peer, this.#index.items());
          else this.#tracked.release(peer);
        }
      }
    }
  }

  /** Puts what users wrote in its place; settling follows. */
  #place(key: string, next: Selectable | undefined, { unsettled }: Touches): void {
    const before = this.#selectables.get(key);
    for (const profile of before?.profiles ?? []) this.#keysOfProfiles.delete(profile, key);
    for (const profile of next?.profiles ?? []) this.#keysOfProfiles.add(profile, key);
    if (next === undefined) this.#selectables.delete(key);
    else this.#selectables.set(key, next);
    const addresses = next?.endpoint?.kind === 'workload' ? next.endpoint.addresses : [];
    const { createdAt = '', evidence = 'recorded' } = next ?? {};
    for (const rival of this.#claims.replace(key, { createdAt, evidence, addresses })) unsettled.add(rival);
    unsettled.add(key);
  }

  /** Brings labels, addresses, memberships and policies of one endpoint or network set up to date. */
  #settle(key: string, touches: Touches): void {
    const before = this.#index.find(key);
    const selectable = this.#selectables.get(key);
    const excess = selectable?.endpoint?.kind === 'workload' ? this.#excessIn(selectable) : undefined;
    if (excess !== undefined)
      this.#report(key, [`Pod ${selectable?.endpoint?.shown ?? key} has no network: ${excess}`]);
    // An endpoint that is not there has no rules, so its interface is closed.
    const after = selectable === undefined || excess !== undefined ? undefined : this.#itemOf(selectable);
    if (excess === undefined && this.#excessive.delete(key)) this.problems.delete(key);
    if (excess !== undefined) this.#excessive.add(key);
    if (before?.digest === after?.digest) return;
    this.#tracked.move(before, after);
    for (const port of this.#index.replace(key, after)) touches.namedPorts.add(port);
    if (before?.endpoint === undefined && after?.endpoint === undefined) return;
    touches.endpoints.add(key);
    if (after?.endpoint === undefined) this.endpoints.delete(key);
    else this.endpoints.set(key, after.endpoint);
    if (after?.endpoint?.kind === 'host') this.hostEndpoints.set(key, after.endpoint);
    else this.hostEndpoints.delete(key);
  }

  /** Returns which labels of the pod are too many: without some, a rule that denies it would not find it. */
  #excessIn({ ownLabels, setLabels, profiles }: Selectable): string | undefined {
    const own = Object.keys(ownLabels).filter((label) => !Object.hasOwn(setLabels, label)).length;
    if (own > MOST_LABELS) return `it has more than ${String(MOST_LABELS)} labels`;
    // Netplug gives a profile its name as a label.
    const found = profiles.find((name) => Object.keys(this.#profiles.get(name)?.labels ?? {}).length > MOST_LABELS + 1);
    return found === undefined ? undefined : `profile ${found} has more than ${String(MOST_LABELS)} labels`;
  }

  #itemOf(selectable: Selectable): EndpointItem {
    const { key, profiles, cidrs, endpoint } = selectable;
    const labels = labelsOf(selectable, this.#labelsOfProfiles(profiles));
    const isPod = endpoint?.kind === 'workload';
    const { addresses: claimed = [], ...rest } = endpoint ?? {};
    const standsAs =
      (standing: AddressStanding) =>
      (address: Address): boolean =>
        !isPod || this.#claims.standingOf(key, address) === standing;
    const has = standsAs('own');
    // Most pods have all that they claim, and share the lists.
    const addresses = claimed.every(has) ? claimed : claimed.filter(has);
    const contested = addresses === claimed ? NO_CIDRS : claimed.filter(standsAs('contested')).map(hostCidr);
    const owned = !isPod
      ? [...cidrs, ...this.nodes.standInsFor(cidrs)]
      : addresses === claimed
        ? cidrs
        : cidrs.filter(({ base }) => addresses.some((address) => sameAddress(address, base)));
    return {
      labels,
      cidrs: owned,
      contested,
      endpoint: endpoint === undefined ? undefined : { ...endpoint, labels, addresses },
      hasNamedPorts: (endpoint?.ports ?? []).length > 0,
      selectors: [],
      digest: digestOfText(JSON.stringify([{ ...rest, labels }, ...[owned, contested].map(keysOf)])),
    };
  }

  #labelsOfProfiles(names: readonly string[]): readonly Labels[] {
    return names.map((name) => this.#profiles.get(name)?.labels ?? labelsOfLost(name));
  }

  #report(key: string, problems: readonly (string | undefined)[]): void {
    const texts = problems.filter((text) => text !== undefined);
    if (texts.length === 0) this.problems.delete(key);
    else this.problems.set(key, texts);
  }
}

/** A pod that was deleted by force may run on when its namespace is gone: it still has the name of the namespace. */
function labelsOfLost(profile: string): Labels {
  const original = derivedOriginal({ kind: 'Profile', name: profile });
  if (original?.from !== 'Namespace') return {};
  const { name } = original;
  return fromNamespace({ metadata: { name, labels: { [NAMESPACE_NAME_LABEL]: name } } }).spec.labelsToApply ?? {};
}

function keysOf(cidrs: readonly Cidr[]): readonly (readonly [string, number])[] {
  return cidrs.map(({ base, prefixBits }) => [addressKey(base), prefixBits]);
}

function rulesOfPolicy(ordered: OrderedPolicy | undefined): readonly PolicyRule[] {
  return [...(ordered?.policy.rules.ingress ?? []), ...(ordered?.policy.rules.egress ?? [])];
}

function rulesOfProfile(profile: KnownProfile | undefined): readonly PolicyRule[] {
  return [...(profile?.resolved.rules.ingress ?? []), ...(profile?.resolved.rules.egress ?? [])];
}
