import { describe, expect, it } from 'vitest';
import { ENDPOINT } from '../../../test/fuzz/samples.ts';
import type { ApiObject } from '../../kube/objects.ts';
import { endpointObject, readEndpoint } from './endpoint-objects.ts';
import { Unreadable } from '../unreadable.ts';

/** Returns the object as the API has it, with other fields in its spec. */
function objectWith(changed: Readonly<Record<string, unknown>> = {}): ApiObject {
  const { metadata, spec, ...object } = endpointObject(ENDPOINT);
  const version = { uid: 'u', resourceVersion: '7' };
  return { ...object, metadata: { ...metadata, ...version }, spec: { ...spec, ...changed } };
}

describe('the object of an endpoint', () => {
  it('is read as it was written', () => {
    expect(readEndpoint(objectWith())).toEqual({ value: ENDPOINT, version: 'u/7' });
  });

  it('keeps fields of a newer release', () => {
    expect(readEndpoint(objectWith({ later: 'x' }))).toMatchObject({ value: { spec: { later: 'x' } } });
  });

  it.each([
    ['no name', { name: 7 }],
    ['labels that are none', { labels: { app: 7 } }],
    ['addresses that are no list', { ipNetworks: '10.0.0.1/32' }],
    ['another node than its name stands for', { node: 'n2' }],
    ['another namespace than its name stands for', { namespace: 'kube-system' }],
  ])('cannot be read with %s', (_, changed) => {
    expect(readEndpoint(objectWith(changed))).toBeInstanceOf(Unreadable);
  });
});
