import type { PacketTables } from '../../../../dataplane/packet-tables.ts';
import { FIREWALL_SEVERITIES, judgeFirewall } from '../../../../install/host/firewall/judge-firewall.ts';
import { kernelSource, readFilters } from '../../../../install/host/firewall/read-filters.ts';
import { type LegacyPorts, readLegacyFilters } from '../../../../install/host/firewall/read-legacy-filters.ts';
import type { NodeTraffic } from '../../../../install/host/firewall/traffic.ts';
import type { HostInspection } from './inspect-host.ts';

export const FIREWALL_INSPECTION = 'host firewall';
/** The kernel reports changes of nftables, and none of legacy iptables. */
const EVERY_MS = 60_000;
const PAUSE_MS = 10_000;

interface FirewallPorts extends LegacyPorts {
  readonly tables: PacketTables;
  /** Returns what the firewall must let pass; undefined while that is not known. */
  readonly traffic: () => NodeTraffic | undefined;
}

/** Finds chains of the host firewall that drop what the node needs. Says nothing of those that it cannot judge. */
export function firewallInspection(ports: FirewallPorts): HostInspection {
  return {
    name: FIREWALL_INSPECTION,
    everyMs: EVERY_MS,
    pauseMs: PAUSE_MS,
    inspect: async (signal) => {
      const traffic = ports.traffic();
      if (traffic === undefined) return undefined;
      const read = await readFilters(await kernelSource(ports.tables, signal), signal);
      const { filters, unread } = await readLegacyFilters(ports, signal);
      const { faults } = judgeFirewall({ filters: [...read, ...filters], unread }, traffic);
      return faults.map(({ code, found, remedy, command }) => ({
        code,
        severity: FIREWALL_SEVERITIES[code],
        text: `host firewall: ${found}`,
        remedy: command === undefined ? remedy : `${remedy}: ${command}`,
      }));
    },
  };
}
