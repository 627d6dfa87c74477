import * as v from 'valibot';
import { column, type KindDeclaration, nameColumn } from './kind-info.ts';
import type { Resource } from './resource.ts';
import { mergeKey } from './schema-shape.ts';
import { AsNumber, CidrText, LogSeverity, PasswordSource, wholeNumber } from './spec-types.ts';

const COMMUNITY = /^\d{1,10}:\d{1,10}(:\d{1,10})?$/;
const CommunityName = v.string('the name or value of a community');

const BGP_CONFIGURATION_FIELDS = {
  nodeToNodeMeshEnabled: v.optional(
    v.pipe(
      v.boolean('true or false, without quotes'),
      v.description('Every node is a peer of every other node; true unless set.'),
    ),
  ),
  asNumber: v.optional(
    v.pipe(AsNumber, v.description('AS number of every node without one of its own; 64512 unless set.')),
  ),
  listenPort: v.optional(v.pipe(wholeNumber(1, 65_535), v.description('TCP port of BGP; 179 unless set.'))),
  logSeverityScreen: v.optional(v.pipe(LogSeverity, v.description('How much BIRD logs; "Info" unless set.'))),
  communities: v.optional(
    v.pipe(
      v.array(
        v.looseObject(
          {
            name: v.pipe(v.string('a string'), v.description('Name used in advertisements.')),
            value: v.pipe(
              v.string('aa:nn or aa:nn:mm, as a string'),
              v.regex(COMMUNITY, 'aa:nn or aa:nn:mm, as a string'),
              v.description('Its value.'),
            ),
          },
          'an object with name and value',
        ),
        'an array of objects with name and value',
      ),
      v.readonly(),
      mergeKey('name'),
      v.description('Names for BGP communities, standard (aa:nn) or large (aa:nn:mm).'),
    ),
  ),
  prefixAdvertisements: v.optional(
    v.pipe(
      v.array(
        v.looseObject(
          {
            cidr: v.pipe(CidrText, v.description('Range; routes inside it get the communities.')),
            communities: v.pipe(
              v.array(CommunityName, 'an array of strings'),
              v.description('Names or values of communities.'),
            ),
          },
          'an object with cidr and communities',
        ),
        'an array of objects with cidr and communities',
      ),
      v.readonly(),
      mergeKey('cidr'),
      v.description('Communities, by name or value, of routes inside a CIDR.'),
    ),
  ),
  nodeMeshPassword: v.optional(
    v.pipe(PasswordSource, v.description('Password of the sessions of the mesh (RFC 2385).')),
  ),
  nodeMeshMaxRestartTime: v.optional(
    v.pipe(
      wholeNumber(1, 4095, 'seconds'),
      v.description('How long routes of a node whose BIRD restarts are kept; 120 s unless set.'),
    ),
  ),
};

export type BgpConfigurationSpec = Readonly<v.InferOutput<v.ObjectSchema<typeof BGP_CONFIGURATION_FIELDS, undefined>>>;
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
