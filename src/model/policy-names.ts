/** Labels that netplug itself sets on endpoints and network sets. */
export const NAMESPACE_LABEL = 'netplug/namespace';
export const ORCHESTRATOR_LABEL = 'netplug/orchestrator';
export const SERVICE_ACCOUNT_LABEL = 'netplug/serviceaccount';

/** Before the labels of the namespace, and of the service account, of an endpoint. */
export const NAMESPACE_PREFIX = 'pcns.';
export const SERVICE_ACCOUNT_PREFIX = 'pcsa.';
/** After those prefixes, the name of the namespace or service account. */
export const NAME_LABEL = 'netplug/name';
/** Label by which every Namespace has its name. Only the API server sets it. */
export const NAMESPACE_NAME_LABEL = 'kubernetes.io/metadata.name';
/** Before the name of a label that a user gave, where netplug gives labels of that name. */
export const OWN_PREFIX = 'pcown.';

const RESERVED_LABELS: readonly string[] = [NAMESPACE_LABEL, ORCHESTRATOR_LABEL, SERVICE_ACCOUNT_LABEL];
const RESERVED_PREFIXES: readonly string[] = [NAMESPACE_PREFIX, SERVICE_ACCOUNT_PREFIX, OWN_PREFIX];

/** Order of policies that stand for Kubernetes network policies. */
export const KUBERNETES_POLICY_ORDER = 1000;
/** Annotation of a rule of such a policy: the rule of the Kubernetes object it comes from, from 0. */
export const WRITTEN_RULE = 'netplug/rule';

const KUBERNETES_POLICY = 'knp.default.';
const NAMESPACE_PROFILE = 'kns.';
const ACCOUNT_PROFILE = 'ksa.';

/** Returns the name of the policy that stands for a Kubernetes network policy. */
export function kubernetesPolicyName(name: string): string {
  return `${KUBERNETES_POLICY}${name}`;
}

/** Returns the name of the Kubernetes network policy that the policy stands for; undefined for other policies. */
export function writtenPolicyName(name: string): string | undefined {
  return name.startsWith(KUBERNETES_POLICY) ? name.slice(KUBERNETES_POLICY.length) : undefined;
}

/** Reports whether resources of the kind and name stand for objects of the orchestrator: where it has those, none is stored. */
export function isDerivedName(kind: string, name: string): boolean {
  if (kind === 'NetworkPolicy') return name.startsWith(KUBERNETES_POLICY);
  return kind === 'Profile' && (name.startsWith(NAMESPACE_PROFILE) || name.startsWith(ACCOUNT_PROFILE));
}

/** The object of the orchestrator that a resource stands for. */
export interface Original {
  readonly from: 'NetworkPolicy' | 'Namespace' | 'ServiceAccount';
  readonly namespace?: string;
  readonly name: string;
}

/** Returns the object that a resource of the kind and name stands for; undefined for others. */
export function derivedOriginal(which: {
  readonly kind: string;
  readonly namespace?: string;
  readonly name: string;
}): Original | undefined {
  const { kind, namespace = 'default', name } = which;
  const policy = writtenPolicyName(name);
  if (kind === 'NetworkPolicy') return policy === undefined ? undefined : { from: kind, namespace, name: policy };
  if (kind !== 'Profile') return undefined;
  if (name.startsWith(NAMESPACE_PROFILE)) return { from: 'Namespace', name: name.slice(NAMESPACE_PROFILE.length) };
  if (!name.startsWith(ACCOUNT_PROFILE)) return undefined;
  // No name of a namespace has a dot.
  const [of = '', ...account] = name.slice(ACCOUNT_PROFILE.length).split('.');
  return { from: 'ServiceAccount', namespace: of, name: account.join('.') };
}

export function namespaceProfile(namespace: string): string {
  return `${NAMESPACE_PROFILE}${namespace}`;
}

export function serviceAccountProfile(namespace: string, account: string): string {
  return `${ACCOUNT_PROFILE}${namespace}.${account}`;
}

/** Reports whether the label has a meaning of its own in selectors: no user gives an endpoint a label of this name. */
export function isReservedLabel(label: string): boolean {
  return RESERVED_LABELS.includes(label) || RESERVED_PREFIXES.some((prefix) => label.startsWith(prefix));
}

/**
 * Returns the name by which selectors find a label that a user gave an endpoint or network set. Different labels have different
 * names, and none has the name of a label that netplug gives.
 */
export function ownLabelName(label: string): string {
  return isReservedLabel(label) ? `${OWN_PREFIX}${label}` : label;
}

/** Reports whether `ownLabelName` returns the name for some label. */
export function isOwnLabelName(name: string): boolean {
  return !isReservedLabel(name) || (name.startsWith(OWN_PREFIX) && isReservedLabel(name.slice(OWN_PREFIX.length)));
}

/** Returns the name, after the prefix, by which selectors find a label that a user gave a namespace or service account. */
export function profileLabelName(label: string): string {
  return label === NAME_LABEL || label.startsWith(OWN_PREFIX) ? `${OWN_PREFIX}${label}` : label;
}

/** Returns the labels that a user gave an endpoint or network set, by the names by which selectors find them. */
export function ownLabels(
  labels: Readonly<Record<string, string>> | null | undefined,
): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(labels ?? {}).map(([label, value]) => [ownLabelName(label), value]));
}
