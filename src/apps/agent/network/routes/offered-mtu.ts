import { NetplugError } from '../../../../base/errors.ts';
import type { Family } from '../../../../net/address.ts';
import type { OwnAddress } from '../../../../routing/plan-hops.ts';
import { openTunnels, type RoutedPool } from '../../../../routing/pool-modes.ts';
import { podMtu } from '../../../../routing/tunnel-mtu.ts';
import { TUNNELS } from '../../../../routing/tunnels.ts';

/**
 * Returns the MTU for pods, in bytes; undefined while the node has no address, and therefore no uplink.
 * @throws kernel/failed when encapsulation leaves less than IPv6 requires
 */
export function offeredMtu(
  addresses: ReadonlyMap<Family, OwnAddress>,
  pools: readonly RoutedPool[],
): number | undefined {
  if (addresses.size === 0) return undefined;
  const offer = podMtu({
    uplinkMtus: [...addresses.values()].map(({ mtu }) => mtu),
    encapsulations: new Set(pools.flatMap(openTunnels).map((kind) => TUNNELS[kind].encapsulation)),
    hasIpv6Pods: pools.some(({ cidr }) => cidr.base.family === 6),
  });
  if (offer.kind === 'offered') return offer.mtu;
  throw new NetplugError('kernel/failed', offer.problem, {
    hint: 'Raise the MTU of the uplink, or use a pool without encapsulation',
  });
}
