import * as v from 'valibot';
import { column, type KindDeclaration, nameColumn } from './kind-info.ts';
import type { Resource } from './resource.ts';
import { isDnsLabel } from './dns-name.ts';
import { LABELS } from './metadata.ts';
import { CidrText, DurationText, LogSeverity, SelectorText, Switch } from './spec-types.ts';

export const CONTROLLERS_CONFIGURATION_NAME = 'default';

const reconcilerPeriod = v.optional(
  v.pipe(DurationText, v.description('Interval of the periodic resync; "5m" unless set.')),
);
const state = v.optional(
  v.pipe(
    Switch,
    v.description(
      'Whether the controller runs; "Enabled" unless set, for those that have work on the datastore. ENABLED_CONTROLLERS takes precedence.',
    ),
  ),
);
const Controller = v.pipe(
  v.looseObject({ state, reconcilerPeriod }, 'an object with state and reconcilerPeriod'),
  v.readonly(),
);

const GENERATE_NAME = 'lower-case letters, digits and "-", at most 63 characters';
const Template = v.pipe(
  v.looseObject(
    {
      generateName: v.pipe(
        v.string(GENERATE_NAME),
        v.check(isDnsLabel, GENERATE_NAME),
        v.description('Makes the name: `<node>-<generateName>-auto-hep`.'),
      ),
      interfaceCIDRs: v.pipe(
        v.array(CidrText, 'an array of CIDRs'),
        v.minLength(1, 'at least one CIDR'),
        v.readonly(),
        v.description(
          'The endpoint is the interfaces of the node with its addresses in these ranges; a node without such an address gets none.',
        ),
      ),
      labels: v.optional(
        v.pipe(LABELS, v.description('Labels besides those of the node, over which they take precedence.')),
      ),
      nodeSelector: v.optional(v.pipe(SelectorText, v.description('Nodes that get it; all of them unless set.'))),
    },
    'an object with generateName and interfaceCIDRs',
  ),
  v.readonly(),
);
/** Makes one more automatic host endpoint on each node that it selects. */
export type HostEndpointTemplate = v.InferOutput<typeof Template>;

const HostEndpoints = v.pipe(
  v.looseObject(
    {
      autoCreate: v.optional(
        v.pipe(
          Switch,
          v.description(
            'Whether every node gets a host endpoint for all its interfaces, with the labels of the node and a profile that allows everything; "Disabled" unless set.',
          ),
        ),
      ),
      createDefaultHostEndpoint: v.optional(
        v.pipe(
          Switch,
          v.description(
            'With autoCreate: whether there is an endpoint for all interfaces besides those of the templates; "Enabled" unless set.',
          ),
        ),
      ),
      templates: v.optional(
        v.pipe(
          v.array(Template, 'an array of objects with generateName and interfaceCIDRs'),
          v.check(
            (all) => new Set(all.map(({ generateName }) => generateName)).size === all.length,
            'each generateName at most once',
          ),
          v.readonly(),
          v.description('With autoCreate: more endpoints for each node, by the addresses of their interfaces.'),
        ),
      ),
    },
    'an object with autoCreate',
  ),
  v.readonly(),
);

const NodeController = v.pipe(
  v.looseObject(
    {
      state,
      reconcilerPeriod,
      syncLabels: v.optional(
        v.pipe(
          Switch,
          v.description('Whether labels of the orchestrator\'s nodes are copied to netplug\'s; "Enabled" unless set.'),
        ),
      ),
      hostEndpoint: v.optional(v.pipe(HostEndpoints, v.description('Automatic host endpoints.'))),
      leakGracePeriod: v.optional(
        v.pipe(DurationText, v.description('Time after which an address without a pod is released; "15m" unless set.')),
      ),
    },
    'an object with hostEndpoint and the like',
  ),
  v.readonly(),
);

const Controllers = v.pipe(
  v.looseObject(
    {
      node: v.optional(v.pipe(NodeController, v.description('Watches nodes.'))),
      policy: v.optional(v.pipe(Controller, v.description("Copies the orchestrator's policies to the kv datastore."))),
      profile: v.optional(
        v.pipe(Controller, v.description('Makes profiles of namespaces and service accounts on the kv datastore.')),
      ),
      workloadEndpoint: v.optional(
        v.pipe(
          Controller,
          v.description(
            'Keeps labels, service accounts and ports of endpoints as those of their pods, on the kv datastore.',
          ),
        ),
      ),
    },
    'an object with node, policy, profile or workloadEndpoint',
  ),
  v.readonly(),
);

const CONTROLLERS_CONFIGURATION_FIELDS = {
  logSeverityScreen: v.optional(
    v.pipe(LogSeverity, v.description('Least severe level that is logged; "Info" unless set.')),
  ),
  controllers: v.optional(v.pipe(Controllers, v.description('Settings of each controller.'))),
};

export type ControllersConfigurationSpec = Readonly<
  v.InferOutput<v.ObjectSchema<typeof CONTROLLERS_CONFIGURATION_FIELDS, undefined>>
>;
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
