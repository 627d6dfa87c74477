import { createHash } from 'node:crypto';
import { isNetplugError, reasonOf } from '../../../base/errors.ts';
import type { HostNetwork, Tunnel } from '../../../dataplane/host-network.ts';
import type { IpamPorts } from '../../../ipam/assign.ts';
import { ensureTunnelAddress } from '../../../ipam/tunnel-address.ts';
import type { NodeName } from '../../../model/names.ts';
import type { Address, Family } from '../../../net/address.ts';
import { type Mac, macFromHash } from '../../../net/mac.ts';
import type { ClusterState } from '../../../routing/cluster-state.ts';
import type { OwnAddress } from '../../../routing/plan-hops.ts';
import { openTunnels, type RoutedPool } from '../../../routing/pool-modes.ts';
import { ENCAPSULATION_BYTES } from '../../../routing/tunnel-mtu.ts';
import { type TunnelKind, TUNNEL_KINDS, TUNNELS, VXLAN_PORT, VXLAN_VNI } from '../../../routing/tunnels.ts';

export interface TunnelPorts extends IpamPorts {
  readonly host: Pick<HostNetwork, 'putTunnel' | 'removeTunnel'>;
}

/** A tunnel device of this node that is there. */
export interface OwnTunnel {
  /** Whether it was made just now: what was on one of its name before is gone. */
  readonly isNew: boolean;
  readonly kind: TunnelKind;
  readonly mac: Mac;
  /** Undefined while no pool can give one. */
  readonly address: Address | undefined;
}

export interface TunnelQuestion {
  readonly node: NodeName;
  readonly state: ClusterState;
  readonly addresses: ReadonlyMap<Family, OwnAddress>;
  /** As the last time left them. */
  readonly idle: ReadonlySet<TunnelKind>;
  /** Gives a tunnel its address without asking the address manager. */
  readonly fixedAddress?: (kind: TunnelKind) => Address | undefined;
}

export interface ReconciledTunnels {
  readonly tunnels: readonly OwnTunnel[];
  /** Tunnels that no pool asks for, and that hold nothing. */
  readonly idle: ReadonlySet<TunnelKind>;
  /** Why tunnels that pools ask for are left out, a sentence each. */
  readonly problems: readonly string[];
}

/** Makes the tunnel devices that the pools ask for, and removes the others. @throws kernel/failed, store/* */
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
    try {
      tunnels.push(await ensureTunnel(ports, { ...question, kind, pools, own }, signal));
    } catch (cause) {
      if (!isNetplugError(cause, 'kernel/module-missing')) throw cause;
      problems.push(cause.message);
    }
  }
  return { tunnels, idle, problems };
}

interface TunnelTask extends TunnelQuestion {
  readonly kind: TunnelKind;
  /** Those that ask for the tunnel. */
  readonly pools: readonly RoutedPool[];
}

async function ensureTunnel(
  ports: TunnelPorts,
  task: TunnelTask & { readonly own: OwnAddress },
  signal: AbortSignal,
): Promise<OwnTunnel> {
  const { kind, own, node } = task;
  const { device, family } = TUNNELS[kind];
  const address = await addressFor(ports, task, signal).catch((cause: unknown) => {
    if (!isNetplugError(cause, 'ipam/exhausted', 'ipam/strict-affinity')) throw cause;
    ports.log.warning('no address for a tunnel', { device, reason: reasonOf(cause) });
    return undefined;
  });
  const mac = macFromHash(createHash('sha256').update(`${device} ${node}`).digest());
  const tunnel: Tunnel = {
    name: device,
    mtu: own.mtu - ENCAPSULATION_BYTES[TUNNELS[kind].encapsulation],
    addresses: [address ?? standIn(own)].filter((each) => each !== undefined),
    encapsulation:
      kind === 'ipip4'
        ? { kind: 'ipip', local: own.address }
        : { kind: 'vxlan', mac, vni: VXLAN_VNI, port: VXLAN_PORT, local: own.address, uplink: own.device },
  };
  const outcome = await ports.host.putTunnel(tunnel);
  if (outcome !== 'unchanged') ports.log.info('tunnel device set', { device, outcome, mtu: tunnel.mtu, family });
  return { kind, mac, address, isNew: outcome === 'replaced' };
}

/**
 * What the device has while no pool gives it an address. On a device without IPv4 address the kernel's reverse path
 * filter drops every packet, even in loose mode; and a device that loses its last one loses its routes.
 */
function standIn({ address }: OwnAddress): Address | undefined {
  return address.family === 4 ? address : undefined;
}

/** Out of one of the pools; without any, an address that is held goes back. */
async function addressFor(
  ports: TunnelPorts,
  { kind, node, pools, fixedAddress }: TunnelTask,
  signal: AbortSignal,
): Promise<Address | undefined> {
  if (fixedAddress !== undefined) return fixedAddress(kind);
  const { device, family } = TUNNELS[kind];
  return ensureTunnelAddress(
    ports,
    { node, device, family, pools: pools.map(({ pool }) => pool) },
    { signal, cleanupSignal: signal },
  );
}
