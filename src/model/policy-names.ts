/** Labels that netplug itself sets on endpoints and network sets. Those of users with these names are ignored. */
export const NAMESPACE_LABEL = 'netplug/namespace';
export const ORCHESTRATOR_LABEL = 'netplug/orchestrator';
export const SERVICE_ACCOUNT_LABEL = 'netplug/serviceaccount';

/** Before the labels of the namespace, and of the service account, of an endpoint. */
export const NAMESPACE_PREFIX = 'pcns.';
export const SERVICE_ACCOUNT_PREFIX = 'pcsa.';
/** After those prefixes, the name of the namespace or service account. */
export const NAME_LABEL = 'netplug/name';

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

/** Reports whether only netplug gives endpoints a label of this name. */
export function isReservedLabel(label: string): boolean {
  return (
    label === NAMESPACE_LABEL ||
    label === ORCHESTRATOR_LABEL ||
    label === SERVICE_ACCOUNT_LABEL ||
    label.startsWith(NAMESPACE_PREFIX) ||
    label.startsWith(SERVICE_ACCOUNT_PREFIX)
  );
}
