import { firewallInspection } from '../apps/agent/network/host/inspect-firewall.ts';
import { HostInspector } from '../apps/agent/network/host/inspect-host.ts';
import { kernelTableInspection } from '../apps/agent/network/host/inspect-kernel-tables.ts';
import { NodeNetwork } from '../apps/agent/network/node-network.ts';
import type { PolicyNetwork } from '../apps/agent/network/policy-network.ts';
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import type { HostNetwork } from '../dataplane/host-network.ts';
import { linuxPacketTables } from '../dataplane/linux/linux-packet-tables.ts';
import type { NodeTraffic } from '../install/host/firewall/traffic.ts';

const PROC = '/proc';

/** Returns what looks at the host that this process is on. */
export function hostInspectorIn({
  clock,
  log,
  host,
  network,
}: {
  readonly clock: Clock;
  readonly log: Log;
  readonly host: Pick<HostNetwork, 'listPeers' | 'listPodLinks'>;
  readonly network: NodeNetwork | PolicyNetwork;
}): HostInspector {
  // Where another plugin connects the pods, their packets are its concern.
  const traffic = (): NodeTraffic | undefined => (network instanceof NodeNetwork ? network.traffic() : undefined);
  return new HostInspector({ clock, log }, [
    firewallInspection({ procDir: PROC, tables: linuxPacketTables(), traffic }),
    kernelTableInspection({ procDir: PROC, host }),
  ]);
}
