import * as v from 'valibot';
import { column, type KindDeclaration, nameColumn } from './kind-info.ts';
import type { Resource } from './resource.ts';
import { DurationText, LogSeverity, Switch } from './spec-types.ts';

const reconcilerPeriod = v.optional(
  v.pipe(DurationText, v.description('Interval of the periodic resync; "5m" unless set.')),
);
const Controller = v.pipe(v.looseObject({ reconcilerPeriod }, 'an object with reconcilerPeriod'), v.readonly());

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
    },
    'an object with autoCreate',
  ),
  v.readonly(),
);

const NodeController = v.pipe(
  v.looseObject(
    {
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
      policy: v.optional(v.pipe(Controller, v.description("Watches the orchestrator's policies."))),
      profile: v.optional(v.pipe(Controller, v.description('Watches namespaces and maintains their profiles.'))),
      workloadEndpoint: v.optional(
        v.pipe(Controller, v.description('Watches pods and maintains the labels of their endpoints.')),
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
  enforced: false,
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
