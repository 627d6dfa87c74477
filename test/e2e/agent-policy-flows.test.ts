import { isDeepStrictEqual } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { ShownFlows } from '../../src/model/shown-flows.ts';
import {
  ALLOW_ALL,
  globalPolicy,
  isReached,
  isServed,
  type PolicedNode,
  type PolicedPod,
  startPolicedNode,
} from '../support/policed-node.ts';
import { answerInside, converseFrom } from '../support/tcp-echo.ts';
import { until } from '../support/until.ts';

const SHOP_ONLY = globalPolicy('shop-only', {
  selector: "netplug/namespace == 'shop'",
  types: ['Ingress'],
  ingress: [
    { action: 'Log', protocol: 'ICMP' },
    { action: 'Deny', source: { selector: "netplug/namespace == 'foes'" } },
    { action: 'Allow', source: { selector: "netplug/namespace == 'shop'" } },
  ],
});
const DENY_RULE = {
  policy: 'GlobalNetworkPolicy shop-only',
  place: 'ingress[1]',
  direction: 'ingress',
  reason: 'GlobalNetworkPolicy shop-only, ingress[1]: Deny from netplug/namespace == "foes"',
};

let policed: PolicedNode;
let server: PolicedPod;
let foe: PolicedPod;
let guest: PolicedPod;
let friend: PolicedPod;

beforeAll(async () => {
  policed = await startPolicedNode();
  await policed.apply(ALLOW_ALL);
  await policed.apply(SHOP_ONLY);
  server = await policed.add('shop/server');
  foe = await policed.add('foes/foe');
  guest = await policed.add('guests/guest');
  friend = await policed.add('shop/friend');
});
afterAll(async () => policed?.[Symbol.asyncDispose]());

async function ctl(...args: string[]): Promise<string> {
  return policed.ctl('policy', ...args, '--socket', policed.agent().socket);
}

async function shown(...args: string[]): Promise<ShownFlows> {
  return JSON.parse(await ctl(...args, '-o', 'json')) as ShownFlows;
}

/** Waits until a flow with the fields is listed, and returns the list. */
async function untilShown(fields: object, ...args: string[]): Promise<ShownFlows> {
  let last: ShownFlows | undefined;
  await until(
    async () => {
      last = await shown(...args);
      return last.flows.some((flow) => isMatch(flow, fields));
    },
    () => `the flow is shown: ${JSON.stringify(last)}`,
  );
  return last ?? (await shown(...args));
}

/** Reports whether the flow has all of the fields. */
function isMatch(flow: object, fields: object): boolean {
  return isDeepStrictEqual({ ...flow, ...fields }, flow);
}

const end = ({ name, address }: PolicedPod): object => ({ address, pod: name });
const packetsOf = async (labels: string): Promise<number> => {
  const { body } = await policed.agent().ask('/metrics');
  const line = body.split('\n').find((each) => each.startsWith(`netplug_policy_packets_total{${labels}}`));
  return Number(line?.split(' ').at(-1) ?? 0);
};

it('a denied connection is listed with the rule that denied it, counted by the rule and by the metric', async () => {
  expect(await isServed(foe, server)).toBe(false);
  const flow = {
    verdict: 'denied',
    source: end(foe),
    destination: end(server),
    protocol: 6,
    port: 7007,
    rule: DENY_RULE,
  };
  const { flows, rules } = await untilShown(flow, 'denied');
  expect(flows).toHaveLength(1);
  const packets = rules.find(({ rule }) => rule.place === 'ingress[1]')?.packets ?? 0;
  expect(packets).toBeGreaterThanOrEqual(1);
  const text = await ctl('denied');
  expect(text).toContain(`foes/foe (${foe.address}) -> shop/server (${server.address}), TCP port 7007: denied\n`);
  expect(text).toContain(`  ingress: ${DENY_RULE.reason}\n`);
  expect(text).toContain('  netplugctl policy why foes/foe shop/server --port 7007\n');
  const labels = 'verdict="denied",policy="GlobalNetworkPolicy shop-only",direction="ingress"';
  await until(async () => (await packetsOf(labels)) >= packets, 'the metric counts them');
});

it('what no rule allows is listed with the policies that apply', async () => {
  expect(await isReached(guest, server)).toBe(false);
  const rule = {
    direction: 'ingress',
    reason: 'no rule matches of GlobalNetworkPolicy shop-only: what policies that apply do not allow is denied',
  };
  await untilShown(
    { source: end(guest), protocol: 1, icmp: { type: 8, code: 0 }, rule },
    'denied',
    '--pod',
    'guests/guest',
  );
  expect((await shown('denied', '--pod', 'foes/foe')).flows.map(({ source }) => source.pod)).toEqual(['foes/foe']);
  // The Log rule saw it as well.
  await untilShown({ verdict: 'logged', source: end(guest), protocol: 1 }, 'denied', '--logged');
});

it('an allowed connection is listed as a flow, once for its pair of ends and port', async () => {
  using _answers = await answerInside(server.netns, 'server', 20);
  using flow = await converseFrom(friend.netns, server.address);
  expect(await flow.receives(1000)).toBe(true);
  const allowed = { verdict: 'allowed', source: end(friend), destination: end(server), protocol: 6, isReplied: true };
  const { flows } = await untilShown(allowed, 'flows');
  expect(flows.filter(({ source, protocol }) => source.pod === friend.name && protocol === 6)).toHaveLength(1);
  expect(flows.some(({ source }) => source.pod === foe.name)).toBe(false);
});

it('what a staged policy would deny is listed with its rule and counted, and goes on', async () => {
  const policy = globalPolicy('no-pings', {
    staged: true,
    order: 1,
    selector: "netplug/namespace == 'guests'",
    types: ['Ingress'],
    ingress: [{ action: 'Deny', protocol: 'ICMP' }],
  });
  expect(await isReached(friend, guest)).toBe(true);
  await policed.apply(policy);
  const staged = { verdict: 'staged deny', source: end(friend), destination: end(guest), protocol: 1 };
  await until(async () => {
    expect(await isReached(friend, guest)).toBe(true);
    return (await shown('denied', '--staged')).flows.some((flow) => isMatch(flow, staged));
  }, 'it is listed');
  // Its default action would deny what no rule of it matches.
  expect(await isServed(friend, guest)).toBe(false);
  const reason =
    'no rule matches of GlobalNetworkPolicy no-pings: what policies that apply do not allow would be denied';
  const rule = { policy: 'GlobalNetworkPolicy no-pings', direction: 'ingress', reason };
  await untilShown({ ...staged, protocol: 6, port: 7007, rule }, 'denied', '--staged');
  const { flows } = await shown('denied', '--pod', guest.name);
  expect(flows.filter(({ destination }) => destination.pod === guest.name)).toEqual([]);
  const labels = 'verdict="staged deny",policy="GlobalNetworkPolicy no-pings",direction="ingress"';
  await until(async () => (await packetsOf(labels)) > 1, 'the metric counts it');
  await policed.remove('globalnetworkpolicy', 'no-pings');
});

it('a new agent records denied connections, and counts from its start', async () => {
  await policed.stopAgent('KILL');
  await policed.startAgent();
  expect((await shown('denied')).flows).toEqual([]);
  expect(await countedByRule()).toBe(0);
  expect(await isServed(foe, server)).toBe(false);
  const { flows } = await untilShown({ source: end(foe), rule: DENY_RULE }, 'denied');
  expect(await countedByRule()).toBe(flows[0]?.count);
});

it('a flood of denied packets is counted by its rule and sampled as a flow, and the agent serves calls meanwhile', async () => {
  const deniedBefore = await countedByRule();
  const flood = foe.netns.exec(process.execPath, '-e', FLOOD, server.address);
  const late = await policed.add('shop/late');
  expect(await isReached(late, server)).toBe(true);
  await policed.del(late);
  const sent = Number(await flood);
  const { flows } = await shown('denied');
  const counted = (await countedByRule()) - deniedBefore;
  expect(sent).toBeGreaterThan(10_000);
  expect(counted).toBeLessThanOrEqual(sent);
  // The queue of an interface may drop some before policies see them.
  expect(counted).toBeGreaterThan(sent / 2);
  const [flooded] = flows.filter(({ source, protocol }) => source.pod === foe.name && protocol === 17);
  expect(flooded).toMatchObject({ port: 53, rule: DENY_RULE });
  expect(flooded?.count).toBeLessThan(counted / 10);
});

/** Sends datagrams for three seconds and prints how many. */
const FLOOD = `
  const socket = require('dgram').createSocket('udp4');
  let [sent, end] = [0, performance.now() + 3000];
  const next = () => {
    if (performance.now() > end) return socket.close(() => console.log(sent));
    let waiting = 50;
    for (let index = 0; index < 50; index += 1)
      socket.send('x', 53, process.argv[1], (error) => {
        if (!error) sent += 1;
        waiting -= 1;
        if (waiting === 0) setImmediate(next);
      });
  };
  next();
`;

async function countedByRule(): Promise<number> {
  const { rules } = await shown('denied');
  return rules.find(({ rule }) => rule.place === 'ingress[1]')?.packets ?? 0;
}
