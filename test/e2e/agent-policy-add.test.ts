// Policies of pods as the agent enforces them, with real packets.
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import {
  ALLOW_ALL,
  becomesReachable,
  globalPolicy,
  isReached,
  isServed,
  NETWORK,
  type PolicedNode,
  startPolicedNode,
} from '../support/policed-node.ts';
import { answerInside, converseFrom } from '../support/tcp-echo.ts';
import { until } from '../support/until.ts';

let policed: PolicedNode;

beforeAll(async () => {
  policed = await startPolicedNode();
});
beforeEach(async () => policed.apply(ALLOW_ALL));
afterAll(async () => policed?.[Symbol.asyncDispose]());

it('a pod is closed from its first packet on until a profile or policy allows it, but not to its node', async () => {
  await policed.remove('profile', NETWORK);
  const web = await policed.add('shop/web');
  const client = await policed.add('shop/client');
  expect(await isReached(client, web)).toBe(false);
  expect(await policed.node.exec('ping', '-n', '-c', '1', '-W', '1', web.address)).toMatch(/ 1 (packets )?received/);
  await policed.apply(ALLOW_ALL);
  await becomesReachable(client, web, true);
  // From the first packet on.
  const late = await policed.add('shop/late');
  expect(await isReached(late, web)).toBe(true);
  for (const pod of [web, client, late]) await policed.del(pod);
});

it('a policy ends exactly the flows that it denies', async () => {
  const server = await policed.add('shop/server');
  const denied = await policed.add('guests/denied');
  const allowed = await policed.add('shop/allowed');
  using _answers = await answerInside(server.netns, 'server');
  using deniedFlow = await converseFrom(denied.netns, server.address);
  using allowedFlow = await converseFrom(allowed.netns, server.address);
  expect(await deniedFlow.echo('a')).toBe('a');
  await policed.apply(
    globalPolicy('shop-only', {
      selector: "netplug/namespace == 'shop'",
      types: ['Ingress'],
      ingress: [{ action: 'Allow', source: { selector: "netplug/namespace == 'shop'" } }],
    }),
  );
  await until(async () => !(await isServed(denied, server)), 'the policy is in force');
  await expect(deniedFlow.echo('b')).rejects.toThrow(/abort|time/i);
  expect(await allowedFlow.echo('b')).toBe('b');
  await policed.remove('globalnetworkpolicy', 'shop-only');
  await until(async () => isServed(denied, server), 'it is open again');
  for (const pod of [server, denied, allowed]) await policed.del(pod);
});

it('a denied TCP flow ends although its server, which may send to everyone, keeps sending', async () => {
  const server = await policed.add('shop/server');
  const client = await policed.add('guests/client');
  using _answers = await answerInside(server.netns, 'server', 20);
  using flow = await converseFrom(client.netns, server.address);
  expect(await flow.receives(1000)).toBe(true);
  await policed.apply(globalPolicy('closed', { selector: "netplug/namespace == 'shop'", types: ['Ingress'] }));
  // What arrived until the policy was in force may still be read.
  await until(async () => !(await flow.receives(1500)), 'nothing arrives any more');
  await policed.remove('globalnetworkpolicy', 'closed');
  for (const pod of [server, client]) await policed.del(pod);
});

it('flows go on under a policy that denies them when the agent is configured to keep established flows', async () => {
  const configuration = (keepEstablishedFlows: boolean): object => ({
    apiVersion: 'netplug.io/v3',
    kind: 'AgentConfiguration',
    metadata: { name: 'default' },
    spec: { keepEstablishedFlows },
  });
  await policed.apply(configuration(true));
  const server = await policed.add('shop/server');
  const client = await policed.add('shop/client');
  using _answers = await answerInside(server.netns, 'server');
  using flow = await converseFrom(client.netns, server.address);
  await policed.apply(globalPolicy('closed', { types: ['Ingress'] }));
  await until(async () => !(await isServed(client, server)), 'the policy is in force');
  expect(await flow.echo('b')).toBe('b');
  await policed.apply(configuration(false));
  await policed.remove('globalnetworkpolicy', 'closed');
  for (const pod of [server, client]) await policed.del(pod);
});

it('a pod that gets the address of an earlier one does not get its place in policies', async () => {
  await policed.apply(
    globalPolicy('from-friends', {
      selector: "netplug/namespace == 'shop'",
      types: ['Ingress'],
      ingress: [{ action: 'Allow', source: { selector: "netplug/namespace == 'friends'" } }],
    }),
  );
  const server = await policed.add('shop/server');
  const friend = await policed.add('friends/a');
  expect(await isReached(friend, server)).toBe(true);
  await policed.del(friend);
  const args = `IgnoreUnknown=1;K8S_POD_NAMESPACE=foes;K8S_POD_NAME=b;IP=${friend.address}`;
  const foe = await policed.add('foes/b', { args });
  expect(foe.address).toBe(friend.address);
  expect(await isReached(foe, server)).toBe(false);
  await policed.remove('globalnetworkpolicy', 'from-friends');
  for (const pod of [server, foe]) await policed.del(pod);
});
