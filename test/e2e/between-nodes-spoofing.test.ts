// What pods and strangers try against nodes that agents keep.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Fabric, type FabricPod, startFabric } from '../support/fabric.ts';
import { pairsOf, pingOnce, expectReached } from '../support/traffic.ts';
import { until } from '../support/until.ts';
import { isReceived, sendVxlan } from '../support/vxlan-frames.ts';

const FAMILIES = ['ipv4', 'ipv6'] as const;
const DEVICES = { ipv4: 'vxlan.netplug', ipv6: 'vxlan6.netplug' } as const;

/** The agent looks every ten seconds. */
const LOOK_MS = 15_000;

let fabric: Fabric;
let pods: FabricPod[];
beforeAll(async () => {
  fabric = await startFabric({ nodes: { n1: 'a', n2: 'b' } });
  await fabric.setPools({ vxlanMode: 'Always', natOutgoing: true });
  await fabric.startAgents();
  pods = await fabric.podOnEach();
  await expectReached(pairsOf(pods), () => fabric.logs());
});
afterAll(async () => fabric?.[Symbol.asyncDispose]());

describe.each(FAMILIES)('a tunnel packet over %s', (family) => {
  const isTaken = async (from: keyof typeof SENDERS, by: string): Promise<boolean> => {
    const node = fabric.node(by);
    const sender = SENDERS[from]().netns;
    return isReceived(node.netns, DEVICES[family], async () => sendVxlan({ from: sender, to: node.addresses[family] }));
  };

  it('is accepted from another node, but not from outside or from a pod', async () => {
    expect(await isTaken('n2', 'n1')).toBe(true);
    expect(await isTaken('world', 'n1')).toBe(false);
    expect(await isTaken('pod of n1', 'n1')).toBe(false);
    // Its node would send it with its own address, as natOutgoing wants it.
    expect(await isTaken('pod of n1', 'n2')).toBe(false);
  });

  it('is accepted from a joining node as soon as its pods are reachable', async () => {
    const n3 = await fabric.addNode(`n3${family}`, 'a');
    await n3.startAgent();
    const pod = await n3.pod();
    await expectReached([{ from: pods[0]!, to: pod }], () => fabric.logs());
    await expectReached(pairsOf([...pods, pod]));
    await n3[Symbol.asyncDispose]();
  });
});

const SENDERS = {
  n2: () => fabric.node('n2'),
  world: () => fabric.world,
  'pod of n1': () => pods[0]!,
} as const;

describe('a pod', () => {
  it('reaches nothing when it sends with the address of another pod', async () => {
    const [own, other] = [pods[0]!, pods[1]!];
    const node = fabric.node('n1');
    await own.netns.exec('ip', 'address', 'add', `${other.addresses.ipv6}/128`, 'dev', 'lo');
    await node.machine.exec('nft', COUNT);
    await own.netns
      .exec('ping', '-n', '-c', '1', '-W', '1', '-I', other.addresses.ipv6, node.addresses.ipv6)
      .catch(() => undefined);
    expect(await node.machine.exec('nft', 'list', 'table', 'inet', 'seen')).toContain('packets 0 ');
    await own.netns.exec('ip', 'address', 'del', `${other.addresses.ipv6}/128`, 'dev', 'lo');
    expect(await pingOnce(own.netns, node.addresses.ipv6)).toBeUndefined();
    expect(await node.machine.exec('nft', 'list', 'table', 'inet', 'seen')).not.toContain('packets 0 ');
    await node.machine.exec('nft', 'delete', 'table', 'inet', 'seen');
  });

  it('is limited to its own addresses again after a removed table is restored', async () => {
    const { machine } = fabric.node('n1');
    const tables = ['netplug-pods', 'netplug-tunnels'];
    const shown = async (): Promise<readonly string[]> => {
      const ruleset = await machine.exec('nft', 'list', 'ruleset');
      return tables.filter((table) => ruleset.includes(`table inet ${table} `));
    };
    expect(await shown()).toEqual(tables);
    for (const table of tables) await machine.exec('nft', 'delete', 'table', 'inet', table);
    await until(async () => (await shown()).length === tables.length, 'both tables are back', LOOK_MS, 500);
  });
});

/** What pods send to the host by IPv6, as far as it gets in. */
const COUNT = `table inet seen {
  chain input { type filter hook input priority 100; iifname "npl*" icmpv6 type echo-request counter; }
}`;
