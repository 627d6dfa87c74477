import { ownValue } from '../../base/own-value.ts';
import { isRecord } from '../../model/read-schema.ts';
import { API_VERSION } from '../../model/resource.ts';
import type { Collection } from '../paths.ts';

/** Reference to an object of the API. */
export interface ObjectReference {
  readonly apiVersion: string;
  readonly kind: string;
  /** Empty for an object of the whole cluster. */
  readonly namespace: string;
  readonly name: string;
}

const RBAC = 'rbac.authorization.k8s.io/v1';
const ADMISSION = 'admissionregistration.k8s.io/v1';
const FLOW_CONTROL = 'flowcontrol.apiserver.k8s.io/v1';
/** Versions of the kinds that are named without one; all others are of the core group. */
const API_VERSIONS: Readonly<Record<string, string>> = {
  ClusterRole: RBAC,
  ClusterRoleBinding: RBAC,
  Role: RBAC,
  RoleBinding: RBAC,
  DaemonSet: 'apps/v1',
  Deployment: 'apps/v1',
  ReplicaSet: 'apps/v1',
  StatefulSet: 'apps/v1',
  MutatingWebhookConfiguration: ADMISSION,
  ValidatingAdmissionPolicy: ADMISSION,
  ValidatingAdmissionPolicyBinding: ADMISSION,
  FlowSchema: FLOW_CONTROL,
  PriorityLevelConfiguration: FLOW_CONTROL,
  PodDisruptionBudget: 'policy/v1',
  CustomResourceDefinition: 'apiextensions.k8s.io/v1',
  PodSecurityPolicy: 'policy/v1beta1',
  Installation: API_VERSION,
  APIServer: API_VERSION,
};

/** Returns which object it is; undefined for a value that is no object of the API. */
export function findReference(object: unknown): ObjectReference | undefined {
  if (!isRecord(object) || !isRecord(object['metadata'])) return undefined;
  const { apiVersion, kind, metadata } = object;
  const { name, namespace } = isRecord(metadata) ? metadata : {};
  if (typeof kind !== 'string' || typeof name !== 'string') return undefined;
  return { apiVersion: textOf(apiVersion), kind, namespace: textOf(namespace), name };
}

/** Returns which object it is. */
export function referenceOf(object: unknown): ObjectReference {
  const reference = findReference(object);
  if (reference === undefined) throw new Error(`no object: ${JSON.stringify(object).slice(0, 80)}`);
  return reference;
}

/** Returns the reference to an object of a kind of which netplug knows the version. */
export function referenceTo(
  kind: string,
  { name, namespace = '' }: { readonly name: string; readonly namespace?: string },
): ObjectReference {
  return { apiVersion: ownValue(API_VERSIONS, kind) ?? 'v1', kind, namespace, name };
}

/** Returns a key that is unique among objects and readable in messages, such as `DaemonSet netplug-system/netplug-node`. */
export function referenceKey({ kind, namespace, name }: Omit<ObjectReference, 'apiVersion'>): string {
  return `${kind} ${namespace === '' ? '' : `${namespace}/`}${name}`;
}

/** Returns the key of the object. */
export function objectName(object: unknown): string {
  return referenceKey(referenceOf(object));
}

/** Returns where the API has the objects of the kind. */
export function collectionHolding({ apiVersion, kind, namespace }: ObjectReference): Collection {
  const [first = '', second] = apiVersion.split('/');
  const [group, version] = second === undefined ? ['', first] : [first, second];
  return { group, version, plural: pluralOf(kind), ...(namespace === '' ? {} : { namespace }) };
}

/** Returns where the API has the objects of a kind of which netplug knows the version. */
export function kindCollection(kind: string, namespace = ''): Collection {
  return collectionHolding(referenceTo(kind, { name: '', namespace }));
}

/** Returns the plural that the API uses; Kubernetes forms it by the same rule. */
function pluralOf(kind: string): string {
  const word = kind.toLowerCase();
  if (word.endsWith('s')) return `${word}es`;
  return word.endsWith('y') ? `${word.slice(0, -1)}ies` : `${word}s`;
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
