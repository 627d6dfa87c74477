import type { HostNetwork } from '../../../../dataplane/host-network.ts';
import { formatAddress } from '../../../../net/address.ts';
import type { ServicePort } from '../../../../model/service-endpoints.ts';
import { isPodLink, OWN_POD_LINKS, type PodLinkNames } from '../../../../policy/pod-link-names.ts';
import type { HostLinks } from '../../../../policy/ruleset/policy-ruleset.ts';
import { isTunnelDevice, TUNNEL_KINDS, TUNNELS, VXLAN_PORT } from '../../../../routing/tunnels.ts';

const PACKETS = {
  vxlan: { protocol: 17, port: VXLAN_PORT },
  ipip: { protocol: 4, port: undefined },
} as const;

export interface HostReading {
  /** What host endpoints meet there. */
  readonly links: HostLinks;
  /** Canonical texts of the addresses of all links. */
  readonly addresses: ReadonlySet<string>;
}

/** Returns the links of the host and its addresses, as they are now. @throws kernel/failed */
export async function readHost(
  host: Pick<HostNetwork, 'listAddresses' | 'findTunnels'>,
  servers: readonly ServicePort[],
  podLinks: PodLinkNames = OWN_POD_LINKS,
): Promise<HostReading> {
  const links = await host.listAddresses();
  const devices = new Set(await host.findTunnels(TUNNEL_KINDS.map((kind) => TUNNELS[kind].device)));
  const present = TUNNEL_KINDS.filter((kind) => devices.has(TUNNELS[kind].device));
  const kinds = new Set(present.map((kind) => (kind === 'ipip4' ? 'ipip' : 'vxlan')));
  const all = links.map(({ name, addresses }) => ({ name, addresses: addresses.map(formatAddress) }));
  return {
    links: {
      // Links of pods come and go, and no host endpoint decides there.
      interfaces: all.filter(({ name }) => !isPodLink(podLinks, name) && !isTunnelDevice(name)),
      tunnels: [...kinds].map((kind) => PACKETS[kind]),
      servers,
    },
    addresses: new Set(all.flatMap(({ addresses }) => addresses)),
  };
}
