import * as v from 'valibot';
import { column, jointRules, type KindDeclaration, nameColumn, wide } from './kind-info.ts';
import { PortProtocol, SinglePort } from './protocol.ts';
import type { Resource } from './resource.ts';
import { AddressText } from './spec-types.ts';

/** Selects all interfaces of the node. */
export const ALL_INTERFACES = '*';
const INTERFACE = '"*" for all, or the name of an interface: at most 15 letters, digits, "-", "_" and "."';

const NamedPort = v.looseObject(
  {
    name: v.pipe(v.string('a string'), v.description('Name used in rules.')),
    protocol: v.pipe(PortProtocol, v.description('Its protocol.')),
    port: v.pipe(SinglePort, v.description('Its number.')),
  },
  'an object with name, protocol and port',
);

const HOST_ENDPOINT_FIELDS = {
  node: v.pipe(v.string('the name of a node'), v.nonEmpty('the name of a node'), v.description('The node it is on.')),
  interfaceName: v.optional(
    v.pipe(
      v.string(INTERFACE),
      v.regex(/^(\*|[a-zA-Z0-9_.-]{1,15})$/, INTERFACE),
      v.description('The interface, or `*` for all of them.'),
    ),
  ),
  expectedIPs: v.optional(
    v.pipe(
      v.array(AddressText, 'an array of IP addresses'),
      v.readonly(),
      v.description('Addresses of the interface. They identify the interface when interfaceName is not set.'),
    ),
  ),
  profiles: v.optional(
    v.pipe(
      v.array(v.string('the name of a profile'), 'an array of names of profiles'),
      v.readonly(),
      v.description('Profiles, in order of precedence.'),
    ),
  ),
  ports: v.optional(
    v.pipe(
      v.array(NamedPort, 'an array of objects with name, protocol and port'),
      v.readonly(),
      v.description('Named ports for use in rules.'),
    ),
  ),
};

export type HostEndpointSpec = Readonly<v.InferOutput<v.ObjectSchema<typeof HOST_ENDPOINT_FIELDS, undefined>>>;
export type HostEndpoint = Resource<'HostEndpoint', HostEndpointSpec>;

export const HOST_ENDPOINT: KindDeclaration<HostEndpoint> = {
  plural: 'hostendpoints',
  shortNames: ['hep', 'heps'],
  scope: 'cluster',
  about: 'An interface of a node, or all its interfaces, to which policies apply.',
  enforced: true,
  writtenBy: 'user',
  columns: [
    nameColumn(),
    column('NODE', 'spec.node', ({ spec }) => spec.node),
    wide('INTERFACE', 'spec.interfaceName', ({ spec }) => spec.interfaceName ?? ''),
    wide('IPS', 'spec.expectedIPs', ({ spec }) => (spec.expectedIPs ?? []).join(',')),
    wide('PROFILES', 'spec.profiles', ({ spec }) => (spec.profiles ?? []).join(',')),
  ],
  fields: HOST_ENDPOINT_FIELDS,
  check: jointRules(HOST_ENDPOINT_FIELDS, ({ interfaceName, expectedIPs = [] }, refuse) => {
    if (interfaceName === undefined && expectedIPs.length === 0)
      refuse('interfaceName', `missing; needed is ${INTERFACE}; or expectedIPs instead`);
  }),
  rules: ['It has an interfaceName or expectedIPs, or both.'],
  schemaRules: {
    spec: { not: { allOf: [{ not: { required: ['interfaceName'] } }, { not: { required: ['expectedIPs'] } }] } },
  },
  example: {
    metadata: { name: 'node-1-all', labels: { role: 'gateway' } },
    spec: {
      node: 'node-1',
      interfaceName: ALL_INTERFACES,
      expectedIPs: ['192.0.2.7'],
      profiles: ['netplug-default-allow'],
    },
  },
};
