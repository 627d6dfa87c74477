import { expect, it } from 'vitest';
import type { Node } from '../../../../src/model/node.ts';
import { unavailableCondition } from '../../../../src/model/node-readiness.ts';
import type { NodeMachine, NodeReport } from '../../../../src/model/node-report.ts';
import { API_VERSION } from '../../../../src/model/resource.ts';
import { type Bench, expectCode, never, type StoreTraits } from './bench.ts';
import { ClusterFollower } from './cluster-follower.ts';
import type { NodeFacts } from '../../../../src/datastore/node-status-store.ts';
import type { Store } from '../../../../src/datastore/store.ts';

const FACTS: Required<NodeFacts> = {
  ipv4Address: '192.0.2.7/24',
  ipv6Address: '2001:db8::7/64',
  ipv4VXLANTunnelAddr: '10.0.0.1',
  vxlanTunnelMACAddr: '0a:00:00:00:00:01',
  ipv6VXLANTunnelAddr: 'fd00::1',
  vxlanTunnelMACAddrV6: '0a:00:00:00:00:02',
  ipv4IPIPTunnelAddr: '10.0.0.2',
  netplugVersion: 'v3.27.0',
};

const UP = unavailableCondition([]);

/** Registers what holds of `publishNode`, `claimName` and `reportConditions` in every datastore. `parts` is asked when a test runs. */
export function publishContract(
  parts: () => { readonly store: Store; readonly other: Store },
  { bench, traits }: { readonly bench: Bench; readonly traits: StoreTraits },
): void {
  const [a] = bench.nodes;
  const node = async (): Promise<Node> => {
    const found = await parts().store.findResource({ kind: 'Node', name: a }, never);
    if (found === undefined) throw new Error('no node');
    return found;
  };
  const version = async (): Promise<string | undefined> => (await node()).metadata.resourceVersion;

  it('writes the given facts to the node, and removes facts that are no longer given', async () => {
    const { store, other } = parts();
    await bench.makeNode(a);
    await bench.labelNode(a, { rack: '7' });
    await store.publishNode(a, FACTS, never);
    const { ipv4Address, ipv6Address, ...others } = FACTS;
    expect(await node()).toMatchObject({
      metadata: { labels: { rack: '7' } },
      spec: { bgp: { ipv4Address, ipv6Address }, ...others },
    });
    await other.publishNode(a, { ipv6Address, ipv4VXLANTunnelAddr: '10.0.0.9' }, never);
    const { metadata, spec } = await node();
    expect(metadata.labels).toMatchObject({ rack: '7' });
    expect(spec.bgp).toEqual({ ipv6Address });
    expect(Object.keys(spec).filter((field) => field in FACTS)).toEqual(['ipv4VXLANTunnelAddr']);
    await store.publishNode(a, {}, never);
    expect((await node()).spec.bgp).toBeUndefined();
  });

  it('writes nothing when the node has these facts already', async () => {
    await bench.makeNode(a);
    await parts().store.publishNode(a, FACTS, never);
    const before = await version();
    await parts().other.publishNode(a, FACTS, never);
    expect(await version()).toBe(before);
  });

  it('is seen by watches of the cluster', async () => {
    await bench.makeNode(a);
    const follower = new ClusterFollower(parts().other);
    await follower.started();
    await parts().store.publishNode(a, FACTS, never);
    expect(await follower.sees(1)).toEqual([`Node/${a}`]);
    expect(follower.find('Node', a)?.spec.vxlanTunnelMACAddr).toBe(FACTS.vxlanTunnelMACAddr);
    await follower.end();
  });

  if (traits.nodes === 'store') {
    it('creates a missing node, once when many try at the same time', async () => {
      const { store, other } = parts();
      await Promise.all([store, other, store].map(async (each) => each.publishNode(a, FACTS, never)));
      expect((await store.listResources('Node', never)).resources).toHaveLength(1);
      expect((await node()).spec.addresses).toEqual([
        { address: '192.0.2.7', type: 'NodeIP' },
        { address: '2001:db8::7', type: 'NodeIP' },
      ]);
    });

    it('keeps what users have written, also when they write at the same time', async () => {
      const { store, other } = parts();
      const bgp = { asNumber: 64_513, routeReflectorClusterID: '244.0.0.1', colour: 'blue' };
      const addresses = [{ address: '203.0.113.7', type: 'ExternalIP' as const }];
      const made = await store.createResource(
        { apiVersion: API_VERSION, kind: 'Node', metadata: { name: a }, spec: { bgp, addresses } },
        never,
      );
      const labelled = { ...made, metadata: { name: a, labels: { rack: '7' } } };
      await Promise.all([
        store.publishNode(a, { ipv4Address: '192.0.2.7/24' }, never),
        ...[1, 2, 3].map(async () => other.publishNode(a, { ipv4Address: '192.0.2.7/24' }, never)),
      ]);
      expect((await node()).spec).toEqual({
        bgp: { ...bgp, ipv4Address: '192.0.2.7/24' },
        addresses: [{ address: '192.0.2.7', type: 'NodeIP' }, ...addresses],
      });
      await store.updateResource(labelled, never);
      await store.publishNode(a, {}, never);
      expect(await node()).toMatchObject({ metadata: { labels: { rack: '7' } }, spec: { bgp, addresses } });
    });
  } else {
    it('fails without a node', async () => {
      await expectCode('resource/not-found', parts().store.publishNode(a, FACTS, never));
      await expectCode('resource/not-found', parts().store.publishReport(a, { problems: [] }, never));
      await expectCode('resource/not-found', parts().store.reportConditions(a, [UP], never));
    });
  }

  it('replaces the report of the node, and writes nothing when it says so already', async () => {
    const { store, other } = parts();
    await bench.makeNode(a);
    const problem = {
      code: 'network/routes',
      severity: 'error',
      text: 'routes: none',
      since: '2026-12-01T09:21:07Z',
    } as const;
    const find = async (): Promise<NodeReport | undefined> =>
      store.findResource({ kind: 'NodeReport', name: a }, never);
    await store.publishReport(a, { release: 'v3.27.0', problems: [problem] }, never);
    const first = await find();
    expect(first?.spec).toEqual({ release: 'v3.27.0', problems: [problem] });
    await other.publishReport(a, { release: 'v3.27.0', problems: [problem] }, never);
    expect((await find())?.metadata).toEqual(first?.metadata);
    await other.publishReport(a, { problems: [] }, never);
    expect((await find())?.spec).toEqual({ problems: [] });
  });

  it('records one machine that has the name of the node, and keeps it in the report', async () => {
    const { store, other } = parts();
    await bench.makeNode(a);
    const machineOf = (hostName: string): NodeMachine => ({
      id: 'i',
      runs: ['r'],
      hostName,
      renewedAt: '2026-12-01T09:21:07Z',
    });
    const names = ['h1', 'h2'];
    const claim = async (from: Store, hostName: string): Promise<NodeMachine | undefined> =>
      from.claimName(a, { machine: machineOf(hostName), mayReplace: (holder) => holder.hostName === hostName }, never);
    const holders = await Promise.all([claim(store, 'h1'), claim(other, 'h2')]);
    const winner = names[holders.indexOf(undefined)] ?? 'none';
    expect(holders.filter((holder) => holder !== undefined)).toEqual([machineOf(winner)]);
    await store.publishReport(a, { release: 'v3.27.0', problems: [] }, never);
    const refused = names.find((name) => name !== winner) ?? '';
    expect(await claim(other, refused)).toEqual(machineOf(winner));
    expect(await claim(other, winner)).toBeUndefined();
    const report = await store.findResource({ kind: 'NodeReport', name: a }, never);
    expect(report?.spec).toEqual({ release: 'v3.27.0', problems: [], machine: machineOf(winner) });
  });

  it('accepts conditions of the node', async () => {
    await bench.makeNode(a);
    await expect(parts().store.reportConditions(a, [UP], never)).resolves.toBeUndefined();
  });
}
