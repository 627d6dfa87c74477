import type { Log } from '../../../../base/log.ts';
import { KERNEL_METRIC } from '../../../../bgp/kernel-metric.ts';
import type { HostNetwork } from '../../../../dataplane/host-network.ts';
import type { NodeName } from '../../../../model/names.ts';
import type { RoutedPool } from '../../../../routing/pool-modes.ts';

/**
 * Enables forwarding for the families of the pools. IPv4 packets of pods come by the link with the address of the node, and with BGP
 * by each link by which learned routes lead; tunnels have settings of their own. @throws kernel/failed
 */
export async function enableForwarding(
  { host, log }: { readonly host: Pick<HostNetwork, 'ensureForwarding' | 'listLearnedDevices'>; readonly log: Log },
  {
    node,
    pools,
    uplink,
  }: { readonly node: NodeName; readonly pools: readonly RoutedPool[]; readonly uplink: string | undefined },
): Promise<void> {
  const families = new Set(pools.map(({ cidr }) => cidr.base.family));
  const usesBgp = pools.some(({ cidr, open }) => cidr.base.family === 4 && open.some(({ kind }) => kind === 'bgp'));
  const learned = usesBgp ? await host.listLearnedDevices(KERNEL_METRIC) : [];
  const set = host.ensureForwarding(families, [...new Set([...(uplink === undefined ? [] : [uplink]), ...learned])]);
  if (set.length > 0) log.info('forwarding enabled', { node, set });
}
