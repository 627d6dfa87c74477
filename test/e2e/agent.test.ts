// The agent as a process: how it starts, ends and is replaced, and what it says of itself.
import { VERSION } from '../../src/base/version.ts';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { coveredMs } from '../support/phases.ts';
import { type Agent, launchAgent, startAgent, traceOn } from '../support/agent.ts';
import { type CniAnswer, type Json, startNode, type TestNode, until } from '../support/node.ts';
import { NETPLUGCTL } from '../support/built.ts';

let node: TestNode;
beforeEach(async () => {
  node = await startNode({ mode: 'standalone' });
  await node.seedPool('v4', '10.65.0.0/24');
});
afterEach(async () => node[Symbol.asyncDispose]());

const serve = async (env = {}): Promise<Agent> => startAgent(node, { socket: node.socket, env });
const launch = async (env = {}): Promise<Agent> => launchAgent(node, { socket: node.socket, env });
const add = async (containerId: string): Promise<CniAnswer> =>
  node.cni('ADD', { containerId, netns: (await node.pod()).path, conf: node.netconf() });
const preallocatedIn = async (): Promise<object[]> =>
  [...(await node.records('ipam/blocks/')).values()].map(({ preallocated = {} }) => preallocated);
const journals = async (): Promise<string> => (await node.run(['ls', '/var/lib/netplug/journal'])).stdout;

/** Ends by itself, and says why. */
async function refusal(agent: Agent): Promise<string> {
  await until(
    () => agent.log().includes('code: '),
    () => `it gives up; it says:\n${agent.log()}`,
  );
  await agent.ended;
  expect((await add('c-refused')).status).toBe(0);
  expect((await node.cni('DEL', { containerId: 'c-refused', conf: node.netconf() })).status).toBe(0);
  return agent.log();
}

describe('netplug-agent', () => {
  it('registers node name and Node, and listens where only root may', async () => {
    await using agent = await serve();
    const registered = async (): Promise<string> => (await node.run(['cat', '/var/lib/netplug/nodename'])).stdout;
    await until(async () => (await registered()) === `${node.name}\n`, 'the name is registered');
    await until(async () => (await node.records('resources/nodes/')).size > 0, 'the node is registered');
    const [stored] = (await node.records('resources/nodes/')).values();
    expect(stored).toMatchObject({ kind: 'Node', metadata: { name: node.name } });
    const clusterNow = async (): Promise<Json> =>
      [...(await node.records('resources/clusterinformations/')).values()][0];
    await until(async () => (await clusterNow())?.spec.netplugVersion !== undefined, 'the release is noted');
    const cluster = await clusterNow();
    expect(cluster.spec).toMatchObject({ netplugVersion: VERSION, clusterType: 'kv', datastoreReady: true });
    expect((await node.exec('stat', '-c', '%a %U %F', agent.socket)).trim()).toBe('600 root socket');
  });

  it('serves calls and leaves the network of the node alone with NETPLUG_NETWORKING=off', async () => {
    await node.exec('sysctl', '-q', '-w', 'net.ipv4.ip_forward=0');
    await node.seedPool('v4-tunnelled', '10.66.0.0/24', { vxlanMode: 'Always', natOutgoing: true });
    await using agent = await serve({ NETPLUG_NETWORKING: 'off' });
    expect(await node.exec('cat', '/var/lib/netplug/nodename')).toBe(`${node.name}\n`);
    expect(await add('c1')).toMatchObject({ status: 0 });
    const shown = await node.run([NETPLUGCTL, 'node', 'status', '--socket', agent.socket]);
    expect([shown.status === 0, shown.stderr]).toEqual([false, expect.stringContaining('does not run the network')]);
    expect(await node.exec('nft', 'list', 'tables')).toBe('');
    expect(await node.exec('ip', 'route', 'show', 'proto', '118')).toBe('');
    expect(await node.exec('ip', '-br', 'link')).not.toContain('vxlan.netplug');
    expect(await node.exec('sysctl', '-n', 'net.ipv4.ip_forward')).toBe('0\n');
  });

  it('serves every verb, and reports its calls', async () => {
    await using agent = await serve();
    const call = { containerId: 'c1', netns: (await node.pod()).path, conf: node.netconf() };
    const { json } = await node.cni('ADD', call);
    const check = { ...call, conf: { ...call.conf, prevResult: json } };
    for (const [verb, more] of [
      ['CHECK', check],
      ['STATUS', call],
      ['VERSION', call],
      ['DEL', call],
      ['GC', { conf: { ...call.conf, 'cni.dev/valid-attachments': [] } }],
    ] as const) {
      expect(await node.cni(verb, more)).toMatchObject({ status: 0 });
    }
    expect((await node.cni('CHECK', check)).json).toMatchObject({ code: 120 });

    const metrics = (await agent.ask('/metrics')).body;
    for (const verb of ['ADD', 'STATUS', 'VERSION', 'DEL', 'GC'])
      expect(metrics).toContain(`netplug_calls_total{command="${verb}",code="ok"} 1\n`);
    expect(metrics).toMatch(
      /netplug_calls_total\{command="CHECK",code="cni\/check-failed"\} 1\n|command="CHECK",code="[a-z-]+\/[a-z-]+"\} 1\n/,
    );
    expect(metrics).toContain('\nnetplug_datastore_up 1\n');
    expect(await agent.ask('/healthz')).toMatchObject({ status: 200 });
    const shown = await traceOn(node, agent);
    expect(shown).toMatchObject({ status: 0, stderr: '' });
    for (const words of ['ADD', 'CHECK', 'GC', 'c1', 'kernel']) expect(shown.stdout).toContain(words);
  });

  it('logs once for all pods of a configuration without policy.type that their annotations are ignored', async () => {
    await using agent = await serve();
    for (const pod of ['web-0', 'web-1']) {
      const args = `K8S_POD_NAMESPACE=shop;K8S_POD_NAME=${pod}`;
      const call = { containerId: pod, netns: (await node.pod()).path, conf: node.netconf(), args };
      expect(await node.cni('ADD', call)).toMatchObject({ status: 0 });
    }
    await until(() => agent.log().includes('pod annotations ignored'), 'the warning is logged');
    expect(agent.log().match(/pod annotations ignored/g)).toHaveLength(1);
    expect(agent.log()).toMatch(/INFO +pod annotations ignored network=k8s-pod-network .*remedy="Set policy\.type/);
  });

  it('accounts for nearly all of the time of its calls', async () => {
    await using agent = await serve();
    const { path } = await node.pod();
    for (let round = 0; round < 10; round += 1) {
      const call = { containerId: `c${String(round)}`, netns: path, conf: node.netconf() };
      for (const verb of ['ADD', 'DEL']) expect(await node.cni(verb, call)).toMatchObject({ status: 0 });
    }
    const { calls } = JSON.parse((await traceOn(node, agent, '--last', '20', '-o', 'json')).stdout);
    expect(calls).toHaveLength(20);
    const shares = calls.map(({ totalMs, phases }: Json) => coveredMs(phases) / totalMs);
    // Between two phases, another program may have the processor.
    expect(shares.toSorted((a: number, b: number) => a - b)[shares.length / 2]).toBeGreaterThanOrEqual(0.95);
  });

  it('does what `plan add` predicts, also with pre-allocated addresses', async () => {
    await using agent = await serve();
    const file = '/etc/cni/net.conf';
    await node.exec('sh', '-c', `cat > ${file} <<'END'\n${JSON.stringify(node.netconf())}\nEND`);
    for (const container of ['c1', 'c2', 'c3']) {
      const { path } = await node.pod();
      const argv = `plan add --netconf ${file} --container ${container} --netns ${path} --socket ${agent.socket} -o json`;
      const { stdout, stderr, status } = await node.run([NETPLUGCTL, ...argv.split(' ')]);
      expect([status, stderr]).toEqual([0, '']);
      const plan = JSON.parse(stdout);
      expect(plan).toMatchObject({ servedBy: 'agent', preallocated: [] });
      const { json } = await node.cni('ADD', { containerId: container, netns: path, conf: node.netconf() });
      expect(plan.result).toEqual(json);
    }
    expect(await preallocatedIn()).not.toEqual([{}]);
  });

  it('on SIGTERM finishes its calls, flushes their writes, and leaves neither pre-allocated addresses nor a journal', async () => {
    const agent = await serve();
    expect((await add('c0')).status).toBe(0);
    await agent.settled();
    expect(Object.keys((await preallocatedIn())[0]!).length).toBeGreaterThan(0);
    const pods = await Promise.all(Array.from({ length: 10 }, async () => node.pod()));
    const calls = pods.map(async ({ path }, index) =>
      node.cni('ADD', { containerId: `c${String(index + 1)}`, netns: path, conf: node.netconf() }),
    );
    await Promise.race(calls);
    await agent.stop();
    expect((await Promise.all(calls)).map(({ status }) => status)).toEqual(pods.map(() => 0));
    expect(new Set(await node.heldAddresses()).size).toBe(11);
    expect(await node.endpoints()).toHaveLength(11);
    expect(await preallocatedIn()).toEqual([{}]);
    expect(await journals()).toBe('');
    expect((await node.run(['ls', agent.socket])).status).not.toBe(0);
    expect(await agent.ended).toEqual([0, null]);
  });

  it('is replaced by another agent without a failed call', async () => {
    const first = await serve();
    expect((await add('c1')).status).toBe(0);
    await using second = await serve();
    expect(await first.ended).toEqual([0, null]);
    expect(first.log()).toContain('takeover requested by another agent');
    expect((await add('c2')).status).toBe(0);
    expect((await traceOn(node, second)).stdout).toContain('c2');
    await second.settled();
    expect(new Set(await node.heldAddresses()).size).toBe(2);
    await second.stop();
    expect(await preallocatedIn()).toEqual([{}]);
  });

  it('is not replaced by an agent that cannot reach the datastore', async () => {
    await using first = await serve();
    const second = await launch({ KV_ENDPOINTS: 'http://127.0.0.1:9' });
    await second.ended;
    expect(second.log()).toContain('code: store/unavailable');
    expect((await add('c1')).status).toBe(0);
    expect((await traceOn(node, first)).stdout).toContain('c1');
  });
});

describe('netplug-agent refuses to start, and leaves the calls to the standalone program', () => {
  it.each([
    ['a name that is none', { NODENAME: 'a/b' }, 'cni/env-invalid'],
    ['a type of datastore that is none', { DATASTORE_TYPE: 'sql' }, 'netconf/invalid'],
    ['a health address that is none', { NETPLUG_HEALTH_ADDRESS: 'localhost' }, 'cni/env-invalid'],
    ['a warm pool size that is no number', { NETPLUG_WARM_POOL_SIZE: 'many' }, 'cni/env-invalid'],
  ])('with %s', async (_, env, code) => {
    expect(await refusal(await launch(env))).toContain(`code: ${code}`);
  });

  it('where other users may replace its socket', async () => {
    await node.exec('sh', '-c', `mkdir -p ${node.dir}/agent && chmod 777 ${node.dir}/agent`);
    expect(await refusal(await launch())).toContain('code: agent/socket-unusable');
    expect((await node.run(['ls', node.socket])).status).not.toBe(0);
  });

  it('but waits for an unavailable datastore, and logs it', async () => {
    await using agent = await launch({ KV_ENDPOINTS: 'http://127.0.0.1:9' });
    await until(
      () => agent.log().includes('agent started'),
      () => agent.log(),
    );
    // It serves calls before it serves its health.
    await until(
      async () => (await agent.ask('/healthz')).status === 200,
      () => agent.log(),
    );
    expect(await agent.ask('/readyz')).toEqual({ status: 503, body: expect.stringContaining('127.0.0.1:9') });
    expect((await agent.ask('/metrics')).body).toContain('\nnetplug_datastore_up 0\n');
  });
});
