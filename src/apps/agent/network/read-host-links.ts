import type { HostNetwork } from '../../../dataplane/host-network.ts';
import { HOST_LINK_PREFIX } from '../../../dataplane/kernel.ts';
import { formatAddress } from '../../../net/address.ts';
import type { HostLinks } from '../../../policy/ruleset/policy-ruleset.ts';
import { isTunnelDevice, TUNNEL_KINDS, TUNNELS, VXLAN_PORT } from '../../../routing/tunnels.ts';

const PACKETS = {
  vxlan: { protocol: 17, port: VXLAN_PORT },
  ipip: { protocol: 4, port: undefined },
} as const;

/** Returns what host endpoints meet on the host as it is now. @throws kernel/failed */
export async function readHostLinks(host: Pick<HostNetwork, 'listAddresses' | 'findTunnels'>): Promise<HostLinks> {
  const links = await host.listAddresses();
  const devices = new Set(await host.findTunnels(TUNNEL_KINDS.map((kind) => TUNNELS[kind].device)));
  const present = TUNNEL_KINDS.filter((kind) => devices.has(TUNNELS[kind].device));
  const kinds = new Set(present.map((kind) => (kind === 'ipip4' ? 'ipip' : 'vxlan')));
  return {
    // Links of pods come and go, and no host endpoint decides there.
    interfaces: links
      .filter(({ name }) => !name.startsWith(HOST_LINK_PREFIX) && !isTunnelDevice(name))
      .map(({ name, addresses }) => ({ name, addresses: addresses.map(formatAddress) })),
    tunnels: [...kinds].map((kind) => PACKETS[kind]),
  };
}
