import { expect, it } from 'vitest';
import { nodeName, nodeOf, poolOf } from '../../../../../test/support/fixtures.ts';
import { systemClock } from '../../../../base/clock.ts';
import { silentLog } from '../../../../base/log.ts';
import { MemoryHostNetwork } from '../../../../../test/support/memory/memory-host-network.ts';
import type { ClusterChange } from '../../../../cache/cluster-view.ts';
import type { RoutedBlock } from '../../../../datastore/follow.ts';
import { parseAddress } from '../../../../net/address.ts';
import { addressAt, cidrAround, parseCidr } from '../../../../net/cidr.ts';
import { ClusterState } from '../../../../routing/cluster-state.ts';
import { DesiredNetwork } from '../../../../routing/desired-network.ts';
import { RouteReconciler } from './reconcile-routes.ts';

const never = new AbortController().signal;
const SELF = nodeName('a');
const POOL = poolOf('v4', '10.64.0.0/10');
const BLOCKS = 1000;
const OWN = {
  addresses: new Map([[4, { address: parseAddress('192.0.2.1'), prefixBits: 24, device: 'eth0', mtu: 1500 }]] as const),
  tunnels: new Set<never>(),
};

function block(ordinal: number): RoutedBlock {
  const cidr = cidrAround(addressAt(parseCidr(POOL.spec.cidr), ordinal * 4), 30);
  return { cidr, node: SELF, borrowed: new Map() };
}

it('reconciles changes that arrive while it compares everything with the kernel', async () => {
  const state = new ClusterState('claims');
  const host = new MemoryHostNetwork();
  let isDue = false;
  const routes = new RouteReconciler(
    { host, log: silentLog, clock: systemClock },
    new DesiredNetwork(SELF, state),
    () => (isDue = true),
  );
  const apply = (change: ClusterChange): void => routes.replan(state.apply(change, 0));
  const blocks = Array.from({ length: BLOCKS }, (_, ordinal) => block(ordinal));
  apply({ kind: 'all', resources: [POOL, nodeOf('a')], blocks, problems: [] });
  routes.setOwnNetwork(OWN);
  await routes.reconcile(never);
  routes.requireComparison();
  const over = new AbortController();
  const comparing = routes.reconcile(never).finally(() => over.abort());
  let known = BLOCKS;
  for (; !over.signal.aborted; known += 1) {
    await new Promise(setImmediate);
    const late = block(known);
    apply({ kind: 'block', cidr: late.cidr, block: late });
  }
  await comparing;
  if (isDue) await routes.reconcile(never);
  expect(await host.listRoutes()).toHaveLength(known);
});

it('writes changes again after the kernel could not take them', async () => {
  const state = new ClusterState('claims');
  const host = new MemoryHostNetwork();
  const desired = new DesiredNetwork(SELF, state);
  const routes = new RouteReconciler({ host, log: silentLog, clock: systemClock }, desired, () => undefined);
  routes.replan(state.apply({ kind: 'all', resources: [POOL, nodeOf('a')], blocks: [], problems: [] }, 0));
  routes.setOwnNetwork(OWN);
  await routes.reconcile(never);
  const late = block(0);
  routes.replan(state.apply({ kind: 'block', cidr: late.cidr, block: late }, 0));
  host.failNextChanges(new Error('the kernel says ENOBUFS'));
  await expect(routes.reconcile(never)).rejects.toThrow('ENOBUFS');
  await routes.reconcile(never);
  expect(await host.listRoutes()).toHaveLength(1);
});
