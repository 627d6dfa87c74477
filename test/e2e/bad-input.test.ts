import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { TestNetns } from '../support/netns.ts';
import { type CniAnswer, type Json, startNode, type TestNode } from '../support/node.ts';
import { until } from '../support/until.ts';

let node: TestNode;
let pod: TestNetns;
beforeAll(async () => {
  node = await startNode();
  await node.seedPool('v4', '10.65.0.0/24');
  pod = await node.pod();
});
afterAll(async () => {
  await node[Symbol.asyncDispose]();
});
afterEach(async () => {
  const left = [...(await node.hostLinks()), ...(await node.heldAddresses()), ...(await node.endpoints())];
  if (left.length > 0) throw new Error(`the test left something behind: ${JSON.stringify(left)}`);
});

const program = (): string => `${node.cniPath}/netplug`;
const environment = (more: Record<string, string> = {}): Record<string, string> => ({
  CNI_COMMAND: 'ADD',
  CNI_CONTAINERID: 'c1',
  CNI_NETNS: pod.path,
  CNI_IFNAME: 'eth0',
  CNI_PATH: node.cniPath,
  NETPLUG_SOCKET: node.socket,
  ...more,
});

/** One JSON error document on stdout, with what the standard and we promise. */
function errorOf({ status, stdout }: Pick<CniAnswer, 'status' | 'stdout'>): Json {
  expect(status).toBe(1);
  const error = JSON.parse(stdout);
  expect(error).toMatchObject({
    cniVersion: expect.any(String),
    code: expect.any(Number),
    msg: expect.stringMatching(/^(Cannot|Timed out) /),
    details: expect.stringMatching(/code: [a-z]+\/[a-z-]+$/),
  });
  return error;
}

describe('bad input', () => {
  it.each<[string, string, number, string]>([
    ['empty stdin', '', 6, 'empty'],
    ['broken JSON', '{"name": "x",,}', 6, 'line 1'],
    ['no object', '[1]', 6, 'object'],
    [
      'wrong types',
      '{"cniVersion":"1.0.0","name":5,"type":"netplug","ipam":{"type":"netplug-ipam","assign_ipv4":true}}',
      7,
      'ipam.assign_ipv4',
    ],
    [
      'an unknown version',
      '{"cniVersion":"9.9.9","name":"n","type":"netplug","ipam":{"type":"netplug-ipam"}}',
      1,
      '9.9.9',
    ],
    ['ten megabytes', `{"x":"${'y'.repeat(10_000_000)}"}`, 6, 'more than'],
  ])('%s is refused', async (_, stdin, code, named) => {
    const error = errorOf(await node.run([program()], { env: environment(), stdin }));
    expect(error.code).toBe(code);
    expect(error.msg).toContain(named);
  });

  it.each<[string, Record<string, string>, number]>([
    ['a missing variable', { CNI_CONTAINERID: '' }, 4],
    ['an unknown command', { CNI_COMMAND: 'FROB' }, 4],
    ['a bad interface name', { CNI_IFNAME: 'eth0/../x' }, 4],
    ['broken CNI_ARGS', { CNI_ARGS: 'IP' }, 4],
    ['a bad address in CNI_ARGS', { CNI_ARGS: 'IP=10.0.0.999' }, 103],
    ['a missing namespace', { CNI_NETNS: '/run/netns/never-made' }, 8],
    ['a namespace that is a plain file', { CNI_NETNS: '/etc/hostname' }, 8],
    ['a namespace of another kind', { CNI_NETNS: '/proc/self/ns/mnt' }, 8],
    ['its own namespace', { CNI_NETNS: '/proc/self/ns/net' }, 8],
    ['an odd time limit', { NETPLUG_CALL_TIMEOUT: 'soon' }, 4],
  ])('%s is refused', async (_, more, code) => {
    const stdin = JSON.stringify(node.netconf());
    expect(errorOf(await node.run([program()], { env: environment(more), stdin })).code).toBe(code);
  });

  it('an option that needs the orchestrator is refused by name without access to it', async () => {
    for (const more of [{ datastore_type: 'orch' }, { policy: { type: 'orch' } }]) {
      const error = errorOf(await node.cni('ADD', { containerId: 'c1', netns: pod.path, conf: node.netconf(more) }));
      expect(error.code).toBe(2);
      expect((await node.cni('DEL', { containerId: 'c1', conf: node.netconf(more) })).status).toBe(0);
    }
  });

  it('the name of the node is refused when the agent registered another', async () => {
    // In standalone mode no agent has been here yet.
    const env = { NETPLUG_STATE_DIR: `${node.dir}/state` };
    await node.exec('sh', '-c', `mkdir -p ${node.dir}/state && echo ${node.name} > ${node.dir}/state/nodename`);
    const call = { containerId: 'c1', netns: pod.path, env };
    const { nodename: _, ...without } = node.netconf();
    for (const conf of [node.netconf({ nodename: 'node-z' }), without]) {
      const error = errorOf(await node.cni('ADD', { ...call, conf }));
      expect([error.code, error.msg]).toEqual([7, expect.stringContaining(`"${node.name}"`)]);
    }
    expect((await node.cni('ADD', { ...call, conf: node.netconf() })).status).toBe(0);
    expect((await node.cni('DEL', { ...call, conf: without })).status).toBe(0);
  });
});

describe('a failing datastore', () => {
  it('that is down fails a call at once with "try again later"', async () => {
    const conf = node.netconf({ kv_endpoints: 'http://127.0.0.1:9' });
    expect(errorOf(await node.cni('ADD', { containerId: 'c1', netns: pod.path, conf }))).toMatchObject({
      code: 11,
      msg: expect.stringContaining('127.0.0.1:9'),
    });
  });

  it('that never answers fails a call at its timeout', async () => {
    const deaf = await node.start(['nc', '-lkn', '127.0.0.1', '7777']);
    const conf = node.netconf({ kv_endpoints: 'http://127.0.0.1:7777' });
    const startMs = performance.now();
    const answer = await node.cni('ADD', {
      containerId: 'c1',
      netns: pod.path,
      conf,
      env: { NETPLUG_CALL_TIMEOUT: '2' },
    });
    expect(errorOf(answer).code).toBe(11);
    // Without it, a call may take a minute.
    expect(performance.now() - startMs).toBeLessThan(30_000);
    await deaf.stop('KILL');
  });
});

describe('a caller that aborts', () => {
  it('by keeping stdin open is disconnected at the timeout', async () => {
    const { stdout, status } = await node.run(['sh', '-c', `sleep 5 | ${program()}`], {
      env: environment({ NETPLUG_CALL_TIMEOUT: '1' }),
    });
    expect(errorOf({ stdout, status }).code).toBe(11);
  });

  it('with SIGTERM at any moment gets a response, and a failed ADD leaves nothing', async () => {
    const stdin = JSON.stringify(node.netconf());
    for (const ms of [2, 3, 4, 5, 6, 7, 8, 9, 10, 15, 20, 30, 40, 50, 60, 70, 80, 90, 100]) {
      const { stdout } = await node.run(['timeout', '-s', 'TERM', String(ms / 1000), program()], {
        env: environment(),
        stdin,
      });
      if (stdout !== '' && JSON.parse(stdout).ips !== undefined)
        await node.cni('DEL', { containerId: 'c1', conf: node.netconf() });
      expect(await node.hostLinks()).toEqual([]);
      // An agent goes on with a call whose caller is gone, and writes behind its answer.
      await until(async () => (await node.heldAddresses()).length === 0, 'nothing is held', 15_000);
    }
  });

  it('with SIGKILL at any moment leaves nothing that DEL does not release', async () => {
    const stdin = JSON.stringify(node.netconf());
    for (let ms = 30; ms <= 110; ms += 4) {
      await node.run(['timeout', '-s', 'KILL', String(ms / 1000), program()], { env: environment(), stdin });
      expect((await node.cni('DEL', { containerId: 'c1', conf: node.netconf() })).status).toBe(0);
      expect(await node.hostLinks()).toEqual([]);
      // An agent writes behind its answer.
      await until(async () => (await node.heldAddresses()).length === 0, 'nothing is held', 15_000);
    }
  });
});

describe('readiness gates', () => {
  it('delay an ADD until every URL answers, and name the others at the timeout [gate-add]', async () => {
    const conf = node.netconf({ readiness_gates: ['http://127.0.0.1:8123/ready'] });
    const call = { containerId: 'c1', netns: pod.path, conf };
    const late = await node.cni('ADD', { ...call, env: { NETPLUG_CALL_TIMEOUT: '2' } });
    expect(errorOf(late)).toMatchObject({ code: 11, msg: expect.stringContaining('http://127.0.0.1:8123/ready') });
    const waiting = node.cni('ADD', call);
    const gate = await node.start(['busybox', 'httpd', '-f', '-p', '127.0.0.1:8123', '-h', '/etc/cni']);
    await node.exec('touch', '/etc/cni/ready');
    expect((await waiting).status).toBe(0);
    await gate.stop('KILL');
    await node.cni('DEL', { containerId: 'c1', conf });
  });
});

describe('the log', () => {
  const attach = async (more: object): Promise<CniAnswer> => {
    const call = { containerId: 'c1', conf: node.netconf(more), args: 'K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web' };
    const answer = await node.cni('ADD', { ...call, netns: pod.path });
    await node.cni('DEL', call);
    return answer;
  };

  it('goes to stderr always and to the file only when configured, one INFO line per call [log-stderr] [nc-logpath]', async () => {
    const { stderr } = await attach({});
    expect(stderr.split('\n').filter((line) => line.includes(' INFO ')).length).toBe(1);
    expect(stderr).toMatch(/INFO +pod connected .*kernelMs=.*totalMs=/);
    expect((await node.run(['ls', '/var/log/netplug'])).status).not.toBe(0);
    await attach({ log_file_path: '/var/log/netplug/cni/cni.log' });
    const file = await node.exec('cat', '/var/log/netplug/cni/cni.log');
    expect(file.split('\n').filter((line) => line.includes(' INFO '))).toHaveLength(2);
  });

  it('reports ignored annotations of every ADD at DEBUG only', async () => {
    const event = 'pod annotations ignored';
    expect((await attach({})).stderr).not.toContain(event);
    expect((await attach({ log_level: 'DEBUG' })).stderr).toMatch(new RegExp(`DEBUG +${event} network=`));
  });

  it('that cannot be written never fails a call', async () => {
    expect((await attach({ log_file_path: '/dev/full' })).status).toBe(0);
    expect((await attach({ log_file_path: '/proc/nowhere/cni.log' })).status).toBe(0);
  });
});
