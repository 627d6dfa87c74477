import {
  NAME_LABEL,
  NAMESPACE_PREFIX,
  namespaceProfile,
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
      labelsToApply: prefixed(NAMESPACE_PREFIX, { ...labels, [NAME_LABEL]: name }),
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
    spec: { labelsToApply: prefixed(SERVICE_ACCOUNT_PREFIX, { ...labels, [NAME_LABEL]: name }) },
  };
}

function prefixed(prefix: string, labels: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(labels).map(([key, value]) => [`${prefix}${key}`, value]));
}
