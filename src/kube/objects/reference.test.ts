import { expect, it } from 'vitest';
import { KINDS } from '../../model/kinds.ts';
import { collectionPath } from '../paths.ts';
import { collectionHolding, findReference, kindCollection, objectName, referenceOf, referenceTo } from './reference.ts';

it('locates an object of any kind in the API, with the plural that Kubernetes uses', () => {
  const object = { apiVersion: 'apps/v1', kind: 'DaemonSet', metadata: { name: 'a', namespace: 'b' } };
  expect(collectionPath(collectionHolding(referenceOf(object)))).toBe('/apis/apps/v1/namespaces/b/daemonsets');
  expect(objectName(object)).toBe('DaemonSet b/a');
  expect(objectName({ ...object, metadata: { name: 'a' } })).toBe('DaemonSet a');
  const kinds = ['NetworkPolicy', 'EndpointSlice', 'PodSecurityPolicy', 'IngressClass'];
  expect(kinds.map((kind) => kindCollection(kind).plural)).toEqual([
    'networkpolicies',
    'endpointslices',
    'podsecuritypolicies',
    'ingressclasses',
  ]);
  for (const [kind, { plural }] of Object.entries(KINDS)) expect(kindCollection(kind).plural).toBe(plural);
});

it('knows the versions of kinds that are named without one, and takes no other value for an object', () => {
  expect(referenceTo('Role', { name: 'a', namespace: 'b' }).apiVersion).toBe('rbac.authorization.k8s.io/v1');
  expect(collectionPath(kindCollection('Installation'))).toBe('/apis/netplug.io/v3/installations');
  expect(collectionPath(kindCollection('Secret', 'b'))).toBe('/api/v1/namespaces/b/secrets');
  for (const value of [undefined, 1, {}, { kind: 'Pod', metadata: {} }]) expect(findReference(value)).toBeUndefined();
});
