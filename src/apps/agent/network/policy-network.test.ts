import { afterEach, expect, it } from 'vitest';
import { nodeName, nodeOf, poolOf } from '../../../../test/support/fixtures.ts';
import { hostAt, worldWith } from '../../../../test/support/networked-node.ts';
import { until } from '../../../../test/support/until.ts';
import { systemClock } from '../../../base/clock.ts';
import { silentLog } from '../../../base/log.ts';
import { systemRandom } from '../../../base/random.ts';
import { MemoryPolicyFilter } from '../../../../test/support/memory/memory-policy-filter.ts';
import type { MemoryHostNetwork } from '../../../../test/support/memory/memory-host-network.ts';
import type { TableFilter } from '../../../dataplane/policy-filter.ts';
import type { Store } from '../../../datastore/store.ts';

import { parseAddress } from '../../../net/address.ts';
import { POD_TABLE } from '../../../routing/pod-table.ts';
import { PolicyNetwork } from './policy-network.ts';
import type { NetworkSettings } from './network-settings.ts';

const never = new AbortController().signal;
const stops: AbortController[] = [];
afterEach(() => {
  for (const stop of stops.splice(0)) stop.abort();
});

function start(
  store: Store,
  {
    host = hostAt('192.0.2.1/24'),
    filter = new MemoryPolicyFilter(),
    method = 'first-found',
  }: { host?: MemoryHostNetwork; filter?: Pick<TableFilter, 'apply'>; method?: 'first-found' | 'orch-internal-ip' },
): PolicyNetwork {
  const stop = new AbortController();
  stops.push(stop);
  const settings: NetworkSettings = {
    node: nodeName('a'),
    detection: { 4: { kind: method }, 6: { kind: 'none' } },
    blockSource: 'pod-cidrs',
    birdLinks: 0,
    settingName: (variable) => variable,
    sourceCheck: 'strict',
  };
  const ports = { store, host, filter: () => filter, clock: systemClock, random: systemRandom, log: silentLog };
  const network = new PolicyNetwork(ports, settings);
  void network.run(stop.signal);
  return network;
}

it('filters the sources of pods and publishes the address of the node, and changes nothing else on the host', async () => {
  const { store } = await worldWith(poolOf('v4', '10.65.0.0/16', { vxlanMode: 'Always', natOutgoing: true }));
  await store.createResource(nodeOf('a', {}), never);
  const host = hostAt('192.0.2.1/24');
  const tables = new Map();
  const network = start(store, { host, filter: new MemoryPolicyFilter(tables) });
  await until(
    () => network.problems().length === 0,
    () =>
      `it works: ${network
        .problems()
        .map(({ text }) => text)
        .join('; ')}`,
  );
  const { spec } = (await store.findResource({ kind: 'Node', name: 'a' }, never)) ?? nodeOf('a', {});
  expect(spec.bgp?.ipv4Address).toBe('192.0.2.1/24');
  expect(spec.ipv4VXLANTunnelAddr).toBeUndefined();
  expect([...tables.keys()]).toEqual([POD_TABLE]);
  expect([host.changesMade, host.tunnels, await host.listRoutes()]).toEqual([0, [], []]);
  expect(await network.show()).toMatchObject({
    addresses: [{ address: '192.0.2.1/24', device: 'eth0' }],
  });

  host.putInterface({
    name: 'eth0',
    mtu: 1500,
    isUp: true,
    isLoopback: false,
    addresses: [{ address: parseAddress('192.0.2.9'), prefixBits: 24 }],
  });
  const published = async (): Promise<string | undefined> =>
    (await store.findResource({ kind: 'Node', name: 'a' }, never))?.spec.bgp?.ipv4Address;
  await until(async () => (await published()) === '192.0.2.9/24', 'the new address is published');
});

it('reads the InternalIP of its Node for that detection method', async () => {
  const { store } = await worldWith();
  const node = nodeOf('a', {});
  const addresses = [{ type: 'InternalIP', address: '192.0.2.2' }] as const;
  await store.createResource({ ...node, spec: { ...node.spec, addresses } }, never);
  const host = hostAt('192.0.2.1/24');
  host.putInterface({
    name: 'eth1',
    mtu: 1500,
    isUp: true,
    isLoopback: false,
    addresses: [{ address: parseAddress('192.0.2.2'), prefixBits: 24 }],
  });
  const network = start(store, { host, method: 'orch-internal-ip' });
  await until(async () => (await network.show()).addresses.length > 0, 'an address is detected');
  expect((await network.show()).addresses).toEqual([{ address: '192.0.2.2/24', device: 'eth1' }]);
});

it('names a filter that the kernel refuses as a failure, and a datastore that is away as a problem only', async () => {
  const { store } = await worldWith();
  const filter = { apply: async () => Promise.reject(new Error('no nftables')) };
  const network = start(store, { filter });
  await until(() => network.failures().some((text) => text.includes('no nftables')), 'it says so');
  const working = start(store, {});
  await until(() => working.failures().length === 0, 'the filter is in place');
  // The Node does not exist.
  await until(() => working.problems().some(({ text }) => text.startsWith('node facts')), 'it names the facts');
  expect(working.failures()).toEqual([]);
});
