// An agent that follows through netplug-typha what every node follows: real programs, a real API server, real packets.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Agent, startAgent } from '../support/agent.ts';
import { watchesOfServer } from '../support/agent-watches.ts';
import { addedWatches, type Watches, watchesOf } from '../support/api-traffic.ts';
import { type FannedOutNode, startFannedOutNode } from '../support/fanned-out-node.ts';
import { poolOf } from '../support/fixtures.ts';
import { becomesReachable, isReached, type PolicedPod } from '../support/policed-node.ts';
import type { TyphaServer } from '../support/typha-process.ts';
import { until } from '../support/until.ts';

const MERGE = 'application/merge-patch+json';
/** What the agents' account keeps with the fan-out; the others are what every node follows. */
const KEPT = ['netplug-agent-fanned-out', 'netplug-agent-servers'];

const scope = new AsyncDisposableStack();
let parts: FannedOutNode;
let typha: TyphaServer;
let agent: Agent;
/** Watches before there was a server of netplug-typha, and with it alone. */
let ofNone: Watches;
let ofServer: Watches;
/** Pods that were added to learn from which pool they are. */
let adds = 0;

beforeAll(async () => {
  parts = scope.use(await startFannedOutNode());
  await parts.server.call('DELETE', '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/netplug-agent-datastore');
  ofNone = await watchesOf(parts.server);
  typha = await parts.startServer('typha-1-a', 5473);
  scope.defer(async () => typha.stop('KILL'));
  ofServer = await settledWatches();
  agent = await startAgent(parts.node, { env: parts.agentEnv('on') });
  scope.defer(async () => agent.stop());
}, 180_000);
afterAll(async () => scope.disposeAsync());

/** The watches that the server has once it holds one for each of its topics. */
async function settledWatches(): Promise<Watches> {
  let found = ofNone;
  const missing = (): readonly string[] => {
    const added = addedWatches(ofNone, found);
    return [...watchesOfServer()].flatMap(([plural, count]) => ((added[plural] ?? 0) < count ? [plural] : []));
  };
  await until(
    async () => {
      found = await watchesOf(parts.server);
      return missing().length === 0;
    },
    () => `the server watches ${missing().join(', ')}`,
  );
  return found;
}

async function addressOfNext(): Promise<string> {
  adds += 1;
  return (await parts.add(agent, `next-${String(adds)}`)).address;
}

async function status(): Promise<string> {
  return parts.status(agent);
}

let web: PolicedPod;
let db: PolicedPod;

it('enforces policies of Kubernetes with the rights that it keeps, and says who serves it', async () => {
  [web, db] = [await parts.add(agent, 'web'), await parts.add(agent, 'db')];
  await becomesReachable(web, db, true);
  await parts.close(true);
  await becomesReachable(web, db, false);
  await parts.close(false);
  await becomesReachable(web, db, true);
  expect(await status()).toMatch(/^netplug-typha: typha-1-a since .*, heard \d.* s ago, 0 moves$/m);
  const { items } = await parts.server.call('GET', '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings');
  const bound = items.filter(({ subjects = [] }: { subjects?: { name: string }[] }) =>
    subjects.some(({ name }) => name === 'netplug-agent'),
  );
  expect(bound.map(({ metadata }: { metadata: { name: string } }) => metadata.name)).toEqual(
    expect.arrayContaining(KEPT.slice(0, 1)),
  );
});

const OWN = { nodes: 1, pods: 1, workloadendpoints: 1 };
const FOR_CALLS = {
  clusterinformations: 1,
  ipamconfigurations: 1,
  ipblocks: 1,
  ippools: 1,
  ipreservations: 1,
  namespaces: 1,
};

it('watches at the API server its Node, and the pods and endpoints of it, and nothing else', async () => {
  await expect.poll(async () => addedWatches(ofServer, await watchesOf(parts.server))).toEqual(OWN);
});

it('takes what an administrator changes into its calls all the same', async () => {
  const pools = '/apis/netplug.io/v3/ippools';
  await parts.server.call('PATCH', `${pools}/v4`, { body: { spec: { disabled: true } }, type: MERGE });
  await parts.server.apply([poolOf('other', '10.66.0.0/16', { vxlanMode: 'Always' })]);
  await expect.poll(addressOfNext).toMatch(/^10\.66\./);
  await parts.server.call('PATCH', `${pools}/v4`, { body: { spec: { disabled: false } }, type: MERGE });
  await parts.server.call('PATCH', `${pools}/other`, { body: { spec: { disabled: true } }, type: MERGE });
  await expect.poll(addressOfNext).toMatch(/^10\.65\./);
});

it('keeps its policies while no server is there, serves calls, and follows the next one', async () => {
  await parts.close(true);
  await becomesReachable(web, db, false);
  await typha.stop('KILL');
  await until(async () => (await status()).includes('no server serves this node'), 'it says that it has no server');
  expect(await isReached(web, db)).toBe(false);
  expect((await agent.ask('/readyz')).status).toBe(200);
  // What calls need is followed directly from now on.
  await expect.poll(async () => addedWatches(ofNone, await watchesOf(parts.server))).toEqual({ ...OWN, ...FOR_CALLS });
  const late = await parts.add(agent, 'late');
  expect(late.address).toMatch(/^10\.65\./);
  typha = await parts.startServer('typha-2-a', 5474, { host: '::1' });
  await until(async () => (await status()).includes('typha-2-a since'), 'it follows the next server');
  await parts.close(false);
  await becomesReachable(web, db, true);
});

it('moves to another server before the one that it has ends, without a moment without one', async () => {
  await using next = await parts.startServer('typha-3-a', 5475);
  await typha.stop('TERM');
  expect(await status()).toContain('typha-3-a since');
  expect(agent.log()).not.toContain('server lost, server=typha-2-a');
  await parts.close(true);
  await becomesReachable(web, db, false);
  expect(await next.ask('/metrics')).toContain('netplug_typha_clients{release="');
});

it('follows another server when the one that it has loses the API server', async () => {
  await using next = await parts.startServer('typha-6-a', 5478);
  await using after = await parts.startServer('typha-7-a', 5479);
  await until(async () => /typha-[67]-a since/.test(await status()), 'it has one of the two servers');
  const [cut, other] = (await status()).includes('typha-6-a since') ? [next, after] : [after, next];
  cut.api.fallSilent();
  await until(async () => (await status()).includes(`${other.name} since`), 'it has the other one');
  expect(await other.ask('/metrics')).toContain('netplug_typha_clients{release="');
  await becomesReachable(web, db, false);
});

it('follows another server when the one that it has hangs, and says so', async () => {
  await using next = await parts.startServer('typha-4-a', 5476);
  await using after = await parts.startServer('typha-5-a', 5477);
  await until(async () => /typha-[45]-a since/.test(await status()), 'it has one of the two servers');
  const [hung, other] = (await status()).includes('typha-4-a since') ? [next, after] : [after, next];
  await hung.pause();
  await until(async () => (await status()).includes(`${other.name} since`), 'it has the other one');
  expect(agent.log()).toContain(`server lost server=${hung.name} reason="it is silent"`);
  expect(agent.log()).not.toContain('network process exited');
  await parts.close(false);
  await becomesReachable(web, db, true);
});
