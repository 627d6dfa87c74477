// Flows that stay allowed lose no packet while policies, pods and labels change.
import { type Socket, createSocket } from 'node:dgram';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { TestNetns } from '../support/netns.ts';
import { PolicyCluster, type TestPod, type TestPolicy } from '../support/policy-cluster.ts';
import { within } from '../support/tcp-echo.ts';
import { PolicyHost, insideSync } from '../support/policy-host.ts';
import { until } from '../support/until.ts';

const HZ = 1000;
const RECEIVER_PORT = 9000;
const UPDATES_PER_KIND = 10;
const SETTLE_MS = 5000;

const SERVER: TestPod = pod('server', 1, 'nplserver');
const CLIENT: TestPod = pod('client', 2, 'nplclient');

const scope = new AsyncDisposableStack();
const cluster = new PolicyCluster();
let host: PolicyHost;

beforeAll(async () => {
  host = scope.use(await PolicyHost.start(cluster));
  cluster.putNamespace('shop', { ns: 'shop' });
  cluster.putNamespace('other', { ns: 'other' });
  await host.addPod(SERVER);
  await host.addPod(CLIENT);
  cluster.putPolicy(policy('server', { from: ['client'] }));
  cluster.putPolicy(policy('client', { to: ['server'] }));
  await host.enforce();
  // Every packet of it is judged, as the first packet of a flow is.
  await host.netns.exec(
    'nft',
    `table inet judged { chain raw { type filter hook prerouting priority raw; udp sport 9001 notrack; }
}`,
  );
});

afterAll(async () => scope.disposeAsync());

type Update = readonly [string, (round: number) => Promise<unknown>];

const UPDATES: readonly Update[] = [
  [
    'peers of another node that come and go',
    async (round) => {
      const peer = { ...pod(`peer${String(round)}`, 100 + round, undefined), labels: { role: 'client' } };
      await host.enforce(cluster.putPod(peer));
      if (round % 2 === 1) await host.enforce(cluster.removePod(peer));
    },
  ],
  [
    'other policies of the receiver',
    async (round) => {
      const more = { ...policy('server', { from: ['nobody'] }), name: 'more' };
      await host.enforce(round % 2 === 0 ? cluster.putPolicy(more) : cluster.removePolicy(more));
    },
  ],
  [
    'the rules of the policy that allows',
    async (round) => {
      await host.enforce(cluster.putPolicy(policy('server', { from: ['client', `extra${String(round)}`] })));
    },
  ],
  [
    'labels of sender and receiver',
    async (round) => {
      for (const one of [SERVER, CLIENT])
        await host.enforce(cluster.putPod({ ...one, labels: { role: one.name, round: String(round) } }));
    },
  ],
  [
    'labels of the namespace',
    async (round) => host.enforce(cluster.putNamespace('shop', { ns: 'shop', round: String(round) })),
  ],
  [
    'local pods that come and go',
    async (round) => {
      const one = pod(`local${String(round)}`, 50 + round, `npllocal${String(round)}`);
      await host.enforce(cluster.putPod(one));
      await host.enforce(cluster.removePod(one));
    },
  ],
  [
    'a namespace of 200 pods that comes and goes',
    async (round) => {
      const many = Array.from({ length: 200 }, (_, index) => pod(`many${String(index)}`, 300 + index, undefined));
      for (const one of many)
        if (round % 2 === 0) cluster.putPod(one);
        else cluster.removePod(one);
      await host.enforce();
    },
  ],
  [
    'a new agent that takes over',
    async () => {
      using fresh = insideSync(host.netns, () => host.newFilter());
      expect(await fresh.apply(host.freshRuleset().table, { signal: new AbortController().signal })).toEqual({
        chains: 0,
        sets: 0,
        elements: 0,
      });
    },
  ],
  [
    'another program that changes the table, which is repaired',
    async (round) => {
      await host.netns.exec(
        'nft',
        'add',
        'rule',
        'inet',
        'netplug-policy',
        'forward-egress',
        'udp',
        'dport',
        String(10 + round),
        'drop',
      );
      await host.repair();
    },
  ],
];

describe.each([
  ['tracked', 9002],
  ['judged packet by packet', 9001],
] as const)('a flow that is %s', (_, sourcePort) => {
  it.each(SERVER.addresses)(
    'to %s loses nothing while everything changes',
    async (address) => {
      using flow = await startUdpFlow({
        from: host.pod('shop/client'),
        to: host.pod('shop/server'),
        address,
        sourcePort,
      });
      const lost: Record<string, number> = {};
      for (const [name, update] of UPDATES) {
        for (let round = 0; round < UPDATES_PER_KIND; round += 1) await update(round);
        lost[name] = await flow.settle();
      }
      expect(lost).toEqual(Object.fromEntries(UPDATES.map(([name]) => [name, 0])));
      expect(flow.sent()).toBeGreaterThan(100);
    },
    60_000,
  );

  it('is cut by a policy that denies it, so that the test can fail', async () => {
    const [address = ''] = SERVER.addresses;
    using flow = await startUdpFlow({
      from: host.pod('shop/client'),
      to: host.pod('shop/server'),
      address,
      sourcePort,
    });
    const sendMore = async (): Promise<void> => {
      const before = flow.sent();
      await until(() => flow.sent() >= before + 100, 'packets are sent');
    };
    await sendMore();
    await host.enforce(cluster.putPolicy(policy('server', { from: ['nobody'] })));
    await sendMore();
    expect((await flow.settle()) > 0).toBe(sourcePort === 9001);
    await host.enforce(cluster.putPolicy(policy('server', { from: ['client'] })));
  });
});

function pod(name: string, ordinal: number, interfaceName: string | undefined): TestPod {
  const low = `${String(ordinal >> 8)}.${String(ordinal & 255)}`;
  const labels = { role: name };
  return {
    namespace: 'shop',
    name,
    labels,
    addresses: [`10.65.${low}`, `fd00:65::${ordinal.toString(16)}`],
    interfaceName,
  };
}

function policy(name: string, { from, to }: { from?: readonly string[]; to?: readonly string[] }): TestPolicy {
  const peers = (from ?? to ?? []).map((role) => ({ podSelector: { matchLabels: { role } } }));
  const rules =
    from === undefined
      ? { policyTypes: ['Egress'], egress: [{ to: peers }] }
      : { policyTypes: ['Ingress'], ingress: [{ from: peers }] };
  return { namespace: 'shop', name, spec: { podSelector: { matchLabels: { pod: name } }, ...rules } };
}

interface UdpFlow extends Disposable {
  sent(): number;
  /** Waits for what is on its way. Returns how many packets were lost since the last call. */
  settle(): Promise<number>;
}

interface FlowEnds {
  readonly from: TestNetns;
  readonly to: TestNetns;
  readonly address: string;
  readonly sourcePort: number;
}

async function startUdpFlow({ from, to, address, sourcePort }: FlowEnds): Promise<UdpFlow> {
  const type = address.includes(':') ? 'udp6' : 'udp4';
  const receiver = await bound(to, type, RECEIVER_PORT);
  const sender = await bound(from, type, sourcePort);
  let [sent, received, counted] = [0, 0, 0];
  receiver.on('message', (_, { port, address: client }) => {
    received += 1;
    // A reply makes a tracked flow established.
    receiver.send('y', port, client);
  });
  const began = performance.now();
  let due = 0;
  const timer = setInterval(() => {
    const elapsed = ((performance.now() - began) / 1000) * HZ;
    // After a pause of this process, no more than it receives at once.
    const burst = Math.min(elapsed - due, 20);
    due = elapsed;
    for (let index = 0; index < burst; index += 1) {
      sent += 1;
      sender.send('x', RECEIVER_PORT, address);
    }
  }, 1);
  return {
    sent: () => sent,
    settle: async () => {
      const goal = sent;
      const deadline = performance.now() + SETTLE_MS;
      const isComplete = (): boolean => received + counted >= goal || performance.now() >= deadline;
      while (!isComplete()) await sleep(10);
      const lost = Math.max(0, goal - received - counted);
      counted += lost;
      return lost;
    },
    [Symbol.dispose]: () => {
      clearInterval(timer);
      sender.close();
      receiver.close();
    },
  };
}

async function bound(netns: TestNetns, type: 'udp4' | 'udp6', port: number): Promise<Socket> {
  const socket = createSocket(type);
  await within(netns, async () => {
    socket.bind(port);
    await once(socket, 'listening');
  });
  return socket;
}
