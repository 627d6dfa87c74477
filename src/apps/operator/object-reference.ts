import * as v from 'valibot';
import type { Manifest } from '../../datastore/orch/crd-manifests.ts';
import type { Collection } from '../../kube/paths.ts';

const manifest = v.looseObject({
  apiVersion: v.string(),
  kind: v.string(),
  metadata: v.looseObject({ name: v.string(), namespace: v.optional(v.string(), '') }),
});

/** Which object of the API. */
export interface ObjectReference {
  readonly apiVersion: string;
  readonly kind: string;
  /** Empty for an object of the whole cluster. */
  readonly namespace: string;
  readonly name: string;
}

/** The kinds that the operator writes, by the names that the API has for them. */
const PLURALS: Readonly<Record<string, string>> = {
  ClusterRole: 'clusterroles',
  ClusterRoleBinding: 'clusterrolebindings',
  ConfigMap: 'configmaps',
  CustomResourceDefinition: 'customresourcedefinitions',
  DaemonSet: 'daemonsets',
  Deployment: 'deployments',
  Installation: 'installations',
  IPPool: 'ippools',
  Namespace: 'namespaces',
  Role: 'roles',
  RoleBinding: 'rolebindings',
  ServiceAccount: 'serviceaccounts',
};

export function referenceOf(object: Manifest): ObjectReference {
  const { apiVersion, kind, metadata } = v.parse(manifest, object);
  return { apiVersion, kind, namespace: metadata.namespace, name: metadata.name };
}

/** Returns a text that is unique among all objects. */
export function referenceKey({ apiVersion, kind, namespace, name }: ObjectReference): string {
  return [apiVersion, kind, namespace, name].join(' ');
}

export function showReference({ kind, namespace, name }: ObjectReference): string {
  return `${kind} "${namespace === '' ? '' : `${namespace}/`}${name}"`;
}

export function collectionHolding({ apiVersion, kind, namespace }: ObjectReference): Collection {
  const parts = apiVersion.split('/');
  return {
    group: parts.length === 1 ? '' : (parts[0] ?? ''),
    version: parts.at(-1) ?? '',
    plural: PLURALS[kind] ?? `${kind.toLowerCase()}s`,
    ...(namespace === '' ? {} : { namespace }),
  };
}
