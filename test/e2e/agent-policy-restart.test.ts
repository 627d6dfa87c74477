// Policies while agents die, restart and cannot read the datastore, with real packets.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import {
  ALLOW_ALL,
  becomesReachable,
  globalPolicy,
  isReached,
  isServed,
  type PolicedNode,
  type PolicedPod,
  startPolicedNode,
} from '../support/policed-node.ts';
import { answerInside } from '../support/tcp-echo.ts';
import { until } from '../support/until.ts';
import { NETPLUGCTL } from '../support/built.ts';

const SHOP_ONLY = globalPolicy('shop-only', {
  selector: "netplug/namespace == 'shop'",
  types: ['Ingress'],
  ingress: [{ action: 'Allow', source: { selector: "netplug/namespace == 'shop'" } }],
});
/** Time for an agent to start, read everything and write it. */
const PACKETS = 3000;
const INTERVAL_S = 0.002;

let policed: PolicedNode;
let server: PolicedPod;
let friend: PolicedPod;
let foe: PolicedPod;

beforeAll(async () => {
  policed = await startPolicedNode();
  await policed.apply(ALLOW_ALL);
  await policed.apply(SHOP_ONLY);
  server = await policed.add('shop/server');
  friend = await policed.add('shop/friend');
  foe = await policed.add('guests/foe');
});
beforeEach(async () => {
  await becomesReachable(friend, server, true);
  await becomesReachable(foe, server, false);
});
afterAll(async () => policed?.[Symbol.asyncDispose]());

/** Sends requests one after another and returns how many were lost. */
async function lostDuring(from: PolicedPod, to: PolicedPod, work: () => Promise<void>): Promise<number> {
  const args = ['-n', '-q', '-c', String(PACKETS), '-i', String(INTERVAL_S), '-W', '1', to.address];
  const pinging = from.netns
    .exec('ping', ...args)
    .catch((cause: unknown) => String((cause as { stdout?: string }).stdout));
  await work();
  const [, sent = '0', received = '0'] =
    /(\d+) packets transmitted, (\d+) (?:packets )?received/.exec(await pinging) ?? [];
  expect(Number(sent)).toBe(PACKETS);
  return Number(sent) - Number(received);
}

it('an agent writes all tables again as soon as another program has flushed them, and says which program', async () => {
  const tables = async (): Promise<readonly string[]> =>
    (await policed.node.exec('nft', 'list', 'tables')).split('\n').toSorted();
  const before = await tables();
  expect(before).toContain('table inet netplug-policy');

  await policed.node.exec('nft', 'flush', 'ruleset');

  await until(async () => (await tables()).join() === before.join(), 'the tables are back');
  await becomesReachable(foe, server, false);
  const lines = policed.agent().log().split('\n');
  expect(lines.find((each) => each.includes('tables changed by another program'))).toContain('nft');
});

it('an agent that is killed leaves its policies in the kernel, and a new one takes over without losing a packet', async () => {
  const lost = await lostDuring(friend, server, async () => {
    await policed.stopAgent('KILL');
    expect(await isReached(foe, server)).toBe(false);
    await policed.startAgent();
    await policed.apply(globalPolicy('more', { selector: "netplug/namespace == 'guests'", types: ['Egress'] }));
  });
  expect(lost).toBe(0);
  await policed.remove('globalnetworkpolicy', 'more');
});

it('a pod that starts while its network process is down is connected, and closed until the process is back', async () => {
  using _answers = await answerInside(server.netns, 'server');
  const pid = (await policed.node.exec('pgrep', '--full', '^netplug-network')).trim();
  await policed.node.exec('kill', '-STOP', pid);
  const late = await policed.add('shop/late');
  expect(await isServed(late, server)).toBe(false);
  await policed.node.exec('kill', '-CONT', pid);
  await until(async () => isServed(late, server), 'it is open once the process goes on');
  await policed.node.exec('kill', '-KILL', pid);
  await until(async () => (await policed.agent().ask('/readyz')).status === 200, 'the agent is ready again');
  expect(await isServed(late, server)).toBe(true);
  await policed.del(late);
});

it('a new pod of an old name is closed while no agent runs', async () => {
  const old = await policed.add('shop/again');
  await becomesReachable(friend, old, true);
  await policed.stopAgent('KILL');
  await policed.del(old);
  const again = await policed.add('shop/again');
  expect(await isReached(friend, again)).toBe(false);
  await policed.startAgent();
  await becomesReachable(friend, again, true);
  await policed.del(again);
});

it('a new pod of an old name is closed while the network process hangs', async () => {
  const old = await policed.add('shop/again');
  await becomesReachable(friend, old, true);
  const pid = (await policed.node.exec('pgrep', '--full', '^netplug-network')).trim();
  await policed.node.exec('kill', '-STOP', pid);
  await policed.del(old);
  const again = await policed.add('shop/again');
  expect(await isReached(friend, again)).toBe(false);
  await policed.node.exec('kill', '-CONT', pid);
  await becomesReachable(friend, again, true);
  await policed.del(again);
});

it('pods that start while etcd is down are isolated by the last known policies', async () => {
  const { etcd } = policed.node;
  await etcd?.pause();
  try {
    const guest = await policed.add('guests/late');
    const late = await policed.add('shop/late');
    expect(await isReached(guest, server)).toBe(false);
    expect(await isReached(late, server)).toBe(true);
  } finally {
    await etcd?.resume();
  }
  for (const name of ['guests/late', 'shop/late']) await policed.del({ name });
});

describe('after a reboot, when the kernel has no table', () => {
  let stranger: PolicedPod | undefined;
  beforeEach(async () => {
    await policed.stopAgent('KILL');
    await policed.node.exec('nft', 'delete', 'table', 'inet', 'netplug-policy');
  });
  afterEach(async () => {
    await policed.startAgent();
    if (stranger !== undefined) await policed.del(stranger);
  });

  it('a pod is closed that is connected before the agent starts, and gets its policies from the agent', async () => {
    stranger = await policed.add('shop/early');
    expect(await isReached(stranger, server)).toBe(false);
    expect(await isReached(foe, stranger)).toBe(false);
    await policed.startAgent();
    await becomesReachable(stranger, server, true);
    expect(await isReached(foe, stranger)).toBe(false);
    await policed.stopAgent('KILL');
  });

  it('a pod is closed that an agent connects whose network process cannot start', async () => {
    await policed.startHeldAgent(async () => {
      stranger = await policed.add('shop/early');
      expect(await isReached(stranger, server)).toBe(false);
      expect(await isReached(foe, stranger)).toBe(false);
    });
    await until(async () => isReached(stranger ?? foe, server), 'it has its policies');
    await policed.stopAgent('KILL');
  });
});

it('an agent with NETPLUG_POLICY=off opens the pods that an earlier one has closed', async () => {
  await policed.stopAgent('TERM');
  await policed.startAgent({ NETPLUG_POLICY: 'off' });
  await until(async () => isReached(foe, server), 'all pods are open');
  expect(await policed.node.exec('nft', 'list', 'tables')).not.toContain('netplug-policy');
  await policed.stopAgent('TERM');
  await policed.startAgent();
});

it('explains where each setting of the agent comes from', async () => {
  await policed.apply({
    apiVersion: 'netplug.io/v3',
    kind: 'AgentConfiguration',
    metadata: { name: `node.${policed.node.name}` },
    spec: { policyLogPrefix: 'own' },
  });
  const env = { NETPLUG_SOCKET: policed.agent().socket };
  const explained = async (): Promise<string> =>
    (await policed.node.run([NETPLUGCTL, 'explain', 'agent'], { env })).stdout;
  await expect.poll(explained, { timeout: 60_000 }).toMatch(/policyLogPrefix +"own" +AgentConfiguration node\./);
  expect(await explained()).toMatch(/keepEstablishedFlows +false +built in/);
});
