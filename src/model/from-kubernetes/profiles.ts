import {
  NAME_LABEL,
  NAMESPACE_PREFIX,
  namespaceProfile,
  profileLabelName,
  SERVICE_ACCOUNT_PREFIX,
  serviceAccountProfile,
} from '../policy-names.ts';
import type { Profile } from '../profile.ts';
import { API_VERSION } from '../resource.ts';
import { ageOf, type KubernetesObject } from './kubernetes-object.ts';

/** Returns the profile of the pods of a Namespace: allows what no policy decides, and applies the labels of the namespace. */
export function fromNamespace(object: KubernetesObject): Profile {
  const { name, labels } = object.metadata;
  return {
    apiVersion: API_VERSION,
    kind: 'Profile',
    metadata: { name: namespaceProfile(name), ...ageOf(object) },
    spec: {
      ingress: [{ action: 'Allow' }],
      egress: [{ action: 'Allow' }],
      labelsToApply: labelsOf(NAMESPACE_PREFIX, name, labels),
    },
  };
}

/** Returns the profile of the pods of a ServiceAccount, which applies the labels of the account and has no rules. */
export function fromServiceAccount(object: KubernetesObject): Profile {
  const { name, namespace = 'default', labels } = object.metadata;
  return {
    apiVersion: API_VERSION,
    kind: 'Profile',
    metadata: { name: serviceAccountProfile(namespace, name), ...ageOf(object) },
    spec: { labelsToApply: labelsOf(SERVICE_ACCOUNT_PREFIX, name, labels) },
  };
}

function labelsOf(
  prefix: string,
  name: string,
  labels: Readonly<Record<string, string>> | null | undefined,
): Readonly<Record<string, string>> {
  const own = Object.entries(labels ?? {}).map(([key, value]) => [`${prefix}${profileLabelName(key)}`, value] as const);
  return Object.fromEntries([...own, [`${prefix}${NAME_LABEL}`, name]]);
}
