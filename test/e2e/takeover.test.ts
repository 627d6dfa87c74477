// One agent follows another while runtimes call without pause.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Launcher, type Run, startLauncher } from '../../scripts/bench/launcher.ts';
import { type Agent, launchAgent, startAgent } from '../support/agent.ts';
import type { TestNetns } from '../support/netns.ts';
import { type Json, startNode, type TestNode, until } from '../support/node.ts';

const AT_ONCE = 8;
const TAKEOVERS = 5;
const LONGEST_MS = 5000;
/** The shim needs far less, the standalone program far more. */
const STANDALONE_CPU_MS = 20;
/** How long a new agent waits for the answer of the old one, and some. */
const PATIENCE_MS = 11_000;

let scope: AsyncDisposableStack;
let node: TestNode;
let env: Readonly<Record<string, string>>;
let agent: Agent;
let lanes: { readonly launcher: Launcher; readonly pod: TestNetns; readonly name: string }[];
beforeEach(async () => {
  scope = new AsyncDisposableStack();
  node = scope.use(await startNode({ mode: 'standalone' }));
  await node.seedPool('v4', '10.65.0.0/24');
  agent = await startAgent(node);
  env = { NETPLUG_SOCKET: agent.socket };
  lanes = [];
  for (let lane = 0; lane < AT_ONCE; lane += 1) {
    const name = `lane${String(lane)}`;
    lanes.push({ launcher: scope.use(await startLauncher(node, name)), pod: await node.pod(), name });
  }
});
afterEach(async () => scope.disposeAsync());

/** Calls on all lanes until told to stop; returns what came of it. */
function callWithoutPause(): { stop(): Promise<readonly Run[]> } {
  const over = new AbortController();
  const runs: Run[] = [];
  const holders = new Map<string, string>();
  const call = async ({ launcher, pod }: (typeof lanes)[number], verb: string, container: string): Promise<Run> => {
    const { runs: answers } = await launcher.run([
      {
        argv: [`${node.cniPath}/netplug`],
        env: {
          ...env,
          CNI_COMMAND: verb,
          CNI_CONTAINERID: container,
          CNI_NETNS: pod.path,
          CNI_IFNAME: 'eth0',
          CNI_PATH: node.cniPath,
        },
        stdin: JSON.stringify(node.netconf()),
      },
    ]);
    runs.push(answers[0]!);
    return answers[0]!;
  };
  const work = Promise.all(
    lanes.map(async (lane) => {
      for (let round = 0; !over.signal.aborted; round += 1) {
        const container = `${lane.name}-${String(round)}`;
        const added = await call(lane, 'ADD', container);
        const told: Json = added.status === 0 ? JSON.parse(added.stdout) : {};
        for (const { address } of told.ips ?? []) {
          const holder = holders.get(address);
          if (holder !== undefined) throw new Error(`${String(address)} was given to ${holder} and to ${container}`);
          holders.set(address, container);
        }
        // Another ADD gets the address as soon as this DEL is under way.
        for (const { address } of told.ips ?? []) holders.delete(address);
        await call(lane, 'DEL', container);
      }
    }),
  );
  return {
    stop: async () => {
      over.abort();
      await work;
      return runs;
    },
  };
}

function failuresOf(runs: readonly Run[]): string[] {
  return runs.filter(({ status }) => status !== 0).map(({ stdout }) => stdout);
}

async function expectNothingLeft(): Promise<void> {
  await until(async () => (await node.heldAddresses()).length === 0, 'every address is free');
  expect(await node.endpoints()).toEqual([]);
  expect(await node.hostLinks()).toEqual([]);
  for (const { pod } of lanes) expect((await pod.ip('link')).map(({ ifname }) => String(ifname))).toEqual(['lo']);
  await agent.stop();
  const blocks = [...(await node.records('ipam/blocks/')).values()];
  expect(blocks.filter((block) => JSON.stringify(block).includes('#'))).toEqual([]);
  expect((await node.run(['ls', '-A', `/var/lib/netplug/journal`])).stdout).toBe('');
}

describe('a new agent', () => {
  it(`takes over ${String(TAKEOVERS)} times while ${String(AT_ONCE)} calls are always in flight, and none fails`, async () => {
    const calls = callWithoutPause();
    for (let time = 0; time < TAKEOVERS; time += 1) {
      await sleep(300);
      const next = await launchAgent(node);
      await agent.ended;
      agent = next;
      await until(
        () => next.log().includes('agent started'),
        () => `the new agent serves:\n${next.log()}`,
      );
    }
    await sleep(300);
    const runs = await calls.stop();
    expect(failuresOf(runs)).toEqual([]);
    expect(Math.max(...runs.map(({ ms }) => ms))).toBeLessThan(LONGEST_MS);
    const alone = runs.filter(({ cpuMs }) => cpuMs > STANDALONE_CPU_MS).length;
    process.stdout.write(`${String(alone)} of ${String(runs.length)} calls were served by the standalone program\n`);
    expect(alone).toBeLessThan(TAKEOVERS * AT_ONCE);
    await expectNothingLeft();
  });

  it.each([
    ['settings that are wrong', { NETPLUG_WARM_POOL_SIZE: 'many' }, /NETPLUG_WARM_POOL_SIZE is "many"/],
    ['a datastore that is not there', { KV_ENDPOINTS: 'http://127.0.0.1:9' }, /127\.0\.0\.1:9/],
  ])('with %s leaves the old one in its place', async (_what, more, reason) => {
    const calls = callWithoutPause();
    const broken = await launchAgent(node, { env: more });
    await broken.ended;
    expect(broken.log()).toMatch(reason);
    const runs = await calls.stop();
    expect(failuresOf(runs)).toEqual([]);
    expect(runs.filter(({ cpuMs }) => cpuMs > STANDALONE_CPU_MS)).toEqual([]);
    await expectNothingLeft();
  });

  it.each([
    ['goes on', async (old: Agent) => old.resume()],
    ['is killed', async (old: Agent) => old.stop('KILL')],
  ])('says so when the old one hangs, calls are served meanwhile, and all is right when it %s', async (_how, end) => {
    await agent.pause();
    const next = await launchAgent(node);
    const calls = callWithoutPause();
    await until(
      () => next.log().includes('takeover request failed'),
      () => `it says that the other hangs:\n${next.log()}`,
      PATIENCE_MS,
    );
    await end(agent);
    await agent.ended;
    agent = next;
    await until(
      () => next.log().includes('agent started'),
      () => `the new agent serves:\n${next.log()}`,
    );
    const before = (await calls.stop()).length;
    expect(before).toBeGreaterThan(AT_ONCE);
    const runs = await callWithoutPause().stop();
    expect(failuresOf(runs)).toEqual([]);
    await expectNothingLeft();
  });
});
