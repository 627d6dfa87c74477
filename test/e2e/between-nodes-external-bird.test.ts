// BIRD in a container of its own: what becomes of sessions, routes and packets when it or the agent is replaced.
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { Bird } from '../../src/bgp/bird.ts';
import { type Fabric, type FabricNode, resourceOf, startFabric } from '../support/fabric.ts';
import type { Service } from '../support/node.ts';
import { startFlows, stopFlows } from '../support/traffic-flow.ts';
import { type Pair, pairsOf, expectReached } from '../support/traffic.ts';
import { until } from '../support/until.ts';
import { BUILT, NETPLUGCTL } from '../support/built.ts';

const PROGRAM = join(BUILT, 'netplug-bird');
const EXTERNAL = { NETPLUG_BIRD: 'external' };
const AT_LEAST = 50;

let fabric: Fabric;
let pairs: readonly Pair[];
const birds = new Map<string, Service>();

beforeAll(async () => {
  fabric = await startFabric();
  await fabric.setPools({ vxlanMode: 'Never', natOutgoing: true });
  for (const node of fabric.nodes) birds.set(node.name, await startBird(node));
  await fabric.startAgents(EXTERNAL);
  const pods = await fabric.podOnEach();
  for (const pod of pods) await fabric.routeTo(pod);
  await expectReached(pairsOf(pods), () => fabric.logs());
  pairs = [...pairsOf(pods)];
  for (const node of fabric.nodes) await untilSessions(node);
});
afterAll(async () => {
  await Promise.all([...birds.values()].map(async (bird) => bird.stop()));
  await fabric?.[Symbol.asyncDispose]();
});

async function startBird({ machine }: FabricNode): Promise<Service> {
  return machine.start([PROGRAM], { env: { NETPLUG_RUN_DIR: join(machine.dir, 'run') } });
}

/** The process id of the BIRD that runs on the node; empty without one. */
async function birdOf({ machine }: FabricNode): Promise<string> {
  return (await machine.run(['pgrep', '-x', '--runstates', 'R,S,D', 'bird'])).stdout.trim();
}

/** Also with problems, when its exit status is 1. */
async function statusOf({ machine }: FabricNode): Promise<string> {
  return (await machine.run([NETPLUGCTL, 'node', 'status', '--socket', machine.socket])).stdout;
}

/** Returns each session with its state, and since when, in milliseconds since 1970: reckoned from its age, and so not exact. */
async function sessionsOf(node: FabricNode): Promise<readonly { readonly text: string; readonly sinceMs: number }[]> {
  const lines = (await statusOf(node)).split('\n').filter((line) => line.includes('Established'));
  return lines.map((line) => {
    const [, text = '', since = ''] = /^(.*Established) +(\S+)/.exec(line) ?? [];
    return { text, sinceMs: Date.parse(since) };
  });
}

async function untilSessions(node: FabricNode): Promise<void> {
  await until(async () => (await sessionsOf(node)).length === 4, `the sessions of ${node.name} are up`);
}

it('keeps sessions and packets while agents are killed and replaced', async () => {
  const flows = await startFlows(pairs);
  const birdsBefore = await Promise.all(fabric.nodes.map(birdOf));
  const before = (await Promise.all(fabric.nodes.map(sessionsOf))).flat();
  for (const node of fabric.nodes) {
    await node.agent().stop('KILL');
    await node.startAgent(EXTERNAL);
  }
  const after = (await Promise.all(fabric.nodes.map(sessionsOf))).flat();
  expect(await Promise.all(fabric.nodes.map(birdOf))).toEqual(birdsBefore);
  expect(before).toHaveLength(3 * 4);
  expect(after).toEqual(before.map(({ text, sinceMs }) => ({ text, sinceMs: expect.closeTo(sinceMs, -2) as number })));
  expect(await stopFlows(flows, { atLeast: AT_LEAST })).toEqual([]);
});

it('is reconfigured by the agent after it was stopped and started, without a lost packet', async () => {
  const flows = await startFlows(pairs);
  const n1 = fabric.node('n1');
  await birds.get('n1')?.stop();
  expect(await birdOf(n1)).toBe('');
  await until(async () => (await n1.agent().ask('/readyz')).body.includes('BIRD does not run'), '/readyz says so');
  await fabric.apply(resourceOf('BGPPeer', 'later', { peerIP: '192.0.2.99', asNumber: 64_999 }));
  birds.set('n1', await startBird(n1));
  await n1.agent().ready();
  await until(async () => (await statusOf(n1)).includes('192.0.2.99'), 'BIRD has the new peer');
  await untilSessions(n1);
  expect(await stopFlows(flows, { atLeast: AT_LEAST })).toEqual([]);
});

it('is restarted when it is killed', async () => {
  const flows = await startFlows(pairs);
  const n2 = fabric.node('n2');
  const pid = await birdOf(n2);
  await n2.machine.exec('kill', '-KILL', pid);
  await until(async () => /^\d+$/.test((await birdOf(n2)).replace(pid, '').trim()), 'another BIRD runs');
  await untilSessions(n2);
  expect(await stopFlows(flows, { atLeast: AT_LEAST })).toEqual([]);
});

it('is restarted when it exits gracefully', async () => {
  const flows = await startFlows(pairs);
  const n3 = fabric.node('n3');
  const lastMs = Math.max(...(await sessionsOf(n3)).map(({ sinceMs }) => sinceMs));
  const places = { folder: join(n3.machine.dir, 'run', 'bird'), program: 'external' } as const;
  await new Bird({ places, clock: systemClock }).exitGracefully(new AbortController().signal);
  const areNew = async (): Promise<boolean> => {
    const sessions = await sessionsOf(n3);
    return sessions.length === 4 && sessions.every(({ sinceMs }) => sinceMs > lastMs + 1000);
  };
  await until(areNew, 'the sessions are new');
  await n3.agent().ready();
  expect(await stopFlows(flows, { atLeast: AT_LEAST })).toEqual([]);
});
