import { writtenPolicyName } from '../model/policy-names.ts';
import type { Direction } from '../model/check-rules.ts';
import type { GlobalNetworkPolicy, GlobalNetworkPolicySpec, NetworkPolicy, PolicyType } from '../model/policy.ts';
import type { Profile } from '../model/profile.ts';
import type { Selector } from '../model/selector-parser.ts';
import type { PolicyChange } from './policy-change.ts';
import type { PolicyRule, PolicyStage, ResolvedPolicy, ResolvedProfile } from './resolved-policy.ts';
import { resolveRules } from './resolve-rules.ts';
import {
  allOf,
  entriesOfSelector,
  inNamespace,
  ofNamespaces,
  ofServiceAccounts,
  readSelector,
  UnreadableSelector,
} from './resolve-selector.ts';

/** A policy with its place in its tier. */
export interface OrderedPolicy {
  /** Infinite for a policy without an order, which comes last. */
  readonly order: number;
  /** RFC 3339; empty when it is not known. */
  readonly createdAt: string;
  /** Undefined for a global policy. */
  readonly namespace: string | undefined;
  /** What its rules and selectors take. */
  readonly entries: number;
  readonly policy: ResolvedPolicy;
  readonly problems: readonly string[];
}

const DIRECTIONS = { ingress: 'Ingress', egress: 'Egress' } as const;

export function compareOrder(a: OrderedPolicy, b: OrderedPolicy): number {
  if (a.order !== b.order) return a.order < b.order ? -1 : 1;
  return a.policy.id < b.policy.id ? -1 : Number(a.policy.id > b.policy.id);
}

/** Returns the id of a policy, which tells Kubernetes policies from those of netplug. */
export function policyId(kind: 'NetworkPolicy' | 'GlobalNetworkPolicy', name: string, namespace = 'default'): string {
  if (kind === 'GlobalNetworkPolicy') return `GlobalNetworkPolicy ${name}`;
  const written = writtenPolicyName(name);
  return written === undefined
    ? `NetworkPolicy ${namespace}/${name}`
    : `Kubernetes NetworkPolicy ${namespace}/${written}`;
}

/**
 * Resolves a policy. When its selector cannot be read, it isolates its namespace, and only its `Deny` rules stay. With `isPartial` the
 * rules that cannot be read are left out.
 */
export function resolveNetworkPolicy({ metadata, spec }: NetworkPolicy, isPartial = false): OrderedPolicy {
  const { name, namespace = 'default' } = metadata;
  const id = policyId('NetworkPolicy', name, namespace);
  const scope = inNamespace(namespace);
  const selected = readApplication(spec, scope);
  const areNumbered = isPartial || writtenPolicyName(name) !== undefined;
  const { rules, entries, problems } = rulesOf(spec, { namespace, areNumbered, stage: 'normal' });
  const isReadable = 'selector' in selected;
  const ofSelector = isReadable ? entriesOfSelector(selected.selector) : 0;
  return {
    order: spec.order ?? Infinity,
    createdAt: metadata.creationTimestamp ?? '',
    namespace,
    entries: entries + ofSelector,
    policy: {
      id,
      stage: 'normal',
      applyOnForward: true,
      isStaged: spec.staged === true,
      appliesTo: isReadable ? selected.selector : scope,
      rules: isReadable ? rules : onlyDenials(rules),
    },
    problems: [
      ...(isReadable ? [] : [`${id} isolates all pods of the namespace: ${selected.problem}`]),
      ...problems.map((problem) => `${id}: ${problem}`),
    ],
  };
}

/** Resolves a policy, which applies to nothing if its selector cannot be read: it must not cut off a whole cluster. */
export function resolveGlobalPolicy(
  { metadata, spec }: GlobalNetworkPolicy,
  isPartial = false,
): OrderedPolicy | { problems: string[] } {
  const id = policyId('GlobalNetworkPolicy', metadata.name);
  const selected = readApplication(spec, undefined);
  if ('problem' in selected) return { problems: [`${id} applies to nothing: ${selected.problem}`] };
  const stage = stageOf(spec);
  const { rules, entries, problems } = rulesOf(spec, { namespace: undefined, areNumbered: isPartial, stage });
  return {
    order: spec.order ?? Infinity,
    createdAt: metadata.creationTimestamp ?? '',
    namespace: undefined,
    entries: entries + entriesOfSelector(selected.selector),
    policy: {
      id,
      stage,
      applyOnForward: spec.applyOnForward === true,
      isStaged: spec.staged === true,
      appliesTo: selected.selector,
      rules,
    },
    problems: problems.map((problem) => `${id}: ${problem}`),
  };
}

/** Resolves the record of a policy of any kind; one that cannot be read as `docs/policy.md` says. */
export function resolvePolicy(
  id: string,
  { which, value, problem }: Omit<Extract<PolicyChange, { kind: 'resource' }>, 'kind'>,
): OrderedPolicy | { readonly problems: readonly string[] } {
  const isPartial = problem !== undefined;
  const { name, namespace = 'default' } = which;
  if (value?.kind === 'NetworkPolicy') return withProblem(resolveNetworkPolicy(value, isPartial), problem);
  if (value?.kind === 'GlobalNetworkPolicy') return withProblem(resolveGlobalPolicy(value, isPartial), problem);
  if (problem === undefined) return { problems: [] };
  if (which.kind === 'NetworkPolicy') return isolatingPolicy(name, namespace, problem);
  return { problems: [`${id} applies to nothing, because it cannot be read: ${problem}`] };
}

function withProblem<T extends { readonly problems: readonly string[] }>(resolved: T, problem: string | undefined): T {
  return problem === undefined ? resolved : { ...resolved, problems: [problem, ...resolved.problems] };
}

/** Stands for a policy of a namespace whose record cannot be read: it isolates the pods of the namespace. */
function isolatingPolicy(name: string, namespace: string, problem: string): OrderedPolicy {
  const id = policyId('NetworkPolicy', name, namespace);
  return {
    order: Infinity,
    createdAt: '',
    namespace,
    entries: 0,
    policy: {
      id,
      stage: 'normal',
      applyOnForward: true,
      isStaged: false,
      appliesTo: inNamespace(namespace),
      rules: { ingress: [], egress: [] },
    },
    problems: [`${id} isolates all pods of the namespace: ${problem}`],
  };
}

export function resolveProfile(
  { metadata, spec }: Profile,
  isPartial = false,
): ResolvedProfile & { readonly problems: readonly string[] } {
  const written = { ...spec, types: Object.values(DIRECTIONS) };
  const { rules, problems } = rulesOf(written, { namespace: undefined, areNumbered: isPartial, stage: 'normal' });
  return {
    name: metadata.name,
    rules: { ingress: [], egress: [], ...rules },
    problems: problems.map((problem) => `Profile ${metadata.name}: ${problem}`),
  };
}

type Application = Pick<GlobalNetworkPolicySpec, 'selector' | 'namespaceSelector' | 'serviceAccountSelector'>;

function readApplication(
  { selector, namespaceSelector, serviceAccountSelector }: Application,
  scope: Selector | undefined,
): { readonly selector: Selector } | { readonly problem: string } {
  try {
    return {
      selector: allOf([
        ...(scope === undefined ? [] : [scope]),
        ...(namespaceSelector === undefined ? [] : [ofNamespaces(readSelector(namespaceSelector))]),
        ...(serviceAccountSelector === undefined ? [] : [ofServiceAccounts(readSelector(serviceAccountSelector))]),
        readSelector(selector),
      ]),
    };
  } catch (cause) {
    if (cause instanceof UnreadableSelector) return { problem: cause.message };
    throw cause;
  }
}

type Directions = ResolvedPolicy['rules'];

function rulesOf(
  spec: Pick<GlobalNetworkPolicySpec, Direction> & { readonly types: readonly PolicyType[] },
  scope: Omit<Parameters<typeof resolveRules>[1], 'direction'>,
): { readonly rules: Directions; readonly entries: number; readonly problems: readonly string[] } {
  const problems: string[] = [];
  const rules: Partial<Record<Direction, readonly PolicyRule[]>> = {};
  let entries = 0;
  for (const direction of ['ingress', 'egress'] as const) {
    if (!spec.types.includes(DIRECTIONS[direction])) continue;
    const resolved = resolveRules(spec[direction], { ...scope, direction });
    for (const problem of resolved.problems) problems.push(`${direction}${problem}`);
    rules[direction] = resolved.rules;
    entries += resolved.entries;
  }
  return { rules, entries, problems };
}

function onlyDenials(rules: Directions): Directions {
  return Object.fromEntries(
    Object.entries(rules).map(([direction, list]) => [direction, list.filter(({ action }) => action === 'Deny')]),
  );
}

function stageOf({ doNotTrack, preDNAT }: GlobalNetworkPolicySpec): PolicyStage {
  if (doNotTrack === true) return 'untracked';
  return preDNAT === true ? 'preDNAT' : 'normal';
}
