import { expect, it } from 'vitest';
import { nodeName, poolOf } from '../../../../../test/support/fixtures.ts';
import { MemoryHostNetwork } from '../../../../../test/support/memory/memory-host-network.ts';
import { silentLog } from '../../../../base/log.ts';
import { KERNEL_METRIC } from '../../../../bgp/kernel-metric.ts';
import { parseCidr } from '../../../../net/cidr.ts';
import type { RoutedPool } from '../../../../routing/pool-modes.ts';
import { enableForwarding } from './enable-forwarding.ts';

const pool = (kind: 'bgp' | 'vxlan', cidr: string): RoutedPool => {
  const mode = kind === 'bgp' ? ({ kind } as const) : ({ kind, extent: 'Always' } as const);
  return { pool: poolOf(kind, cidr), cidr: parseCidr(cidr), mode, sending: [mode], open: [mode] };
};

it.each<[string, RoutedPool, readonly string[]]>([
  ['the uplink with a tunnel', pool('vxlan', '10.65.0.0/16'), ['eth0']],
  ['the uplink and links of learned routes with BGP', pool('bgp', '10.65.0.0/16'), ['eth0', 'eth1']],
  ['no link without IPv4', pool('bgp', 'fd00:65::/64'), []],
])('forwarding of IPv4 is enabled for %s', async (_claim, routed, expected) => {
  const host = new MemoryHostNetwork();
  host.addLearnedRoute({ destination: parseCidr('10.65.1.0/26'), metric: KERNEL_METRIC, device: 'eth1' });
  host.ensureForwarding(new Set([4]), []);
  for (const link of ['eth0', 'eth1']) host.stopForwarding(link);
  await enableForwarding({ host, log: silentLog }, { node: nodeName('a'), pools: [routed], uplink: 'eth0' });
  expect(['eth0', 'eth1'].filter((link) => host.forwardsFrom(link))).toEqual(expected);
});
