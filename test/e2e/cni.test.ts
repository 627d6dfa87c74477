import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { CNI_VERSIONS } from '../../src/config/netconf.ts';
import { MODE } from '../support/agent.ts';
import { newNetns } from '../support/netns.ts';
import { type Json, startNode, type TestNode } from '../support/node.ts';

let node: TestNode;
beforeAll(async () => {
  node = await startNode();
  await node.seedPool('v4', '10.65.0.0/16');
  await node.seedPool('v6', 'fd65::/64');
});
afterAll(async () => {
  await node[Symbol.asyncDispose]();
});

afterEach(async () => releaseAll());

/** Releases every attachment of the network and node that the configuration names. No pod runs afterwards. */
async function releaseAll(more: object = {}, env = {}): Promise<void> {
  await node.endPods();
  const conf = node.netconf({ ...more, 'cni.dev/valid-attachments': [] });
  expect(await node.cni('GC', { conf, env })).toMatchObject({ status: 0 });
}

const dual = { type: 'netplug-ipam', assign_ipv4: 'true', assign_ipv6: 'true' };
const GATEWAY_V6 = 'fe80::ecee:eeff:feee:eeee%eth0';
let count = 0;
const nextId = (): string => `c${String((count += 1))}`;

async function expectNothingLeft(): Promise<void> {
  expect(await node.hostLinks()).toEqual([]);
  expect(await node.heldAddresses()).toEqual([]);
  expect(await node.endpoints()).toEqual([]);
}

/** Requests etcd has answered so far. */
async function requests(): Promise<number> {
  const metrics = await node.exec('curl', '-s', 'http://127.0.0.1:2379/metrics');
  return [...metrics.matchAll(/^grpc_server_handled_total\{.*grpc_service="etcdserverpb.KV".*\} (\d+)$/gm)].reduce(
    (sum, match) => sum + Number(match[1]),
    0,
  );
}

describe('ADD and DEL', () => {
  it('connect two pods in both families, and release everything [svc-network] [svc-ipam]', async () => {
    const pods = [await node.pod(), await node.pod()];
    const calls = pods.map((pod) => ({ containerId: nextId(), netns: pod.path, conf: node.netconf({ ipam: dual }) }));
    const results = [];
    for (const call of calls) results.push((await node.cni('ADD', call)).json);
    const [, second] = results.map(({ ips }: Json) => ips.map(({ address }: Json) => address.split('/')[0]));
    for (const address of second) expect(await pods[0]!.ping(address)).toBe(true);
    for (const call of calls) expect(await node.cni('DEL', call)).toMatchObject({ status: 0, stdout: '' });
    await expectNothingLeft();
  });

  it.each(CNI_VERSIONS)('answer in the shape of version %s [nc-cniversion]', async (version) => {
    const pod = await node.pod();
    const call = { containerId: nextId(), netns: pod.path, conf: node.netconf({ cniVersion: version, ipam: dual }) };
    const { json, status } = await node.cni('ADD', call);
    expect(status).toBe(0);
    expect(json.cniVersion).toBe(version);
    const isOldest = version === '0.1.0' || version === '0.2.0';
    expect(Object.keys(json).sort()).toEqual(
      isOldest ? ['cniVersion', 'dns', 'ip4', 'ip6'] : ['cniVersion', 'dns', 'interfaces', 'ips', 'routes'],
    );
    expect((await node.cni('DEL', call)).status).toBe(0);
  });

  it.each(['1.0.0', '1.1.0'])(
    'name the interface, its MAC and sandbox, and its MTU where version %s has it',
    async (version) => {
      const pod = await node.pod();
      const call = { containerId: nextId(), netns: pod.path, conf: node.netconf({ cniVersion: version }) };
      const { json } = await node.cni('ADD', call);
      const [seen = {}] = await pod.ip('link', 'show', 'eth0');
      const mtu = version === '1.1.0' ? { mtu: seen['mtu'] } : {};
      expect(json.interfaces[1]).toEqual({ name: 'eth0', mac: seen['address'], sandbox: pod.path, ...mtu });
      await node.cni('DEL', call);
    },
  );

  it('repeat the same result for the same container and interface', async () => {
    const pod = await node.pod();
    const call = { containerId: nextId(), netns: pod.path, conf: node.netconf({ ipam: dual }) };
    const first = await node.cni('ADD', call);
    expect((await node.cni('ADD', call)).json).toEqual(first.json);
    await node.exec('ip', 'link', 'set', first.json.interfaces[0].name, 'down');
    expect((await node.cni('ADD', call)).json).toEqual(first.json);
    expect(await pod.ping(GATEWAY_V6)).toBe(true);
    await node.cni('DEL', call);
    await expectNothingLeft();
  });

  it('refuse a pod that already has an interface of that name, and do not change it', async () => {
    const pod = await node.pod();
    await pod.exec('ip', 'link', 'add', 'name', 'eth0', 'type', 'veth', 'peer', 'name', 'other');
    const { status, json } = await node.cni('ADD', { containerId: nextId(), netns: pod.path, conf: node.netconf() });
    expect([status, json.code]).toEqual([1, 110]);
    expect(json.msg).toContain('eth0');
    expect(await pod.ip('link', 'show', 'other')).toHaveLength(1);
    await expectNothingLeft();
  });

  it('leave nothing of an ADD that fails on a foreign route, and name the route', async () => {
    const pod = await node.pod();
    const call = { containerId: nextId(), netns: pod.path, args: 'IP=10.65.7.7', conf: node.netconf() };
    const removeRoute = async (): Promise<string> => node.exec('ip', 'route', 'flush', 'exact', '10.65.7.7/32');
    onTestFinished(async () => void (await removeRoute()));
    await node.exec('ip', 'route', 'add', 'blackhole', '10.65.7.7/32');
    const { json } = await node.cni('ADD', call);
    expect(json).toMatchObject({ code: 111, msg: expect.stringContaining('10.65.7.7') });
    await expectNothingLeft();
    await removeRoute();
    expect((await node.cni('ADD', call)).status).toBe(0);
    await node.cni('DEL', call);
  });

  it('connect one pod to two networks, the first keeping the default route', async () => {
    onTestFinished(async () => releaseAll({ name: 'second' }));
    const pod = await node.pod();
    const containerId = nextId();
    const nets = [node.netconf({ ipam: dual }), node.netconf({ name: 'second', ipam: dual })];
    const calls = nets.map((conf, index) => ({ containerId, netns: pod.path, ifName: `eth${String(index)}`, conf }));
    for (const call of calls) expect((await node.cni('ADD', call)).status).toBe(0);
    const [best] = await pod.ip('route', 'get', '192.0.2.1');
    expect(best?.['dev']).toBe('eth0');
    expect(await pod.ping('fe80::ecee:eeff:feee:eeee%eth1')).toBe(true);
    for (const call of calls.toReversed()) expect((await node.cni('DEL', call)).status).toBe(0);
    await expectNothingLeft();
  });

  it('succeed at DEL for an unknown attachment, repeatedly, and without namespace', async () => {
    const conf = node.netconf({ ipam: dual });
    expect((await node.cni('DEL', { containerId: nextId(), netns: '/run/netns/never', conf })).status).toBe(0);
    const containerId = nextId();
    {
      await using pod = await newNetns();
      expect((await node.cni('ADD', { containerId, netns: pod.path, conf })).status).toBe(0);
    }
    for (let time = 0; time < 2; time += 1) expect((await node.cni('DEL', { containerId, conf })).status).toBe(0);
    await expectNothingLeft();
  });

  it('of an old sandbox do not change the new sandbox of the same pod', async () => {
    const args = 'IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-0;K8S_POD_UID=u1';
    const conf = node.netconf({ ipam: dual });
    const [oldPod, newPod] = [await node.pod(), await node.pod()];
    const [older, newer] = [nextId(), nextId()];
    await node.cni('ADD', { containerId: older, netns: oldPod.path, args, conf });
    expect((await node.cni('ADD', { containerId: newer, netns: newPod.path, args, conf })).status).toBe(0);
    expect((await node.cni('DEL', { containerId: older, netns: oldPod.path, args, conf })).status).toBe(0);
    expect(await newPod.ping(GATEWAY_V6)).toBe(true);
    const endpoints = await node.endpoints();
    expect(endpoints).toHaveLength(1);
    expect(endpoints[0]).toMatchObject({
      metadata: { namespace: 'shop', name: 'node--a-orch-web--0-eth0' },
      spec: {
        containerID: newer,
        pod: 'web-0',
        podUID: 'u1',
        node: 'node-a',
        endpoint: 'eth0',
        profiles: ['k8s-pod-network'],
      },
    });
    await node.cni('DEL', { containerId: newer, args, conf });
    await expectNothingLeft();
  });

  it('send etcd at most four requests for an ADD and three for a DEL', async () => {
    const pod = await node.pod();
    const pairs: [add: number, del: number][] = [];
    for (let time = 0; time < 3; time += 1) {
      const call = { containerId: nextId(), netns: pod.path, conf: node.netconf({ ipam: dual }) };
      const counts = [await requests()];
      for (const verb of ['ADD', 'DEL'] as const) {
        await node.cni(verb, call);
        await node.settled();
        counts.push(await requests());
      }
      const [before = 0, between = 0, after = 0] = counts;
      pairs.push([between - before, after - between]);
    }
    // What an agent does besides may fall into one of them: it renews its name, and publishes its problems.
    const [adds, dels] = [0, 1].map((index) => Math.min(...pairs.map((pair) => pair[index] ?? 0)));
    expect(adds).toBeLessThanOrEqual(4);
    expect(dels).toBeLessThanOrEqual(3);
    expect(adds).toBeGreaterThan(0);
  });

  it('carry mtu, num_queues, MAC and forwarding into the kernel', async () => {
    const pod = await node.pod();
    const conf = node.netconf({ mtu: 1400, num_queues: 2, container_settings: { allow_ip_forwarding: true } });
    const call = { containerId: nextId(), netns: pod.path, args: 'MAC=0a:11:22:33:44:55', conf };
    await node.cni('ADD', call);
    const [link] = await pod.ip('-d', 'link', 'show', 'eth0');
    expect(link).toMatchObject({ mtu: 1400, num_tx_queues: 2, num_rx_queues: 2, address: '0a:11:22:33:44:55' });
    expect((await pod.exec('sysctl', '-n', 'net.ipv4.ip_forward')).trim()).toBe('1');
    await node.cni('DEL', call);
  });

  it('assign the address that CNI_ARGS requests, and refuse a held one with its holder named [args-ip]', async () => {
    const [one, two] = [await node.pod(), await node.pod()];
    const conf = node.netconf();
    const call = { containerId: nextId(), netns: one.path, args: 'IP=10.65.9.9', conf };
    expect((await node.cni('ADD', call)).json.ips[0].address).toBe('10.65.9.9/32');
    const refused = await node.cni('ADD', { containerId: nextId(), netns: two.path, args: 'IP=10.65.9.9', conf });
    expect(refused.json).toMatchObject({ code: 100, msg: expect.stringContaining(call.containerId) });
    expect(
      (await node.cni('ADD', { containerId: nextId(), netns: two.path, args: 'IP=192.0.2.1', conf })).json.code,
    ).toBe(101);
    await node.cni('DEL', call);
    await expectNothingLeft();
  });
});

/** What is done to the link on the host, and what CHECK says of it. */
type Harm = readonly [string, (link: string) => readonly string[], string];

describe('CHECK', () => {
  const tampers: [string, (pod: Awaited<ReturnType<TestNode['pod']>>, link: string) => Promise<unknown>, string][] = [
    [
      'the pod has another MAC',
      async (pod) => pod.exec('ip', 'link', 'set', 'eth0', 'address', '0a:00:00:00:00:99'),
      'MAC',
    ],
    ['the address is gone', async (pod) => pod.exec('ip', '-4', 'addr', 'flush', 'dev', 'eth0'), 'lacks'],
    ['the default route is gone', async (pod) => pod.exec('ip', 'route', 'del', 'default'), 'routing table of the pod'],
    ['the pod forwards', async (pod) => pod.exec('sysctl', '-qw', 'net.ipv4.ip_forward=1'), 'forwarding'],
    ['the MTU was changed', async (pod) => pod.exec('ip', 'link', 'set', 'eth0', 'mtu', '1300'), 'MTU'],
  ];

  it.each(tampers)('passes untouched, and names the difference when %s', async (_, tamper, named) => {
    const pod = await node.pod();
    const conf = node.netconf({ mtu: 1400 });
    const call = { containerId: nextId(), netns: pod.path, conf };
    const { json } = await node.cni('ADD', call);
    const check = { ...call, conf: { ...conf, prevResult: json } };
    expect(await node.cni('CHECK', check)).toMatchObject({ status: 0, stdout: '' });
    await tamper(pod, json.interfaces[0].name);
    const after = await node.cni('CHECK', check);
    expect(after.json).toMatchObject({ code: 120, msg: expect.stringContaining(named) });
    await node.cni('DEL', call);
  });

  const PROXY_ARP_OFF: Harm = [
    'proxy ARP is off',
    (link) => ['sysctl', '-qw', `net.ipv4.conf.${link}.proxy_arp=0`],
    'proxy_arp',
  ];

  it.each<Harm>([
    ['the host link is down', (link) => ['ip', 'link', 'set', link, 'down'], 'is down'],
    ['the host route is gone', (link) => ['ip', 'route', 'flush', 'dev', link], 'routing table of the host'],
    // An agent compares settings once a minute.
    ...(MODE === 'agent' ? [] : [PROXY_ARP_OFF]),
  ])('passes once an agent has made it good, and names it without one, when %s', async (_, tamper, named) => {
    const pod = await node.pod();
    const conf = node.netconf();
    const call = { containerId: nextId(), netns: pod.path, conf };
    const { json } = await node.cni('ADD', call);
    const [program = '', ...args] = tamper(json.interfaces[0].name);
    await node.exec(program, ...args);
    const check = async (): Promise<Json> => node.cni('CHECK', { ...call, conf: { ...conf, prevResult: json } });
    const says = { json: { code: 120, msg: expect.stringContaining(named) } };
    await expect.poll(check).toMatchObject(MODE === 'agent' ? { status: 0 } : says);
    await node.cni('DEL', call);
  });

  it('fails when the block no longer holds the address', async () => {
    const pod = await node.pod();
    const call = { containerId: nextId(), netns: pod.path, conf: node.netconf() };
    const { json } = await node.cni('ADD', call);
    await node.cni('DEL', { ...call, plugin: 'netplug-ipam' });
    const after = await node.cni('CHECK', { ...call, conf: { ...call.conf, prevResult: json } });
    expect(after.json).toMatchObject({ code: 120, msg: expect.stringContaining('address manager lacks') });
    await node.cni('DEL', call);
  });

  it('needs a previous result, and a version that has the verb', async () => {
    const pod = await node.pod();
    const call = { containerId: nextId(), netns: pod.path };
    expect((await node.cni('CHECK', { ...call, conf: node.netconf() })).json.code).toBe(7);
    expect((await node.cni('CHECK', { ...call, conf: node.netconf({ cniVersion: '0.3.1' }) })).json.code).toBe(1);
  });
});

describe('STATUS', () => {
  it('prints nothing when an ADD can succeed, and error 50 with the reason otherwise', async () => {
    expect(await node.cni('STATUS', { conf: node.netconf() })).toMatchObject({ status: 0, stdout: '' });
    const noPool = node.netconf({ ipam: { type: 'netplug-ipam', ipv4_pools: ['gone'] } });
    expect((await node.cni('STATUS', { conf: noPool })).json).toMatchObject({
      code: 50,
      msg: expect.stringContaining('"gone"'),
    });
    const noStore = node.netconf({ kv_endpoints: 'http://127.0.0.1:9' });
    expect((await node.cni('STATUS', { conf: noStore })).json).toMatchObject({
      code: 50,
      msg: expect.stringContaining('127.0.0.1:9'),
    });
    await expectNothingLeft();
  });
});

describe('the executables', () => {
  it('work from any folder, as a copy and through a link, and choose the program by their name', async () => {
    const dir = `${node.dir}/elsewhere`;
    await node.exec(
      'sh',
      '-c',
      `mkdir -p ${dir} && cd ${dir} && cp ${node.cniPath}/netplug netplug-ipam && ln -s ${node.cniPath}/netplug linked &&
        ln -s ${node.cniPath}/netplug-standalone .`,
    );
    const env = { CNI_COMMAND: 'VERSION', NETPLUG_SOCKET: node.socket };
    for (const program of ['./netplug-ipam', './linked']) {
      const { stdout } = await node.run(['sh', '-c', `cd ${dir} && exec ${program}`], { env });
      expect(JSON.parse(stdout).supportedVersions).toEqual(CNI_VERSIONS);
    }
    const silent = await node.run([`${dir}/netplug-ipam`], { env: { NETPLUG_SOCKET: node.socket } });
    expect([silent.status, silent.stdout, silent.stderr]).toEqual([
      0,
      '',
      expect.stringMatching(/^netplug-ipam v3\.27\.\d+: /),
    ]);
  });
});

describe('VERSION', () => {
  it('lists every supported version, with or without input', async () => {
    const { json } = await node.cni('VERSION', { conf: { cniVersion: '0.4.0' } });
    expect(json).toEqual({ cniVersion: '0.4.0', supportedVersions: CNI_VERSIONS });
    const silent = await node.run([`${node.cniPath}/netplug`], {
      env: { CNI_COMMAND: 'VERSION', NETPLUG_SOCKET: node.socket },
    });
    expect(JSON.parse(silent.stdout).supportedVersions).toEqual(CNI_VERSIONS);
  });
});
