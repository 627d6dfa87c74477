// Agents and tools of a release from an older commit of this repository share one etcd with those of this one, under load.
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Agent, launchAgent, startAgent } from '../support/agent.ts';
import { type CallLane, callWithoutPause, failuresOf, startLanes } from '../support/call-lanes.ts';
import { type Lan, newLan } from '../support/lan.ts';
import { type Json, startNode, type TestNode, until } from '../support/node.ts';
import { buildRelease, type Release } from '../support/release.ts';
import { BUILT } from '../support/built.ts';

/** Of 2026-11-29: earlier ones remove no link of this one, whose name they cannot compute. */
const OLDER = { commit: 'a7017da9', version: 'v3.26.4', parts: 'executables' } as const;
const LANES = 6;
const ROUNDS = 3;
const STEP_MS = 1000;
/** Small enough that nodes ask each other for addresses. */
const POOL = '10.66.0.0/25';

describe('a release of an older commit beside this one', () => {
  let older: Release;
  let scope: AsyncDisposableStack;
  let lan: Lan;
  let control: TestNode;
  let endpoints: string;

  beforeAll(async () => {
    older = await buildRelease(OLDER);
  }, 300_000);
  afterAll(async () => older?.[Symbol.asyncDispose]());
  beforeEach(async () => {
    scope = new AsyncDisposableStack();
    lan = scope.use(await newLan());
    control = scope.use(await startNode({ name: 'control', etcd: 'every-address', mode: 'standalone' }));
    endpoints = `http://${(await lan.plugIn(control.host, 2)).ipv4}:2379`;
    await control.seedPool('v4', POOL, { blockSize: 29 });
  });
  afterEach(async () => scope.disposeAsync());

  const agentIn = (bin: string): { command: readonly string[]; env: Record<string, string> } => ({
    command: [join(bin, 'netplug-agent')],
    env: { KV_ENDPOINTS: endpoints },
  });
  const binOf = (release: 'older' | 'newer'): string => (release === 'older' ? older.bin : BUILT);

  interface Worked {
    readonly node: TestNode;
    readonly lanes: readonly CallLane[];
  }

  /** A node that reaches etcd, with pods' namespaces. */
  const startWorker = async (name: string, number: number): Promise<Worked> => {
    const node = scope.use(await startNode({ name, etcd: 'nowhere' }));
    await lan.plugIn(node.host, number);
    return { node, lanes: await startLanes(node, { count: LANES, prefix: `${name}-`, scope }) };
  };

  /** The holders of addresses by the answers of ADD, on every node. */
  const holders = new Map<string, string>();
  beforeEach(() => holders.clear());

  /** Calls the plugin of that folder until stopped. */
  const load = ({ node, lanes }: Worked, bin: string): ReturnType<typeof callWithoutPause> => {
    const env = { NETPLUG_SOCKET: join(node.dir, 'agent/cni.sock') };
    const netconf = node.netconf({ kv_endpoints: endpoints });
    return callWithoutPause(node, { lanes, plugin: join(bin, 'netplug'), env, netconf, holders });
  };

  const toolOf = async (bin: string, ...argv: string[]): Promise<{ status: number | undefined; text: string }> => {
    const env = { KV_ENDPOINTS: endpoints, HOME: control.dir };
    const { status, stdout, stderr } = await control.run([join(bin, 'netplugctl'), ...argv], { env });
    return { status, text: `${stdout}${stderr}` };
  };

  /** Both tools read every record, and nothing is leaked. */
  const expectSound = async (): Promise<void> => {
    await until(async () => (await control.heldAddresses()).length === 0, 'every address is free');
    expect(await control.endpoints()).toEqual([]);
    for (const bin of [older.bin, BUILT]) {
      const checked = await toolOf(bin, 'ipam', 'check', '-o', 'json', '--grace', '0');
      expect(checked).toMatchObject({ status: 0 });
    }
  };

  it.each([
    ['older', 'newer'],
    ['newer', 'older'],
  ] as const)('has addresses of its own beside it, with the %s one on the first node', async (first, second) => {
    const [a, b] = [await startWorker('node-a', 11), await startWorker('node-b', 12)];
    const agents = [
      scope.use(await startAgent(a.node, agentIn(binOf(first)))),
      scope.use(await startAgent(b.node, agentIn(binOf(second)))),
    ];
    const loads = [load(a, binOf(first)), load(b, binOf(second))];
    await sleep(ROUNDS * STEP_MS);
    const runs = (await Promise.all(loads.map(async (each) => each.stop()))).flat();
    expect(failuresOf(runs)).toEqual([]);
    expect(runs.length).toBeGreaterThan(4 * LANES);
    for (const agent of agents) await agent.stop();
    await expectSound();
  });

  it('follows it and is followed by it on one node while calls are in flight, and none fails', async () => {
    const worked = await startWorker('node-a', 11);
    let agent: Agent = await startAgent(worked.node, agentIn(binOf('older')));
    const calls = load(worked, older.bin);
    for (let round = 0; round < ROUNDS; round += 1) {
      for (const release of ['newer', 'older'] as const) {
        await sleep(STEP_MS / 2);
        const next = await launchAgent(worked.node, agentIn(binOf(release)));
        await agent.ended;
        agent = next;
        await agent.ready();
      }
    }
    expect(failuresOf(await calls.stop())).toEqual([]);
    await agent.stop();
    await expectSound();
    expect((await worked.node.run(['ls', '-A', '/var/lib/netplug/journal'])).stdout).toBe('');
  });

  it.each([
    ['older', 'newer'],
    ['newer', 'older'],
  ] as const)('goes on with what the killed %s agent has left to the %s one', async (killed, heir) => {
    const worked = await startWorker('node-a', 11);
    for (let round = 0; round < ROUNDS; round += 1) {
      const agent = await startAgent(worked.node, agentIn(binOf(killed)));
      const calls = load(worked, binOf(killed));
      await sleep(STEP_MS);
      await agent.stop('KILL');
      const next = await startAgent(worked.node, agentIn(binOf(heir)));
      await sleep(STEP_MS);
      const failures = failuresOf(await calls.stop());
      // Calls that the killed agent was serving are repeated by the runtime.
      expect(failures.length).toBeLessThanOrEqual(LANES);
      await next.stop();
    }
    await expectSound();
  });

  it('reads and keeps the records of a newer tool, and refuses to write', async () => {
    const worked = await startWorker('node-a', 11);
    const agent = await startAgent(worked.node, agentIn(BUILT));
    await until(
      async () => JSON.stringify(await toolOf(BUILT, 'version')).includes('v3.27.0'),
      'the records have the version of the newer agent',
    );
    const listed: Json = JSON.parse(
      (await toolOf(older.bin, 'get', 'ippools', '-o', 'json')).text.replace(/^warning.*\n/gm, ''),
    );
    expect(JSON.stringify(listed)).toContain(POOL);
    const refused = await toolOf(older.bin, 'delete', 'ippool', 'v4');
    expect(refused).toMatchObject({ text: expect.stringContaining('version') as string });
    expect(refused.status).not.toBe(0);
    await agent.stop();
  });
});
