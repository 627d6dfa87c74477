import { expect, it } from 'vitest';
import type { GlobalNetworkPolicy, NetworkPolicy } from '../../model/policy.ts';
import { openPrefixes } from './open-prefixes.ts';

type Http = NonNullable<NonNullable<NetworkPolicy['spec']['ingress']>[number]['http']>;
const policy = (...rules: readonly Http[]): NetworkPolicy => ({
  apiVersion: 'netplug.io/v3',
  kind: 'NetworkPolicy',
  metadata: { namespace: 'shop', name: 'web' },
  spec: { selector: 'all()', types: ['Ingress'], ingress: rules.map((http) => ({ action: 'Allow', http })) },
});

it('names each prefix that does not end at a segment once, by policy', () => {
  const rules = [
    { paths: [{ prefix: '/items' }, { prefix: '/v1/' }, { exact: '/x' }] },
    { paths: [{ prefix: '/items' }, { prefix: '/a' }] },
  ];
  expect(openPrefixes([policy(...rules)])).toEqual(['NetworkPolicy shop/web (/items, /a)']);
  const global = {
    ...policy(...rules),
    kind: 'GlobalNetworkPolicy',
    metadata: { name: 'web' },
  } as unknown as GlobalNetworkPolicy;
  expect(openPrefixes([global])).toEqual(['GlobalNetworkPolicy web (/items, /a)']);
});

it('names no policy without them', () => {
  expect(
    openPrefixes([policy({ paths: [{ prefix: '/' }, { prefix: '/v1/' }] }, { methods: ['GET'] }), policy()]),
  ).toEqual([]);
});
