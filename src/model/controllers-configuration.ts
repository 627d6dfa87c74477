import * as v from 'valibot';
import { field, objectWith, optionalField, type SpecOf } from './field.ts';
import { column, type KindDeclaration, nameColumn } from './kind-info.ts';
import type { Resource } from './resource.ts';
import { isDnsLabel } from './dns-name.ts';
import { LABELS } from './metadata.ts';
import { CidrText, DurationText, LogSeverity, SelectorText, Switch } from './spec-types.ts';

export const CONTROLLERS_CONFIGURATION_NAME = 'default';

const reconcilerPeriod = optionalField(DurationText, 'Interval of the periodic resync; "5m" unless set.');
const state = optionalField(
  Switch,
  'Whether the controller runs; "Enabled" unless set, for those that have work on the datastore. ENABLED_CONTROLLERS takes precedence.',
);
const Controller = objectWith('state and reconcilerPeriod', { state, reconcilerPeriod });

const GENERATE_NAME = 'lower-case letters, digits and "-", at most 63 characters';
const Template = objectWith('generateName and interfaceCIDRs', {
  generateName: field(
    v.pipe(v.string(GENERATE_NAME), v.check(isDnsLabel, GENERATE_NAME)),
    'Makes the name: `<node>-<generateName>-auto-hep`.',
  ),
  interfaceCIDRs: field(
    v.pipe(v.array(CidrText, 'an array of CIDRs'), v.minLength(1, 'at least one CIDR'), v.readonly()),
    'The endpoint is the interfaces of the node with its addresses in these ranges; a node without such an address gets none.',
  ),
  labels: optionalField(LABELS, 'Labels besides those of the node, over which they take precedence.'),
  nodeSelector: optionalField(SelectorText, 'Nodes that get it; all of them unless set.'),
});
/** Makes one more automatic host endpoint on each node that it selects. */
export type HostEndpointTemplate = v.InferOutput<typeof Template>;

const HostEndpoints = objectWith('autoCreate', {
  autoCreate: optionalField(
    Switch,
    'Whether every node gets a host endpoint for all its interfaces, with the labels of the node and a profile that allows everything; "Disabled" unless set.',
  ),
  createDefaultHostEndpoint: optionalField(
    Switch,
    'With autoCreate: whether there is an endpoint for all interfaces besides those of the templates; "Enabled" unless set.',
  ),
  templates: optionalField(
    v.pipe(
      v.array(Template, 'an array of objects with generateName and interfaceCIDRs'),
      v.check(
        (all) => new Set(all.map(({ generateName }) => generateName)).size === all.length,
        'each generateName at most once',
      ),
      v.readonly(),
    ),
    'With autoCreate: more endpoints for each node, by the addresses of their interfaces.',
  ),
});

const NodeController = objectWith('hostEndpoint and the like', {
  state,
  reconcilerPeriod,
  syncLabels: optionalField(
    Switch,
    'Whether labels of the orchestrator\'s nodes are copied to netplug\'s; "Enabled" unless set.',
  ),
  hostEndpoint: optionalField(HostEndpoints, 'Automatic host endpoints.'),
  leakGracePeriod: optionalField(
    DurationText,
    'Time after which an address without a pod is released; "15m" unless set.',
  ),
});

const Controllers = objectWith('node, policy, profile or workloadEndpoint', {
  node: optionalField(NodeController, 'Watches nodes.'),
  policy: optionalField(Controller, "Copies the orchestrator's policies to the kv datastore."),
  profile: optionalField(Controller, 'Makes profiles of namespaces and service accounts on the kv datastore.'),
  workloadEndpoint: optionalField(
    Controller,
    'Keeps labels, service accounts and ports of endpoints as those of their pods, on the kv datastore.',
  ),
});

const CONTROLLERS_CONFIGURATION_FIELDS = {
  logSeverityScreen: optionalField(LogSeverity, 'Least severe level that is logged; "Info" unless set.'),
  controllers: optionalField(Controllers, 'Settings of each controller.'),
};

export type ControllersConfigurationSpec = SpecOf<typeof CONTROLLERS_CONFIGURATION_FIELDS>;
export type ControllersConfiguration = Resource<'ControllersConfiguration', ControllersConfigurationSpec>;

export const CONTROLLERS_CONFIGURATION: KindDeclaration<ControllersConfiguration> = {
  plural: 'controllersconfigurations',
  shortNames: ['controllersconfig', 'controllersconfigs'],
  scope: 'cluster',
  about: 'Settings of netplug-orch-controllers.',
  enforced: true,
  writtenBy: 'user',
  names: 'default',
  columns: [
    nameColumn(),
    column(
      'AUTOHOSTENDPOINTS',
      'spec.controllers.node.hostEndpoint.autoCreate',
      ({ spec }) => spec.controllers?.node?.hostEndpoint?.autoCreate ?? '',
    ),
  ],
  fields: CONTROLLERS_CONFIGURATION_FIELDS,
  example: {
    metadata: { name: 'default' },
    spec: { controllers: { node: { hostEndpoint: { autoCreate: 'Enabled' }, leakGracePeriod: '30m' } } },
  },
};
