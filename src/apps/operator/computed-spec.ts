import { installationPoolOf } from '../../install/cluster/pool-of.ts';
import type { ClusterSettings } from '../../install/cluster/settings.ts';
import type { InstallationPool, InstallationSpec } from '../../model/installation.ts';

const SEVERITIES = { ERROR: 'Error', WARNING: 'Warning', INFO: 'Info', DEBUG: 'Debug' } as const;

/** Returns the spec with every default that the settings have. The same settings follow from it. Pure. */
export function computedSpec(
  spec: InstallationSpec,
  listed: readonly InstallationPool[],
  settings: ClusterSettings,
): InstallationSpec {
  const { ipam, bgp, mtu, hostPorts, bandwidth, policy, containerIpForwarding, detection, log, images } = settings;
  const { floatingIps, ipAddrsNoIpam } = settings;
  return {
    cni: { type: 'netplug', ipam: { type: ipam } },
    calicoNetwork: {
      ipPools: ipam === 'HostLocal' ? listed : settings.pools.map(installationPoolOf),
      bgp: switched(bgp),
      ...(mtu === undefined ? {} : { mtu }),
      hostPorts: switched(hostPorts),
      bandwidth: switched(bandwidth),
      policy: switched(policy),
      containerIPForwarding: switched(containerIpForwarding),
      floatingIPs: switched(floatingIps),
      ipAddrsNoIpam: switched(ipAddrsNoIpam),
      // The agent has the default of detection.
      ...(detection[4] === undefined ? {} : { nodeAddressDetectionV4: detection[4] }),
      ...(detection[6] === undefined ? {} : { nodeAddressDetectionV6: detection[6] }),
    },
    logging: {
      cni: {
        logSeverity: SEVERITIES[log.severity],
        logFileMaxSizeMb: log.maxSizeMb,
        logFileMaxAgeDays: log.maxAgeDays,
        logFileMaxCount: log.maxCount,
      },
    },
    registry: images.node.replace(/\/[^/]*$/, ''),
    imagePullSecrets: images.pullSecrets,
    node: settings.node,
    controllers: settings.controllers,
    controlPlaneReplicas: settings.replicas,
    deletionPolicy: spec.deletionPolicy ?? 'Orphan',
  };
}

function switched(isOn: boolean): 'Enabled' | 'Disabled' {
  return isOn ? 'Enabled' : 'Disabled';
}
