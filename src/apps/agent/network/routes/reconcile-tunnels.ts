import { hash } from 'node:crypto';
import { isNetplugError, reasonOf } from '../../../../base/errors.ts';
import type { HostNetwork, Tunnel } from '../../../../dataplane/host-network.ts';
import type { IpamPorts } from '../../../../ipam/assign.ts';
import { ensureTunnelAddress } from '../../../../ipam/tunnel-address.ts';
import type { NodeName } from '../../../../model/names.ts';
import type { Address, Family } from '../../../../net/address.ts';
import { type Mac, macFromHash } from '../../../../net/mac.ts';
import type { ClusterState } from '../../../../routing/cluster-state.ts';
import type { OwnAddress } from '../../../../routing/plan-hops.ts';
import { openTunnels, type RoutedPool } from '../../../../routing/pool-modes.ts';
import { ENCAPSULATION_BYTES, IPV6_MIN_MTU } from '../../../../routing/tunnel-mtu.ts';
import { type TunnelKind, TUNNEL_KINDS, TUNNELS, VXLAN_PORT, VXLAN_VNI } from '../../../../routing/tunnels.ts';

export interface TunnelPorts extends IpamPorts {
  readonly host: Pick<HostNetwork, 'putTunnel' | 'removeTunnel'>;
}

/** An existing tunnel device of this node. */
export interface OwnTunnel {
  /** Whether it replaced a device of the same name, whose routes and peers are lost. */
  readonly isNew: boolean;
  readonly kind: TunnelKind;
  readonly mac: Mac;
  /** Undefined while no pool has a free one. */
  readonly address: Address | undefined;
}

export interface TunnelQuestion {
  readonly node: NodeName;
  readonly state: ClusterState;
  readonly addresses: ReadonlyMap<Family, OwnAddress>;
  /** The idle tunnels after the last run. */
  readonly idle: ReadonlySet<TunnelKind>;
  /** Returns the address that the tunnel has had. */
  readonly present: (kind: TunnelKind) => Address | undefined;
  /** Returns the address of a tunnel without the address manager. */
  readonly fixedAddress?: (kind: TunnelKind) => Address | undefined;
}

export interface ReconciledTunnels {
  readonly tunnels: readonly OwnTunnel[];
  /** Tunnels that no pool needs and that hold no address. */
  readonly idle: ReadonlySet<TunnelKind>;
  /** Reasons why tunnels that pools need are missing, a sentence each. */
  readonly problems: readonly string[];
}

/** Creates the tunnel devices that pools need and removes all others. @throws kernel/failed, store/* */
export async function reconcileTunnels(
  ports: TunnelPorts,
  question: TunnelQuestion,
  signal: AbortSignal,
): Promise<ReconciledTunnels> {
  const { state, addresses } = question;
  const idle = new Set<TunnelKind>();
  const tunnels: OwnTunnel[] = [];
  const problems: string[] = [];
  for (const kind of TUNNEL_KINDS) {
    const own = addresses.get(TUNNELS[kind].family);
    const pools = state.pools.filter((pool) => openTunnels(pool).includes(kind));
    if (own === undefined || pools.length === 0) {
      await ports.host.removeTunnel(TUNNELS[kind].device);
      if (!question.idle.has(kind)) await addressFor(ports, { ...question, kind, pools: [] }, signal);
      idle.add(kind);
      continue;
    }
    const mtu = own.mtu - ENCAPSULATION_BYTES[TUNNELS[kind].encapsulation];
    if (own.address.family === 6 && mtu < IPV6_MIN_MTU) {
      problems.push(
        `Cannot make tunnel "${TUNNELS[kind].device}": the MTU of "${own.device}" is ${String(own.mtu)}, which leaves ${String(mtu)}, and IPv6 needs ${String(IPV6_MIN_MTU)}`,
      );
      await ports.host.removeTunnel(TUNNELS[kind].device);
      continue;
    }
    try {
      tunnels.push(await ensureTunnel(ports, { ...question, kind, pools, own, mtu }, signal));
    } catch (cause) {
      if (!isNetplugError(cause, 'kernel/module-missing')) throw cause;
      problems.push(cause.message);
    }
  }
  return { tunnels, idle, problems };
}

interface TunnelTask extends TunnelQuestion {
  readonly kind: TunnelKind;
  /** The pools that need the tunnel. */
  readonly pools: readonly RoutedPool[];
}

async function ensureTunnel(
  ports: TunnelPorts,
  task: TunnelTask & { readonly own: OwnAddress; readonly mtu: number },
  signal: AbortSignal,
): Promise<OwnTunnel> {
  const { kind, own, mtu, node } = task;
  const { device, family } = TUNNELS[kind];
  const address = await addressFor(ports, task, signal).catch((cause: unknown) => {
    if (!isNetplugError(cause, 'ipam/exhausted', 'ipam/strict-affinity')) throw cause;
    ports.log.warning('tunnel address not assigned', { device, reason: reasonOf(cause) });
    return undefined;
  });
  const mac = macFromHash(hash('sha256', `${device} ${node}`, 'buffer'));
  const tunnel: Tunnel = {
    name: device,
    mtu,
    addresses: [address ?? fallbackAddress(own)].filter((each) => each !== undefined),
    encapsulation:
      kind === 'ipip4'
        ? { kind: 'ipip', local: own.address }
        : { kind: 'vxlan', mac, vni: VXLAN_VNI, port: VXLAN_PORT, local: own.address, uplink: own.device },
  };
  const outcome = await ports.host.putTunnel(tunnel);
  if (outcome !== 'unchanged') ports.log.info('tunnel device configured', { device, outcome, mtu: tunnel.mtu, family });
  return { kind, mac, address, isNew: outcome === 'replaced' };
}

/**
 * Returns the address of a device for which no pool has one. On a device without IPv4 address the kernel's reverse path
 * filter drops every packet, even in loose mode, and a device that loses its last address loses its routes.
 */
function fallbackAddress({ address }: OwnAddress): Address | undefined {
  return address.family === 4 ? address : undefined;
}

/** Returns the tunnel's address from one of the pools. Releases the address it holds when `pools` is empty. */
async function addressFor(
  ports: TunnelPorts,
  { kind, node, pools, present, fixedAddress }: TunnelTask,
  signal: AbortSignal,
): Promise<Address | undefined> {
  if (fixedAddress !== undefined) return fixedAddress(kind);
  const { device, family } = TUNNELS[kind];
  return ensureTunnelAddress(
    ports,
    { node, device, family, pools: pools.map(({ pool }) => pool), present: present(kind) },
    { signal, cleanupSignal: signal },
  );
}
