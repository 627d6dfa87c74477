import * as v from 'valibot';
import { field, listOf, objectWith, optionalField, type SpecOf } from './field.ts';
import { column, jointRules, type KindDeclaration, nameColumn, wide } from './kind-info.ts';
import { PortProtocol, SinglePort } from './protocol.ts';
import type { Resource } from './resource.ts';
import { AddressText } from './spec-types.ts';

/** Selects all interfaces of the node. */
export const ALL_INTERFACES = '*';
const INTERFACE = '"*" for all, or the name of an interface: at most 15 letters, digits, "-", "_" and "."';

const NamedPort = objectWith('name, protocol and port', {
  name: field(v.string('a string'), 'Name used in rules.'),
  protocol: field(PortProtocol, 'Its protocol.'),
  port: field(SinglePort, 'Its number.'),
});

const HOST_ENDPOINT_FIELDS = {
  node: field(v.pipe(v.string('the name of a node'), v.nonEmpty('the name of a node')), 'The node it is on.'),
  interfaceName: optionalField(
    v.pipe(v.string(INTERFACE), v.regex(/^(\*|[a-zA-Z0-9_.-]{1,15})$/, INTERFACE)),
    'The interface, or `*` for all of them.',
  ),
  expectedIPs: optionalField(
    listOf(AddressText, 'an array of IP addresses'),
    'Addresses of the interface. They identify the interface when interfaceName is not set.',
  ),
  profiles: optionalField(
    listOf(v.string('the name of a profile'), 'an array of names of profiles'),
    'Profiles, in order of precedence.',
  ),
  ports: optionalField(
    listOf(NamedPort, 'an array of objects with name, protocol and port'),
    'Named ports for use in rules.',
  ),
};

export type HostEndpointSpec = SpecOf<typeof HOST_ENDPOINT_FIELDS>;
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
