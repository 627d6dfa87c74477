import * as v from 'valibot';
import { DEFAULT_COOL_DOWN_SECONDS, MAX_COOL_DOWN_SECONDS } from './cool-down.ts';
import { field, type SpecOf } from './field.ts';
import { column, type KindDeclaration, nameColumn } from './kind-info.ts';
import type { Resource } from './resource.ts';
import { flag, wholeNumber } from './spec-types.ts';

const IPAM_CONFIGURATION_FIELDS = {
  strictAffinity: field(flag(false), 'When true, a node never uses a block of another node.'),
  maxBlocksPerNode: field(
    v.optional(
      v.pipe(
        v.number('a whole number from 0'),
        v.integer('a whole number from 0'),
        v.minValue(0, 'a whole number from 0'),
      ),
      0,
    ),
    'How many blocks one node may own per address family; 0 sets no limit.',
  ),
  cooldownSeconds: field(
    v.optional(wholeNumber(0, MAX_COOL_DOWN_SECONDS, 'seconds'), DEFAULT_COOL_DOWN_SECONDS),
    'Seconds for which a released address is given to no other pod, unless one asks for it or nothing else is left; 0 for none.',
  ),
};

export type IpamConfigurationSpec = SpecOf<typeof IPAM_CONFIGURATION_FIELDS>;
export type IpamConfiguration = Resource<'IPAMConfiguration', IpamConfigurationSpec>;

export const IPAM_CONFIGURATION: KindDeclaration<IpamConfiguration> = {
  plural: 'ipamconfigurations',
  shortNames: ['ipamconfig', 'ipamconfigs'],
  scope: 'cluster',
  about: 'Settings of address management (IPAM) for the whole cluster.',
  enforced: true,
  writtenBy: 'user',
  names: 'default',
  columns: [
    nameColumn(),
    column('STRICTAFFINITY', 'spec.strictAffinity', ({ spec }) => String(spec.strictAffinity)),
    column('MAXBLOCKSPERNODE', 'spec.maxBlocksPerNode', ({ spec }) => String(spec.maxBlocksPerNode)),
    column('COOLDOWNSECONDS', 'spec.cooldownSeconds', ({ spec }) => String(spec.cooldownSeconds)),
  ],
  fields: IPAM_CONFIGURATION_FIELDS,
  example: { metadata: { name: 'default' }, spec: { strictAffinity: true, maxBlocksPerNode: 4, cooldownSeconds: 60 } },
};

/** The only allowed name of this kind. */
export const IPAM_CONFIGURATION_NAME = 'default';
export const DEFAULT_IPAM_CONFIGURATION: IpamConfigurationSpec = {
  strictAffinity: false,
  maxBlocksPerNode: 0,
  cooldownSeconds: DEFAULT_COOL_DOWN_SECONDS,
};
