import { LOG_LEVELS, type LogLevel } from '../base/log.ts';
import type { AgentConfiguration, AgentConfigurationSpec } from '../model/agent-configuration.ts';
import { ENVIRONMENT, type Env, isSet, readVariable } from './environment.ts';
import { given } from '../base/given.ts';

/** The settings of an agent with a value for each. */
export type EffectiveSettings = {
  readonly [Name in keyof AgentConfigurationSpec]-?: NonNullable<AgentConfigurationSpec[Name]>;
};

/** One setting: its value and where it comes from. */
export interface ExplainedSetting {
  readonly name: keyof EffectiveSettings;
  /** Value as JSON. */
  readonly value: string;
  /** `NETPLUG_WARM_POOL_SIZE`, `AgentConfiguration node.a`, `AgentConfiguration default` or `built in`. */
  readonly source: string;
}

/** UDP 3784 and 4784 are those of BFD, to peers in the own subnet and behind a router. */
const CLUSTER_PORTS = [
  ...[179, 2379, 2380, 5473, 6443, 6666, 6667].map((port) => ({ protocol: 'TCP', port }) as const),
  ...[3784, 4784].map((port) => ({ protocol: 'UDP', port }) as const),
];

const BUILT_IN: EffectiveSettings = {
  logSeverityScreen: 'Info',
  warmPoolSize: Number(ENVIRONMENT.NETPLUG_WARM_POOL_SIZE.byDefault),
  vxlanChecksums: 'auto',
  failsafeInboundHostPorts: [{ protocol: 'TCP', port: 22 }, ...CLUSTER_PORTS, { protocol: 'UDP', port: 68 }],
  failsafeOutboundHostPorts: [{ protocol: 'UDP', port: 53 }, { protocol: 'UDP', port: 67 }, ...CLUSTER_PORTS],
  // Kubernetes says that a pod and its node always reach each other.
  defaultEndpointToHostAction: 'Accept',
  policyLogPrefix: 'netplug',
  policyEntriesPerPolicy: 131_072,
  policyEntriesPerNamespace: 524_288,
  policyEntriesPerNode: 1_048_576,
  keepEstablishedFlows: false,
  applicationLayerTrustDomains: ['cluster.local'],
  applicationLayerIdentity: 'AddressOrCertificate',
  applicationLayerProof: 'Filter',
};

/** Returns what happens to packets from pods to their node. `Return` leaves them to the rules of the host. */
export function endpointToHostAction({
  defaultEndpointToHostAction: action,
}: Pick<EffectiveSettings, 'defaultEndpointToHostAction'>): 'Accept' | 'Drop' {
  return action === 'Drop' ? 'Drop' : 'Accept';
}

/** Returns the level of the agent's log. */
export function logLevelOf({ logSeverityScreen }: Pick<EffectiveSettings, 'logSeverityScreen'>): LogLevel {
  return LOG_LEVELS.find((level) => level === logSeverityScreen.toUpperCase()) ?? 'INFO';
}

/** Name of the AgentConfiguration of one node. */
export function ownConfigurationName(node: string): string {
  return `node.${node}`;
}

/** Returns each setting of the agent: of the environment, else of its own AgentConfiguration, else of the default one. */
export function agentSettings(
  env: Env,
  node: string,
  configurations: readonly AgentConfiguration[],
): { readonly settings: EffectiveSettings; readonly explained: readonly ExplainedSetting[] } {
  const named = (name: string): AgentConfigurationSpec | undefined =>
    configurations.find(({ metadata }) => metadata.name === name)?.spec;
  const own = ownConfigurationName(node);
  const levels: readonly (readonly [source: string, spec: AgentConfigurationSpec])[] = [
    [
      'NETPLUG_WARM_POOL_SIZE',
      isSet(env, 'NETPLUG_WARM_POOL_SIZE') ? { warmPoolSize: readVariable(env, 'NETPLUG_WARM_POOL_SIZE') } : {},
    ],
    [
      'NETPLUG_VXLAN_CHECKSUMS',
      isSet(env, 'NETPLUG_VXLAN_CHECKSUMS') ? { vxlanChecksums: readVariable(env, 'NETPLUG_VXLAN_CHECKSUMS') } : {},
    ],
    [`AgentConfiguration ${own}`, named(own) ?? {}],
    ['AgentConfiguration default', named('default') ?? {}],
    ['built in', BUILT_IN],
  ];
  const settings: EffectiveSettings = { ...BUILT_IN };
  for (const [, spec] of levels.toReversed()) Object.assign(settings, given(spec));
  // The keys of the table are the names of the settings; the compiler widens them to strings.
  const names = Object.keys(BUILT_IN) as readonly (keyof EffectiveSettings)[];
  return {
    settings,
    explained: names.map((name) => ({
      name,
      value: JSON.stringify(settings[name]),
      source: levels.find(([, spec]) => spec[name] !== undefined)?.[0] ?? 'built in',
    })),
  };
}
