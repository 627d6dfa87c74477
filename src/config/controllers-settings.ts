import type { ControllersConfigurationSpec, HostEndpointTemplate } from '../model/controllers-configuration.ts';
import { tryReadDuration } from '../model/spec-types.ts';
import type { Datastore } from './connection.ts';
import { CONTROLLER_NAMES, type ControllerName } from './controller-names.ts';
import { type Env, isSet, readVariable } from './environment.ts';

/** Settings of one controller that runs. */
export interface ControllerSettings {
  /** Interval of the full comparison. */
  readonly periodMs: number;
}

export interface HostEndpointSettings {
  /** Whether there are automatic host endpoints. */
  readonly autoCreate: boolean;
  /** Whether a node gets an endpoint for all its interfaces; templates make others. */
  readonly createDefault: boolean;
  readonly templates: readonly HostEndpointTemplate[];
}

/** Settings of the node controller. */
export interface NodeControllerSettings {
  /** Whether Nodes are netplug's own records, or those of the orchestrator. */
  readonly nodeRecords: 'own' | "orchestrator's";
  readonly syncLabels: boolean;
  readonly hostEndpoints: HostEndpointSettings;
  /** For how long an address must have been without a user before it is released. */
  readonly leakGraceMs: number;
}

export interface ControllersSettings {
  /** The controllers that run. */
  readonly controllers: ReadonlyMap<ControllerName, ControllerSettings>;
  readonly node: NodeControllerSettings;
}

const LEAK_GRACE_MS = 15 * 60_000;

/** The controllers with work on a datastore. On the API the agents read policies and profiles where users write them. */
export const CONTROLLERS_ON: Readonly<Record<Datastore['type'], readonly ControllerName[]>> = {
  kvv3: CONTROLLER_NAMES,
  orch: ['workloadendpoint', 'node'],
};

const FIELDS = {
  policy: 'policy',
  profile: 'profile',
  workloadendpoint: 'workloadEndpoint',
  node: 'node',
} as const satisfies Readonly<Record<ControllerName, string>>;

/**
 * Returns the settings of the controllers: of the environment, else of the ControllersConfiguration, else built in.
 * @throws cni/env-invalid
 */
export function controllersSettings(
  env: Env,
  datastore: Datastore['type'],
  spec: ControllersConfigurationSpec = {},
): ControllersSettings {
  const named = readVariable(env, 'ENABLED_CONTROLLERS');
  const period = readVariable(env, 'RECONCILER_PERIOD');
  const running = CONTROLLERS_ON[datastore].filter((name) =>
    named === 'by configuration' ? spec.controllers?.[FIELDS[name]]?.state !== 'Disabled' : named.includes(name),
  );
  return {
    node: nodeSettings(datastore, spec),
    controllers: new Map(
      running.map((name) => {
        const configured = spec.controllers?.[FIELDS[name]]?.reconcilerPeriod;
        const isOwn = !isSet(env, 'RECONCILER_PERIOD') && configured !== undefined;
        return [name, { periodMs: isOwn ? (tryReadDuration(configured) ?? period) : period }];
      }),
    ),
  };
}

function nodeSettings(
  datastore: Datastore['type'],
  { controllers }: ControllersConfigurationSpec,
): NodeControllerSettings {
  const { syncLabels, hostEndpoint, leakGracePeriod } = controllers?.node ?? {};
  return {
    nodeRecords: datastore === 'kvv3' ? 'own' : "orchestrator's",
    syncLabels: syncLabels !== 'Disabled',
    hostEndpoints: {
      autoCreate: hostEndpoint?.autoCreate === 'Enabled',
      createDefault: hostEndpoint?.createDefaultHostEndpoint !== 'Disabled',
      templates: hostEndpoint?.templates ?? [],
    },
    leakGraceMs: (leakGracePeriod === undefined ? undefined : tryReadDuration(leakGracePeriod)) ?? LEAK_GRACE_MS,
  };
}
