// Without an agent the first call starts a server, which stays for some seconds to serve the next ones.
import { chmod, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { inside } from '../../scripts/bench/inside.ts';
import { startAgent } from '../support/agent.ts';
import { poolOf } from '../support/fixtures.ts';
import { type CniAnswer, type Json, until } from '../support/node.ts';
import { startOrchApiServer } from '../support/orch-datastore.ts';
import {
  type AgentlessNode,
  type CallOptions,
  replaceProgram,
  startAgentlessNode,
} from '../support/standalone-server.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';

const MANY = 64;

let world: AgentlessNode;
beforeEach(async () => {
  world = await startAgentlessNode();
});
afterEach(async () => world?.[Symbol.asyncDispose]());

const isGone = async (): Promise<boolean> => (await world.serverPid()) === undefined;
const names = (count: number): string[] => Array.from({ length: count }, (_, index) => `c${String(index)}`);

function expectServed(answers: readonly CniAnswer[]): void {
  expect(answers.filter(({ status }) => status !== 0).map(({ stdout, stderr }) => stdout + stderr)).toEqual([]);
}

async function expectNothingLeft(): Promise<void> {
  expect(await world.node.heldAddresses()).toEqual([]);
  expect(await world.node.endpoints()).toEqual([]);
  expect(await world.node.hostLinks()).toEqual([]);
}

describe('the server that the first standalone call starts', () => {
  it('serves the next calls, keeps no runtime waiting, and leaves nothing behind after its last call', async () => {
    expectServed([await world.add('a')]);
    const pid = await world.serverPid();
    expect(pid).toBeDefined();
    const { node } = world;
    const open = (await node.exec('sh', '-c', `readlink /proc/${String(pid)}/fd/* /proc/${String(pid)}/cwd`)).split(
      '\n',
    );
    // Of a pipe of its own the process has both ends; of one of the runtime it would have one.
    const pipes = open.filter((path) => path.startsWith('pipe:'));
    expect(pipes.filter((pipe) => pipes.indexOf(pipe) === pipes.lastIndexOf(pipe))).toEqual([]);
    expect(new Set(open.filter((path) => path.startsWith('/')))).toEqual(
      new Set(['/', '/dev/null', join(world.folder, 'standalone.lock')]),
    );
    expectServed([await world.add('b'), await world.del('a'), await world.del('b'), await world.del('b')]);
    expect(await world.serverPid()).toBe(pid);
    expect(await world.starts()).toEqual({ servers: 1, alone: 0 });
    await expectNothingLeft();
    await until(isGone, 'it has left');
    expect(await readdir(world.folder)).toEqual([]);
    expectServed([await world.add('a')]);
    expect(await world.starts()).toEqual({ servers: 1, alone: 0 });
  });

  it(`serves ${String(MANY)} calls at once, assigns no address twice, and leaves no record`, async () => {
    const added = await Promise.all(names(MANY).map(async (name) => world.add(name)));
    expectServed(added);
    const addresses = added.map(({ json }) => json.ips[0].address as string);
    expect(new Set(addresses).size).toBe(MANY);
    expectServed(await Promise.all(names(MANY).map(async (name) => world.del(name))));
    const { servers, alone } = await world.starts();
    expect(servers).toBe(1);
    // On a busy machine callers may have waited in vain for the server to start, and serve the call alone.
    expect(alone).toBeLessThan(MANY / 2);
    await expectNothingLeft();
  });

  it('serves calls of both programs, and reports errors and the log like a call of its own', async () => {
    const conf = world.node.netconf({ log_level: 'DEBUG', ipam: { type: 'netplug-ipam', ipv4_pools: ['missing'] } });
    const first = await world.add('a', { conf });
    const second = await world.add('a', { conf });
    expect(second).toMatchObject({ status: 1, json: first.json });
    expect(second.stderr).toMatch(/ERROR +call failed/);
    const ipam = await world.add('i', { plugin: 'netplug-ipam' });
    expect(ipam.json.ips[0].address).toMatch(/^10\.65\./);
    expect(ipam.json.interfaces).toBeUndefined();
    expect(await world.starts()).toEqual({ servers: 1, alone: 0 });
  });

  it('is not started by STATUS and VERSION, which use one that runs', async () => {
    const env = { NETPLUG_SOCKET: world.socket };
    const conf = world.node.netconf();
    expectServed([await world.node.cni('VERSION', { conf, env }), await world.node.cni('STATUS', { conf, env })]);
    expect(await world.starts()).toEqual({ servers: 0, alone: 2 });
    expectServed([await world.add('a'), await world.node.cni('STATUS', { conf, env })]);
    expect(await world.starts()).toEqual({ servers: 1, alone: 0 });
  });

  it('finishes what it serves and leaves on SIGTERM', async () => {
    expectServed([await world.add('a')]);
    const pid = await world.serverPid();
    const served = names(16).map(async (name) => world.add(name));
    await world.node.exec('kill', '-TERM', String(pid));
    expectServed(await Promise.all(served));
    await until(async () => (await world.serverPid()) !== pid, 'it has left');
  });
});

describe('a call beside a server of standalone calls', () => {
  it('succeeds although the server is killed in the middle of many calls', async () => {
    expectServed([await world.add('first')]);
    for (const round of [1, 2, 3]) {
      const pods = names(12).map((name) => `${name}-${String(round)}`);
      const added = pods.map(async (name) => world.add(name));
      await until(async () => !(await isGone()), 'a server runs');
      await sleep(40 * round);
      await world.node.run(['kill', '-KILL', String(await world.serverPid())]);
      const answers = await Promise.all(added);
      expectServed(answers);
      expect(new Set(answers.map(({ json }) => json.ips[0].address as string)).size).toBe(pods.length);
      expect(await world.node.heldAddresses()).toHaveLength(1 + pods.length);
      const removed = pods.map(async (name) => world.del(name));
      await world.node.run(['kill', '-KILL', String((await world.serverPid()) ?? 0)]);
      expectServed(await Promise.all(removed));
    }
    expectServed([await world.del('first')]);
    await expectNothingLeft();
  });

  it('is undone when its caller is killed, before the next call of the container begins', async () => {
    expectServed([await world.add('other')]);
    const { node, socket } = world;
    const { path } = await node.pod();
    const input = join(node.dir, 'input.json');
    await writeFile(input, JSON.stringify(node.netconf()));
    const env = {
      // That of `world.add`, so that the server accepts the call.
      PATH: (await node.exec('printenv', 'PATH')).trim(),
      NETPLUG_SOCKET: socket,
      CNI_COMMAND: 'ADD',
      CNI_CONTAINERID: 'a',
      CNI_NETNS: path,
      CNI_IFNAME: 'eth0',
      CNI_PATH: node.cniPath,
    };
    const entries = Object.entries(env).map(([key, value]) => `${key}=${value}`);
    await node.etcd?.pause();
    const program = `exec env -i ${entries.join(' ')} ${node.cniPath}/netplug < ${input}`;
    const caller = await node.start(['sh', '-c', program]);
    await sleep(300);
    await caller.stop('KILL');
    await node.etcd?.resume();
    expectServed([await world.add('a'), await world.del('a'), await world.del('other')]);
    expect(await world.starts()).toEqual({ servers: 1, alone: 0 });
    await expectNothingLeft();
  });

  it.each<[string, () => Promise<{ env?: Record<string, string> }>]>([
    ['another environment', async () => Promise.resolve({ env: { NETPLUG_CALL_TIMEOUT: '59' } })],
    [
      'another version of the program',
      async () => {
        await replaceProgram(world.node, join(world.node.dir, 'netplug-standalone'));
        return {};
      },
    ],
  ])('does not use it from %s', async (_, change) => {
    expectServed([await world.add('a')]);
    const pid = await world.serverPid();
    const options = await change();
    await world.starts();
    expectServed([await world.add('b', options)]);
    expect(await world.starts()).toEqual({ servers: 0, alone: 1 });
    expect(await world.serverPid()).toBe(pid);
    expectServed([await world.del('a', options), await world.del('b', options)]);
    await expectNothingLeft();
  });

  it('does not use it from another network namespace', async () => {
    expectServed([await world.add('a')]);
    await world.starts();
    const { node, socket } = world;
    const call = ['unshare', '--net', `${node.cniPath}/netplug`];
    const env = { CNI_COMMAND: 'VERSION', NETPLUG_SOCKET: socket };
    expect(await node.run(call, { env, stdin: '{"cniVersion": "1.0.0"}' })).toMatchObject({ status: 0 });
    expect(await world.starts()).toEqual({ servers: 0, alone: 1 });
  });

  it.each<[string, () => Promise<void>]>([
    ['the folder is missing', async () => void (await world.node.exec('rmdir', world.folder))],
    ['others may write in the folder', async () => chmod(world.folder, 0o777)],
    [
      'the file system is full',
      async () => {
        await world.node.exec('mount', '-t', 'tmpfs', '-o', 'nr_inodes=1', 'none', world.folder);
      },
    ],
    [
      'the folder is read-only',
      async () => void (await world.node.exec('mount', '-t', 'tmpfs', '-o', 'ro', 'none', world.folder)),
    ],
    [
      'another program holds the lock',
      async () => {
        await world.node.start(['flock', join(world.folder, 'standalone.lock'), 'sleep', '60']);
      },
    ],
  ])('is served alone when %s', async (_, prepare) => {
    await prepare();
    expectServed([await world.add('a'), await world.del('a')]);
    expect(await world.starts()).toEqual({ servers: 0, alone: 2 });
    await expectNothingLeft();
  });

  it('is served alone when the server hangs, and the server undoes nothing of it afterwards', async () => {
    expectServed([await world.add('a')]);
    const pid = String(await world.serverPid());
    await world.starts();
    await world.node.exec('kill', '-STOP', pid);
    const added = await world.add('b');
    expectServed([added]);
    expect(await world.starts()).toEqual({ servers: 0, alone: 1 });
    await world.node.exec('kill', '-CONT', pid);
    await until(isGone, 'it has left');
    expect(await world.node.heldAddresses()).toHaveLength(2);
  });
});

describe('an agent that appears beside a server of standalone calls', () => {
  it('serves the next calls, and the server leaves at once', async () => {
    expectServed([await world.add('a')]);
    const pid = await world.serverPid();
    const keepAlive = (async (): Promise<Json> => {
      const answers: CniAnswer[] = [];
      for (const name of names(20)) answers.push(await world.add(name));
      return answers;
    })();
    await using agent = await startAgent(world.node, { socket: world.socket });
    await until(async () => (await world.serverPid()) !== pid, 'it has left');
    expectServed(await keepAlive);
    await world.starts();
    expectServed([await world.add('b'), await world.del('a'), await world.del('b')]);
    expectServed(await Promise.all(names(20).map(async (name) => world.del(name))));
    expect(await world.starts()).toEqual({ servers: 0, alone: 0 });
    expect(await readdir(world.folder)).not.toContain('standalone.sock');
    await agent.settled();
    await expectNothingLeft();
  });

  it('takes the place of one whose socket a dead agent has left', async () => {
    const dead = await startAgent(world.node, { socket: world.socket });
    await dead.stop('KILL');
    expect(await readdir(world.folder)).toContain('cni.sock');
    expectServed([await world.add('a')]);
    expect(await world.starts()).toEqual({ servers: 1, alone: 0 });
    await using agent = await startAgent(world.node, { socket: world.socket });
    await until(isGone, 'it has left');
    expectServed([await world.del('a')]);
    await agent.settled();
    await expectNothingLeft();
  });
});

describe('the server of standalone calls on the API datastore with policy.type orch', () => {
  it('serves many calls at once by the annotations of each pod, and leaves no address', async () => {
    await using scope = new AsyncDisposableStack();
    const server = scope.use(await startOrchApiServer());
    await server.putNode(world.node.name);
    await server.apply([poolOf('v4', '10.66.0.0/16'), poolOf('wanted', '10.67.0.0/16')]);
    const port = Number(new URL(server.url).port);
    const proxy = scope.use(await inside(world.node, async () => startTcpProxy({ port })));
    const url = `https://127.0.0.1:${String(proxy.port)}`;
    const orchconfig = await server.kubeconfigFor(await server.callerToken('plugin'), { url });
    const conf = world.node.netconf({
      datastore_type: 'orch',
      kv_endpoints: undefined,
      policy: { type: 'orch' },
      orch: { orchconfig },
    });
    const pods = names(12);
    for (const name of pods) await server.putPod({ namespace: 'default', name, node: world.node.name });
    // Without an annotation, a pod may get an address of any block that the node has by then.
    for (const [index, name] of pods.entries()) {
      const pools = JSON.stringify([index === 0 ? 'wanted' : 'v4']);
      const body = { metadata: { annotations: { 'cni.netplug/ipv4pools': pools } } };
      const type = 'application/merge-patch+json';
      await server.call('PATCH', `/api/v1/namespaces/default/pods/${name}`, { type, body });
    }
    const optionsOf = (name: string): CallOptions => ({
      conf,
      env: { CNI_ARGS: `IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=${name}` },
    });
    const added = await Promise.all(pods.map(async (name) => world.add(name, optionsOf(name))));
    expectServed(added);
    const addresses = added.map(({ json }) => json.ips[0].address as string);
    expect(addresses[0]).toMatch(/^10\.67\./);
    expect(addresses.slice(1).filter((address) => !address.startsWith('10.66.'))).toEqual([]);
    expect(new Set(addresses).size).toBe(pods.length);
    expectServed(await Promise.all(pods.map(async (name) => world.del(name, optionsOf(name)))));
    expect(await world.node.hostLinks()).toEqual([]);
    expect(await world.starts()).toEqual({ servers: 1, alone: 0 });
  });
});
