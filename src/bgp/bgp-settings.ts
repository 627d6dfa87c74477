import {
  BGP_CONFIGURATION_NAME,
  type BgpConfiguration,
  type BgpConfigurationSpec,
} from '../model/bgp-configuration.ts';
import type { BfdTimers, PasswordReference } from './session.ts';

export type BgpLogSeverity = NonNullable<BgpConfigurationSpec['logSeverityScreen']>;

/** The BGP settings of a node with every default filled in. */
export interface BgpSettings {
  readonly isMeshEnabled: boolean;
  /** The AS number of nodes without one of their own. */
  readonly asNumber: number;
  readonly listenPort: number;
  readonly logSeverity: BgpLogSeverity;
  readonly meshPassword: PasswordReference | undefined;
  readonly meshRestartTimeS: number;
  readonly meshBfd: BfdTimers | undefined;
}

export const DEFAULT_PORT = 179;
export const DEFAULT_RESTART_TIME_S = 120;

/** Returns the settings of a node. The node's own configuration takes precedence for log severity and port only. */
export function bgpSettingsOf(nodeName: string, configurations: readonly BgpConfiguration[]): BgpSettings {
  const cluster = clusterConfiguration(configurations);
  const own = configurations.find(({ metadata }) => metadata.name === `node.${nodeName}`)?.spec;
  return {
    isMeshEnabled: cluster?.nodeToNodeMeshEnabled ?? true,
    asNumber: cluster?.asNumber ?? 64_512,
    listenPort: own?.listenPort ?? cluster?.listenPort ?? DEFAULT_PORT,
    logSeverity: own?.logSeverityScreen ?? cluster?.logSeverityScreen ?? 'Info',
    meshPassword: cluster?.nodeMeshPassword,
    meshRestartTimeS: cluster?.nodeMeshMaxRestartTime ?? DEFAULT_RESTART_TIME_S,
    meshBfd: cluster?.nodeMeshBfd,
  };
}

export function clusterConfiguration(configurations: readonly BgpConfiguration[]): BgpConfigurationSpec | undefined {
  return configurations.find(({ metadata }) => metadata.name === BGP_CONFIGURATION_NAME)?.spec;
}
