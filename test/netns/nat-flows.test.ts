// Flows that the kernel tracks while the translation of addresses changes: each packet of a flow renews it, and the table is
// asked about the first one only.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type NatPorts, NatReconciler } from '../../src/apps/agent/network/routes/reconcile-nat.ts';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import { linuxHostNetwork } from '../../src/dataplane/linux/host-network.ts';
import { LinuxFlowTable } from '../../src/dataplane/linux/linux-flow-table.ts';
import { linuxKernel } from '../../src/dataplane/linux/linux-kernel.ts';
import { NftPolicyFilter } from '../../src/dataplane/linux/nft-policy-filter.ts';
import { parseAddress } from '../../src/net/address.ts';
import { parseCidr } from '../../src/net/cidr.ts';
import type { FloatingAddress } from '../../src/routing/nat-floating.ts';
import { NAT_TABLE, type NatInput } from '../../src/routing/nat-table.ts';
import { networkOf } from '../contract/suites/dataplane/kernel.ts';
import { enterNetns, newNetns, type TestNetns } from '../support/netns.ts';
import { answerInside, converseFrom } from '../support/tcp-echo.ts';
import { answerUdp, type UdpAsker, udpAsker } from '../support/udp-socket.ts';
import { until } from '../support/until.ts';

const signal = new AbortController().signal;
const ADDRESSES = {
  IPv4: {
    node: '198.51.100.1',
    outside: '198.51.100.2',
    one: '10.65.0.1',
    two: '10.65.0.2',
    floating: '203.0.113.1',
    other: '203.0.113.2',
  },
  IPv6: {
    node: '2001:db8:1::1',
    outside: '2001:db8:1::2',
    one: 'fd00:65::1',
    two: 'fd00:65::2',
    floating: '2001:db8:f::1',
    other: '2001:db8:f::2',
  },
} as const;
type At = (typeof ADDRESSES)[keyof typeof ADDRESSES];
/** Another program that tracks flows, whether the table of translation is there or not. */
const TRACKING = `
  add table inet t
  add chain inet t forward { type filter hook forward priority 0; }
  add rule inet t forward ct state established accept`;
const POOLS = ['10.65.0.0/16', 'fd00:65::/48'].map(parseCidr);

let scope: AsyncDisposableStack;
let node: TestNetns;
let outside: TestNetns;
let one: TestNetns;
let two: TestNetns;
let filter: NftPolicyFilter;
let flowTable: LinuxFlowTable;
/** What the agent has saved on the node. */
let saved: string;
let nat: NatReconciler;

beforeEach(async () => {
  scope = new AsyncDisposableStack();
  [node, outside] = [scope.use(await newNetns()), scope.use(await newNetns())];
  const inside = enterNetns(node);
  scope.defer(() => inside.leave());
  [filter, flowTable] = [scope.use(NftPolicyFilter.open()), scope.use(LinuxFlowTable.open())];
  await node.exec('sysctl', '-qw', 'net.ipv4.ip_forward=1', 'net.ipv6.conf.all.forwarding=1');
  await node.exec('ip', 'link', 'add', 'up0', 'type', 'veth', 'peer', 'name', 'eth0', 'netns', outside.name);
  await node.exec('ip', 'link', 'set', 'dev', 'up0', 'up');
  await outside.exec('ip', 'link', 'set', 'dev', 'eth0', 'up');
  for (const at of Object.values(ADDRESSES)) {
    const [prefix, all] = at === ADDRESSES.IPv4 ? ['24', '0.0.0.0/0'] : ['64', '::/0'];
    await node.addAddress(`${at.node}/${prefix}`, 'up0');
    await outside.addAddress(`${at.outside}/${prefix}`, 'eth0');
    await outside.exec('ip', 'route', 'add', all, 'via', at.node);
    // What is not translated goes on.
    await node.exec('ip', 'route', 'add', all, 'via', at.outside);
  }
  await node.exec('nft', TRACKING);
  [one, two] = [await newPod('one'), await newPod('two')];
  for (const [name, netns] of Object.entries({ one, two, outside })) {
    scope.use(await answerUdp(netns, name));
    scope.use(await answerInside(netns, name));
  }
  saved = '';
  nat = startAgent();
});

afterEach(async () => scope.disposeAsync());

describe.each(Object.entries(ADDRESSES))('%s', (_name, at) => {
  it('leads a sender that never pauses to the next pod with the floating IP of one that is gone', async () => {
    using sender = await udpAsker(outside);
    await reconcile(leading([at.floating, at.one]));
    await expectAnswer(sender, at.floating, `one ${at.outside}`);

    await reconcile(leading());
    await expectAnswer(sender, at.floating, undefined);
    await reconcile(leading([at.floating, at.two]));

    await expectAnswer(sender, at.floating, `two ${at.outside}`);
  });

  it('leads it to another pod that the floating IP leads to from then on, also a connection', async () => {
    using sender = await udpAsker(outside);
    await reconcile(leading([at.floating, at.one]));
    await expectAnswer(sender, at.floating, `one ${at.outside}`);
    using connection = await converseFrom(outside, at.floating);

    await reconcile(leading([at.floating, at.two]));

    await expectAnswer(sender, at.floating, `two ${at.outside}`);
    await expect(connection.echo('still there')).rejects.toThrow(/aborted|ECONNRESET/);
  });

  it('lets every flow live on whose translation stays', async () => {
    await reconcile(leading([at.floating, at.one]));
    using toFloating = await converseFrom(outside, at.floating);
    using fromFloating = await converseFrom(one, at.outside);
    using masqueraded = await converseFrom(two, at.outside);
    using sender = await udpAsker(outside);
    using pod = await udpAsker(two);
    await expectAnswer(sender, at.floating, `one ${at.outside}`);
    await expectAnswer(pod, at.outside, `outside ${at.node}`);
    const before = await markFlows(at);

    await reconcile(leading([at.floating, at.one], [at.other, at.two]));
    await expectAnswer(pod, at.outside, `outside ${at.other}`);

    // All but the datagrams of the pod that has another address outside now.
    expect(await markedFlows(at)).toHaveLength(before - 1);
    for (const each of [toFloating, fromFloating, masqueraded])
      expect(await each.echo('still there')).toBe('still there');
    await expectAnswer(sender, at.floating, `one ${at.outside}`);
  });

  it('translates what a pod sends without a pause as natOutgoing of its pool says, and lets its connections live on', async () => {
    await reconcile(NAT_OUTGOING);
    using pod = await udpAsker(two);
    using connection = await converseFrom(two, at.outside);
    await expectAnswer(pod, at.outside, `outside ${at.node}`);

    await reconcile({ ...NAT_OUTGOING, natPools: [] });
    await expectAnswer(pod, at.outside, `outside ${at.two}`);
    await reconcile(NAT_OUTGOING);
    await expectAnswer(pod, at.outside, `outside ${at.node}`);

    expect(await connection.echo('still there')).toBe('still there');
  });

  it('is right again after another program removed the table, for flows that began meanwhile as well', async () => {
    await reconcile(leading([at.floating, at.one]));
    using before = await udpAsker(two);
    await expectAnswer(before, at.outside, `outside ${at.node}`);
    await settled();
    await markFlows(at);
    await node.exec('nft', 'delete', 'table', 'inet', NAT_TABLE);
    using sender = await udpAsker(outside);
    using pod = await udpAsker(two);
    expect(await sender.ask(at.floating)).toBeUndefined();
    await expectAnswer(pod, at.outside, `outside ${at.two}`);

    await reconcile(leading([at.floating, at.one]));

    await expectAnswer(sender, at.floating, `one ${at.outside}`);
    await expectAnswer(pod, at.outside, `outside ${at.node}`);
    expect(await markedFlows(at)).toHaveLength(1);
  });

  it.each([
    ['another pod', [at.floating, at.one], [at.floating, at.two], [at.floating, at.two]],
    ['no pod', [at.floating, at.one], undefined, undefined],
    ['the pod no more that it led to since', undefined, [at.floating, at.one], undefined],
  ] as const)(
    'ends the flow to a floating IP that leads to %s, although the agent crashed before it could',
    async (_what, before, changed, after) => {
      using sender = await udpAsker(outside);
      const inputOf = (pair: typeof before | typeof changed): NatInput =>
        pair === undefined ? leading() : leading(pair);
      await reconcile(inputOf(before));
      if (before !== undefined) await expectAnswer(sender, at.floating, `one ${at.outside}`);
      await settled();
      const crashed = new NatReconciler(ports());
      await crashed.reconcile(inputOf(changed), signal);
      await expectAnswer(sender, at.floating, `one ${at.outside}`);

      nat = startAgent();
      await reconcile(inputOf(after));

      const answer = after === undefined ? undefined : `two ${at.outside}`;
      await expectAnswer(sender, at.floating, answer);
      await settled();
    },
  );
});

it('does not look at flows when an agent starts that finds everything as the last one left it', async () => {
  await reconcile(NAT_OUTGOING);
  await settled();
  let lists = 0;
  const table: NatPorts['flowTable'] = () => {
    lists += 1;
    return flowTable;
  };
  const next = new NatReconciler({ ...ports(), flowTable: table });
  const stop = new AbortController();
  const running = next.run(stop.signal);
  await next.reconcile(NAT_OUTGOING, signal);
  await next.reconcile(NAT_OUTGOING, signal);
  stop.abort();
  await running;
  expect(lists).toBe(0);
});

const NAT_OUTGOING: NatInput = { natPools: POOLS, allPools: POOLS, floating: [], tunnels: [] };

function leading(...pairs: readonly (readonly [external: string, internal: string])[]): NatInput {
  const floating = pairs.map((pair): FloatingAddress => {
    const [external, internal] = [parseAddress(pair[0]), parseAddress(pair[1])];
    return { external, internal };
  });
  return { ...NAT_OUTGOING, floating };
}

function ports(): NatPorts {
  return {
    clock: systemClock,
    log: silentLog,
    filter: () => filter,
    flowTable: () => flowTable,
    host: linuxHostNetwork(),
    translations: {
      load: () => saved,
      save: async (text) => {
        saved = text;
        return Promise.resolve();
      },
    },
  };
}

/** Starts an agent that ends flows, until the test is over. */
function startAgent(): NatReconciler {
  const agent = new NatReconciler(ports());
  const stop = new AbortController();
  const running = agent.run(stop.signal);
  scope.defer(async () => {
    stop.abort();
    await running;
  });
  return agent;
}

async function reconcile(input: NatInput): Promise<void> {
  await nat.reconcile(input, signal);
}

/** Asks until the answer is this one. Each datagram renews the flow. */
async function expectAnswer({ ask }: UdpAsker, address: string, answer: string | undefined): Promise<void> {
  await until(
    async () => (await ask(address)) === answer,
    () => `the answer is "${String(answer)}"`,
  );
}

/** Waits until the flows of the last change have ended. */
async function settled(): Promise<void> {
  await until(() => saved !== '' && !saved.includes('unfinished'), 'flows have ended');
}

/** Marks every flow of the family, and returns how many. A flow that begins anew has no mark. */
async function markFlows(at: At): Promise<number> {
  await conntrack(at, '-U', '-m', '7');
  return (await markedFlows(at)).length;
}

async function markedFlows(at: At): Promise<readonly string[]> {
  return (await conntrack(at, '-L', '-m', '7')).split('\n').filter((line) => line.includes('mark=7'));
}

async function conntrack(at: At, ...args: readonly string[]): Promise<string> {
  return node.exec('conntrack', ...args, '-f', at === ADDRESSES.IPv4 ? 'ipv4' : 'ipv6');
}

async function newPod(name: 'one' | 'two'): Promise<TestNetns> {
  const netns = scope.use(await newNetns());
  const addresses = Object.values(ADDRESSES).map((at: At) => at[name]);
  await linuxKernel().apply(networkOf(netns.path, { hostLinkName: `npl${name}`, addresses }), signal);
  return netns;
}
