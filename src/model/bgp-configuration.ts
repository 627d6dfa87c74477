import * as v from 'valibot';
import { field, listOf, objectWith, optionalField, type SpecOf } from './field.ts';
import { column, type KindDeclaration, nameColumn } from './kind-info.ts';
import type { Resource } from './resource.ts';
import { mergeKey } from './schema-shape.ts';
import {
  AsNumber,
  BfdSettings,
  CidrText,
  LogSeverity,
  PasswordSource,
  wholeNumber,
  TrueOrFalse,
} from './spec-types.ts';

const COMMUNITY = /^\d{1,10}:\d{1,10}(:\d{1,10})?$/;
const CommunityName = v.string('the name or value of a community');

const BGP_CONFIGURATION_FIELDS = {
  nodeToNodeMeshEnabled: optionalField(TrueOrFalse, 'Every node is a peer of every other node; true unless set.'),
  asNumber: optionalField(AsNumber, 'AS number of every node without one of its own; 64512 unless set.'),
  listenPort: optionalField(wholeNumber(1, 65_535), 'TCP port of BGP; 179 unless set.'),
  logSeverityScreen: optionalField(LogSeverity, 'How much BIRD logs; "Info" unless set.'),
  communities: optionalField(
    v.pipe(
      listOf(
        objectWith('name and value', {
          name: field(v.string('a string'), 'Name used in advertisements.'),
          value: field(
            v.pipe(v.string('aa:nn or aa:nn:mm, as a string'), v.regex(COMMUNITY, 'aa:nn or aa:nn:mm, as a string')),
            'Its value.',
          ),
        }),
        'an array of objects with name and value',
      ),
      mergeKey('name'),
    ),
    'Names for BGP communities, standard (aa:nn) or large (aa:nn:mm).',
  ),
  prefixAdvertisements: optionalField(
    v.pipe(
      listOf(
        objectWith('cidr and communities', {
          cidr: field(CidrText, 'Range; routes inside it get the communities.'),
          communities: field(v.array(CommunityName, 'an array of strings'), 'Names or values of communities.'),
        }),
        'an array of objects with cidr and communities',
      ),
      mergeKey('cidr'),
    ),
    'Communities, by name or value, of routes inside a CIDR.',
  ),
  nodeMeshPassword: optionalField(PasswordSource, 'Password of the sessions of the mesh (RFC 2385).'),
  nodeMeshMaxRestartTime: optionalField(
    wholeNumber(1, 4095, 'seconds'),
    'How long routes of a node whose BIRD restarts are kept; 120 s unless set.',
  ),
  nodeMeshBfd: optionalField(
    BfdSettings,
    'BFD of the sessions of the mesh; fields as of `bfd` of a BGPPeer. Routes of a node then go while its BIRD restarts.',
  ),
};

export type BgpConfigurationSpec = SpecOf<typeof BGP_CONFIGURATION_FIELDS>;
export type BgpConfiguration = Resource<'BGPConfiguration', BgpConfigurationSpec>;

/** The configuration of the whole cluster; that of one node is `node.<name>`. */
export const BGP_CONFIGURATION_NAME = 'default';

export const BGP_CONFIGURATION: KindDeclaration<BgpConfiguration> = {
  plural: 'bgpconfigurations',
  shortNames: ['bgpconfig', 'bgpconfigs'],
  scope: 'cluster',
  about:
    'BGP settings: `default` applies to the whole cluster, `node.<name>` to one node, where only logSeverityScreen and listenPort have an effect.',
  enforced: true,
  writtenBy: 'user',
  names: 'default-or-node',
  columns: [
    nameColumn(),
    column('LOGSEVERITY', 'spec.logSeverityScreen', ({ spec }) => spec.logSeverityScreen ?? ''),
    column('MESHENABLED', 'spec.nodeToNodeMeshEnabled', ({ spec }) => String(spec.nodeToNodeMeshEnabled ?? '')),
    column('ASNUMBER', 'spec.asNumber', ({ spec }) => String(spec.asNumber ?? '')),
  ],
  fields: BGP_CONFIGURATION_FIELDS,
  example: {
    metadata: { name: 'default' },
    spec: {
      asNumber: 64_512,
      nodeToNodeMeshEnabled: true,
      communities: [{ name: 'pods', value: '64512:100' }],
      prefixAdvertisements: [{ cidr: '10.244.0.0/16', communities: ['pods'] }],
    },
  },
};
