import * as v from 'valibot';
import { field, listOf, type SpecOf } from './field.ts';
import { type KindDeclaration, nameColumn, namespaceColumn, wide } from './kind-info.ts';
import type { Resource } from './resource.ts';
import { CidrOrAddressText } from './spec-types.ts';

const NETWORK_SET_FIELDS = {
  nets: field(
    v.optional(listOf(CidrOrAddressText, 'an array of CIDRs'), []),
    'CIDRs or addresses, of one or both families.',
  ),
};

export type NetworkSetSpec = SpecOf<typeof NETWORK_SET_FIELDS>;
export type NetworkSet = Resource<'NetworkSet', NetworkSetSpec>;
export type GlobalNetworkSet = Resource<'GlobalNetworkSet', NetworkSetSpec>;

const EXAMPLE = {
  metadata: { name: 'partners', labels: { role: 'partner' } },
  spec: { nets: ['198.51.100.0/24', '2001:db8:7::/48', '203.0.113.9'] },
};
const NETS = wide<NetworkSet | GlobalNetworkSet>('NETS', 'spec.nets', ({ spec }) => spec.nets.join(','));

export const NETWORK_SET: KindDeclaration<NetworkSet> = {
  plural: 'networksets',
  shortNames: ['netset', 'netsets'],
  scope: 'namespace',
  about: 'A set of addresses that policy rules in the same namespace select by its labels.',
  enforced: true,
  writtenBy: 'user',
  columns: [namespaceColumn(), nameColumn(), NETS],
  fields: NETWORK_SET_FIELDS,
  example: { ...EXAMPLE, metadata: { ...EXAMPLE.metadata, namespace: 'shop' } },
};

export const GLOBAL_NETWORK_SET: KindDeclaration<GlobalNetworkSet> = {
  plural: 'globalnetworksets',
  shortNames: ['gnetset', 'gnetsets'],
  scope: 'cluster',
  about: 'A set of addresses that policy rules select by its labels.',
  enforced: true,
  writtenBy: 'user',
  columns: [nameColumn(), NETS],
  fields: NETWORK_SET_FIELDS,
  example: EXAMPLE,
};
