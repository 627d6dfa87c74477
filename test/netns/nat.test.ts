// A node with pods, and a machine outside behind it: who a packet seems to come from, and where it ends up.
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { networkOf } from '../contract/suites/dataplane/kernel.ts';
import { reconcileNat } from '../../src/apps/agent/network/routes/reconcile-nat.ts';
import { linuxKernel } from '../../src/dataplane/linux/linux-kernel.ts';
import { NftPolicyFilter } from '../../src/dataplane/linux/nft-policy-filter.ts';
import type { FilterTable } from '../../src/dataplane/policy-filter.ts';
import { parseAddress } from '../../src/net/address.ts';
import { parseCidr } from '../../src/net/cidr.ts';
import { NAT_TABLE, type NatInput, renderNat } from '../../src/routing/nat-table.ts';
import { type TestNetns, enterNetns, newNetns } from '../support/netns.ts';
import { answerInside, askFrom, converseFrom } from '../support/tcp-echo.ts';

const signal = new AbortController().signal;
const scope = new AsyncDisposableStack();
const NOTHING: NatInput = { natPools: [], allPools: [], floating: [], tunnels: [] };

let filter: NftPolicyFilter;

let node: TestNetns;
let outside: TestNetns;
/** `one` has floating addresses, `three` is of a pool without `natOutgoing`. */
let one: TestNetns;
let two: TestNetns;
let three: TestNetns;
/** Another node, behind the tunnel device `tun0`; it knows no address of this node but that of the device. */
let remote: TestNetns;

const ADDRESSES = {
  IPv4: {
    node: '198.51.100.1',
    outside: '198.51.100.2',
    one: '10.65.0.1',
    two: '10.65.0.2',
    three: '10.66.0.1',
    inAnotherPool: '10.67.0.1',
    floating: '203.0.113.1',
    alsoFloating: '203.0.113.2',
    tunnel: '10.65.9.1',
    remote: '10.65.3.1',
  },
  IPv6: {
    node: '2001:db8:1::1',
    outside: '2001:db8:1::2',
    one: 'fd00:65::1',
    two: 'fd00:65::2',
    three: 'fd00:66::1',
    inAnotherPool: 'fd00:67::1',
    floating: '2001:db8:f::1',
    alsoFloating: '2001:db8:f::2',
    tunnel: 'fd00:65:0:9::1',
    remote: 'fd00:65:0:3::1',
  },
} as const;

const FAMILIES = [ADDRESSES.IPv4, ADDRESSES.IPv6];

const INPUT: NatInput = {
  natPools: ['10.65.0.0/16', 'fd00:65::/48'].map(parseCidr),
  allPools: ['10.65.0.0/16', '10.66.0.0/16', '10.67.0.0/16', 'fd00:65::/48', 'fd00:66::/48', 'fd00:67::/48'].map(
    parseCidr,
  ),
  floating: FAMILIES.flatMap((family) => [
    floating(family.floating, family.one),
    floating(family.alsoFloating, family.one),
  ]),
  tunnels: ['tun0'],
};

beforeAll(async () => {
  node = scope.use(await newNetns());
  outside = scope.use(await newNetns());
  remote = scope.use(await newNetns());
  const inside = enterNetns(node);
  scope.defer(() => {
    inside.leave();
  });
  filter = scope.use(NftPolicyFilter.open());
  await node.exec('sysctl', '-qw', 'net.ipv4.ip_forward=1', 'net.ipv6.conf.all.forwarding=1');
  await connectNode('up0', outside);
  await connectNode('tun0', remote);
  for (const family of FAMILIES) {
    const isV4 = family === ADDRESSES.IPv4;
    const [network, host] = isV4 ? ['24', '32'] : ['64', '128'];
    await node.addAddress(`${family.node}/${network}`, 'up0');
    await outside.addAddress(`${family.outside}/${network}`, 'eth0');
    await outside.addAddress(`${family.inAnotherPool}/${host}`, 'lo');
    await node.exec('ip', 'route', 'add', isV4 ? '0.0.0.0/0' : '::/0', 'via', family.outside);
    await outside.exec('ip', 'route', 'add', isV4 ? '0.0.0.0/0' : '::/0', 'via', family.node);
    await node.addAddress(`${family.tunnel}/${host}`, 'tun0');
    await remote.addAddress(`${family.remote}/${host}`, 'eth0');
    await node.exec('ip', 'route', 'add', `${family.remote}/${host}`, 'dev', 'tun0');
    await remote.exec('ip', 'route', 'add', `${family.tunnel}/${host}`, 'dev', 'eth0');
  }
  one = await newPod('one');
  two = await newPod('two');
  three = await newPod('three');
  for (const [name, netns] of Object.entries({ one, two, outside, remote })) {
    scope.use(await answerInside(netns, name));
  }
  await isChangedBy(INPUT);
});

afterEach(async () => {
  await isChangedBy(INPUT);
});

afterAll(async () => scope.disposeAsync());

describe.each(Object.entries(ADDRESSES))('%s', (_name, at) => {
  it('has the address of the node outside when the pool has natOutgoing [net-nat]', async () => {
    expect(await askFrom(two, at.outside)).toBe(`outside ${at.node}`);
  });

  it('keeps the address of the pod outside when the pool has no natOutgoing', async () => {
    expect(await askFrom(three, at.outside)).toBe(`outside ${at.three}`);
  });

  it('keeps the address of the pod towards another pool, another pod and the node', async () => {
    using _answers = await answerInside(node, 'node');
    expect(await askFrom(two, at.inAnotherPool)).toBe(`outside ${at.two}`);
    expect(await askFrom(two, at.one)).toBe(`one ${at.two}`);
    expect(await askFrom(two, at.node)).toBe(`node ${at.two}`);
    expect(await askFrom(one, at.node)).toBe(`node ${at.one}`);
  });

  it("reaches the pod of a floating address from outside, another pod and the node, with the client's address [net-floating]", async () => {
    for (const floating of [at.floating, at.alsoFloating]) {
      expect(await askFrom(outside, floating)).toBe(`one ${at.outside}`);
      expect(await askFrom(two, floating)).toBe(`one ${at.two}`);
      expect(await askFrom(node, floating)).toBe(`one ${at.node}`);
    }
  });

  it('leads a pod that connects to its own floating address back to itself', async () => {
    expect(await askFrom(one, at.floating)).toBe(`one ${at.floating}`);
    expect(await askFrom(one, at.alsoFloating)).toBe(`one ${at.floating}`);
  });

  it('has the first floating address of the pod outside, and the address of the pod elsewhere', async () => {
    expect(await askFrom(one, at.outside)).toBe(`outside ${at.floating}`);
    expect(await askFrom(one, at.inAnotherPool)).toBe(`outside ${at.one}`);
    expect(await askFrom(one, at.two)).toBe(`two ${at.one}`);
  });

  it('of the host enters a tunnel with the tunnel address, whatever address it is bound to', async () => {
    expect(await askFrom(node, at.remote, at.node)).toBe(`remote ${at.tunnel}`);
    expect(await askFrom(node, at.remote)).toBe(`remote ${at.tunnel}`);
    await isChangedBy({ ...INPUT, tunnels: [] });
    await expect(askFrom(node, at.remote, at.node)).rejects.toThrow('aborted');
  });

  it('is not translated when no rule is desired', async () => {
    const nothing = { ...NOTHING, allPools: INPUT.allPools };
    await filter.remove(NAT_TABLE, signal);
    expect(await isChangedBy(nothing)).toBe(false);
    expect(await node.exec('nft', 'list', 'ruleset')).toBe('');
    expect(await askFrom(two, at.outside)).toBe(`outside ${at.two}`);
    await expect(askFrom(two, at.floating)).rejects.toThrow('aborted');
  });

  it('always meets the table while it is replaced', async () => {
    using conversation = await converseFrom(two, at.outside);
    const replacing = { isOver: false };
    const replaced = replaceOften().finally(() => {
      replacing.isOver = true;
    });
    const seen: string[] = [];
    while (!replacing.isOver) {
      seen.push(await conversation.echo('still there'), await askFrom(two, at.outside));
      seen.push(await askFrom(outside, at.floating), await askFrom(one, at.floating));
    }
    await replaced;
    const expected = ['still there', `outside ${at.node}`, `one ${at.outside}`, `one ${at.floating}`];
    expect(new Set(seen)).toEqual(new Set(expected));
    expect(seen.length).toBeGreaterThan(100);
  });

  it('continues in established connections when the table is replaced and changed', async () => {
    using toOutside = await converseFrom(two, at.outside);
    using fromFloating = await converseFrom(one, at.outside);
    using toFloating = await converseFrom(outside, at.floating);
    using toItself = await converseFrom(one, at.floating);
    using toTunnel = await converseFrom(node, at.remote, at.node);
    const open = [toOutside, fromFloating, toFloating, toItself, toTunnel];
    const expectFlow = async (text: string) =>
      expect(await Promise.all(open.map(async (conversation) => conversation.echo(text)))).toEqual(
        open.map(() => text),
      );
    await expectFlow('before');
    using next = NftPolicyFilter.open();
    await next.apply(withOtherIds(renderNat(INPUT)), { signal });
    await expectFlow('after each rule was replaced');
    expect(await isChangedBy(INPUT)).toBe(true);
    expect(await reconcileNat(next, INPUT, signal)).toEqual({ chains: 0, sets: 0, elements: 0 });
    await expectFlow('after the same table from a new filter');
    const third = at === ADDRESSES.IPv4 ? '203.0.113.3' : '2001:db8:f::3';
    const more = { ...INPUT, floating: [...INPUT.floating, floating(third, at.two)] };
    expect(await isChangedBy(more)).toBe(true);
    await expectFlow('after a floating address came');
    expect(await askFrom(two, at.outside)).toBe(`outside ${third}`);
    expect(await askFrom(outside, third)).toBe(`two ${at.outside}`);
    const nothing = { ...NOTHING, allPools: INPUT.allPools };
    expect(await isChangedBy(nothing)).toBe(true);
    await expectFlow('after nothing is to be translated any more');
    expect(await askFrom(two, at.outside)).toBe(`outside ${at.two}`);
  });

  it('is translated again after a removed table is restored', async () => {
    await node.exec('nft', 'delete', 'table', 'inet', NAT_TABLE);
    expect(await askFrom(two, at.outside)).toBe(`outside ${at.two}`);
    expect(await isChangedBy(INPUT)).toBe(true);
    expect(await askFrom(two, at.outside)).toBe(`outside ${at.node}`);
    expect(await askFrom(outside, at.floating)).toBe(`one ${at.outside}`);
    expect(await isChangedBy(INPUT)).toBe(false);
  });
});

describe('a table of another program', () => {
  it('stays unchanged', async () => {
    await node.exec('nft', 'add', 'table', 'inet', 'foreign');
    const chain = '{ type nat hook postrouting priority 90; }';
    await node.exec('nft', 'add', 'chain', 'inet', 'foreign', 'postrouting', chain);
    await node.exec('nft', 'add', 'rule', 'inet', 'foreign', 'postrouting', 'ip daddr 192.0.2.99 masquerade');
    const before = await node.exec('nft', '-a', 'list', 'table', 'inet', 'foreign');
    await isChangedBy({ ...INPUT, floating: [] });
    await isChangedBy(NOTHING);
    expect(await node.exec('nft', '-a', 'list', 'table', 'inet', 'foreign')).toBe(before);
    await node.exec('nft', 'delete', 'table', 'inet', 'foreign');
  });
});

function floating(external: string, internal: string) {
  return { external: parseAddress(external), internal: parseAddress(internal) };
}

async function isChangedBy(input: NatInput): Promise<boolean> {
  return Object.values(await reconcileNat(filter, input, signal)).some((count) => count > 0);
}

/** Replaces every rule, and a part of the elements. */
async function replaceOften(): Promise<void> {
  const [table, fewer] = [renderNat(INPUT), renderNat({ ...INPUT, allPools: INPUT.allPools.slice(1) })];
  for (let round = 0; round < 100; round += 1) {
    await filter.apply(withOtherIds(fewer), { signal });
    await filter.apply(table, { signal });
  }
}

/** Returns the table with rules that mean the same and are other ones. */
function withOtherIds(table: FilterTable): FilterTable {
  const chains = [...table.chains].map(([name, chain]) => {
    return [name, { ...chain, rules: chain.rules.map((rule) => ({ ...rule, id: `other-${rule.id}` })) }] as const;
  });
  return { ...table, chains: new Map(chains) };
}

/** Connects the node with another machine, whose end is called `eth0`. */
async function connectNode(device: string, other: TestNetns): Promise<void> {
  await node.exec('ip', 'link', 'add', device, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', other.name);
  await node.exec('ip', 'link', 'set', 'dev', device, 'up');
  await other.exec('ip', 'link', 'set', 'dev', 'eth0', 'up');
}

async function newPod(name: 'one' | 'two' | 'three'): Promise<TestNetns> {
  const netns = scope.use(await newNetns());
  const addresses = FAMILIES.map((family) => family[name]);
  await linuxKernel().apply(networkOf(netns.path, { hostLinkName: `npl${name}`, addresses }), signal);
  return netns;
}
