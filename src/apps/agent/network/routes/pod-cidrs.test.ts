import { afterEach, describe, expect, it } from 'vitest';
import { nodeOf, poolOf } from '../../../../../test/support/fixtures.ts';
import {
  hostAt,
  routesOf,
  type RunningNode,
  startNode,
  stopNodes,
  works,
  worldWith,
} from '../../../../../test/support/networked-node.ts';
import { until } from '../../../../../test/support/until.ts';
import { isNetplugError } from '../../../../base/errors.ts';
import type { Store } from '../../../../datastore/store.ts';
import type { IpPool } from '../../../../model/ip-pool.ts';
import { formatAddress } from '../../../../net/address.ts';

const never = new AbortController().signal;
const [CIDR_A, CIDR_B, CIDR_C] = ['10.65.1.0/24', '10.65.2.0/24', '10.65.3.0/24'] as const;

afterEach(stopNodes);

function start(store: Store, name: string, address: string): RunningNode {
  return startNode(name, { store, host: hostAt(address), blockSource: 'pod-cidrs' });
}

/** Sets the pod CIDRs of a node as the orchestrator does, whatever the agent writes meanwhile. */
async function givePodCidrs(store: Store, name: string, podCIDRs: readonly string[]): Promise<void> {
  await until(async () => {
    const found = await store.findResource({ kind: 'Node', name }, never);
    const node = found ?? nodeOf(name);
    const given = { ...node, spec: { ...node.spec, podCIDRs: [...podCIDRs] } };
    const written = found === undefined ? store.createResource(given, never) : store.updateResource(given, never);
    return written.then(
      () => true,
      (cause: unknown) => {
        if (!isNetplugError(cause, 'resource/exists', 'resource/changed')) throw cause;
        return false;
      },
    );
  }, `${name} has its pod CIDRs`);
}

/** Destinations that BIRD is the origin of. */
function announcedBy({ bird }: RunningNode): readonly string[] {
  return [...bird.text.matchAll(/^ *route (\S+)/gm)].map(([, cidr]) => cidr ?? '').toSorted();
}

async function untilRoutes(node: RunningNode, expected: Record<string, string>): Promise<void> {
  const isThere = async (): Promise<boolean> => {
    const routes = await routesOf(node);
    return (
      Object.keys(routes).length === Object.keys(expected).length &&
      Object.entries(expected).every(([cidr, hop]) => routes[cidr] === hop)
    );
  };
  await until(isThere, 'the routes are there').catch(() => undefined);
  expect(await routesOf(node)).toEqual(expected);
}

describe('with USE_POD_CIDR', () => {
  it.each<[string, IpPool, Record<string, string>]>([
    [
      'straight in its subnet and by VXLAN elsewhere',
      poolOf('pods', '10.65.0.0/16', { vxlanMode: 'CrossSubnet' }),
      { [CIDR_B]: '192.0.2.2 eth0', [CIDR_C]: '10.65.3.1 vxlan.netplug' },
    ],
    [
      'straight in its subnet and by IP-in-IP elsewhere',
      poolOf('pods', '10.65.0.0/16', { ipipMode: 'CrossSubnet' }),
      { [CIDR_B]: '192.0.2.2 eth0', [CIDR_C]: '198.51.100.3 ipip.netplug' },
    ],
    [
      'by VXLAN everywhere',
      poolOf('pods', '10.65.0.0/16', { vxlanMode: 'Always' }),
      { [CIDR_B]: '10.65.2.1 vxlan.netplug', [CIDR_C]: '10.65.3.1 vxlan.netplug' },
    ],
  ])('a node reaches the pod CIDRs of others %s [auth-podcidr]', async (_how, pool, routes) => {
    const { store } = await worldWith(pool);
    for (const [name, cidr] of Object.entries({ a: CIDR_A, b: CIDR_B, c: CIDR_C }))
      await givePodCidrs(store, name, [cidr]);
    const a = start(store, 'a', '192.0.2.1/24');
    await works(a, start(store, 'b', '192.0.2.2/24'), start(store, 'c', '198.51.100.3/24'));
    await untilRoutes(a, { [CIDR_A]: 'blackhole', ...routes });
    expect((await store.listBlocks(never)).blocks).toEqual([]);
  });

  it('routes follow pod CIDRs that appear, change and disappear after the start [auth-podcidr]', async () => {
    const { store } = await worldWith(poolOf('pods', '10.65.0.0/16', { vxlanMode: 'Always' }));
    const [a, b] = [start(store, 'a', '192.0.2.1/24'), start(store, 'b', '192.0.2.2/24')];
    await until(
      () => a.network.problems().length > 0 && a.registered.length > 0,
      () =>
        a.network
          .problems()
          .map(({ text }) => text)
          .join('\n'),
    );
    const tunnelAddresses = (): readonly string[] =>
      a.host.tunnels.flatMap(({ addresses }) => addresses.map(formatAddress));
    expect(a.network.failures()).toEqual([]);
    expect(a.network.problems()).toMatchObject([
      { text: 'routes: USE_POD_CIDR is set, and Node "a" has no pod CIDRs' },
    ]);
    await givePodCidrs(store, 'a', [CIDR_A]);
    await givePodCidrs(store, 'b', [CIDR_B]);
    await works(a, b);
    await untilRoutes(a, { [CIDR_A]: 'blackhole', [CIDR_B]: '10.65.2.1 vxlan.netplug' });
    await untilRoutes(b, { [CIDR_B]: 'blackhole', [CIDR_A]: '10.65.1.1 vxlan.netplug' });
    expect(tunnelAddresses()).toEqual(['10.65.1.1']);

    await givePodCidrs(store, 'a', [CIDR_C]);
    await untilRoutes(a, { [CIDR_C]: 'blackhole', [CIDR_B]: '10.65.2.1 vxlan.netplug' });
    await untilRoutes(b, { [CIDR_B]: 'blackhole', [CIDR_C]: '10.65.3.1 vxlan.netplug' });
    expect(tunnelAddresses()).toEqual(['10.65.3.1']);

    await givePodCidrs(store, 'a', []);
    await untilRoutes(b, { [CIDR_B]: 'blackhole' });
  });

  it('BGP announces pod CIDRs that appear and change, but never those of a pool that is not exported [auth-podcidr, ann-routes]', async () => {
    const hidden = poolOf('hidden', '10.66.0.0/16', { disableBGPExport: true });
    const { store } = await worldWith(poolOf('pods', '10.65.0.0/16'), poolOf('pods6', 'fd00:65::/48'), hidden);
    const a = start(store, 'a', '192.0.2.1/24');
    await until(() => a.bird.isRunning, 'BIRD runs');
    expect(announcedBy(a)).toEqual([]);
    for (const [given, announced] of [
      [
        [CIDR_A, 'fd00:65:0:1::/64'],
        [CIDR_A, 'fd00:65:0:1::/64'],
      ],
      [[CIDR_B], [CIDR_B]],
      [['10.66.1.0/24'], []],
      [[CIDR_C, '10.67.1.0/24'], [CIDR_C]],
      [[], []],
    ] as const) {
      await givePodCidrs(store, 'a', given);
      await until(
        () => announcedBy(a).join() === announced.join(),
        () => `${announced.join()} is announced, and not ${announcedBy(a).join()}`,
      );
      await untilRoutes(a, Object.fromEntries(given.map((cidr) => [cidr, 'blackhole'])));
    }
  });
});
