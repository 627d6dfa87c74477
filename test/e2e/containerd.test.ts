// A real containerd calls netplug: through `ctr run --cni`, and through the CRI as a kubelet does.
import { readFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { describe, expect, it } from 'vitest';
import { startAgent } from '../support/agent.ts';
import { NETPLUGCTL } from '../support/built.ts';
import type { Conflist } from '../support/chain.ts';
import { type Containerd, startContainerd } from '../support/containerd.ts';
import { type Json, startNode, type TestNode, until } from '../support/node.ts';
import { installNetwork, recordCalls, recordedCalls } from '../support/runtime.ts';

const POD = { namespace: 'shop', name: 'web-0', uid: 'a1b2c3d4-0000-4000-8000-000000000001' };

describe('ctr run --cni', () => {
  it('connects containers by addresses of the pools, and releases these when the containers end', async () => {
    await using bench = await startBench();
    const { node, containerd } = bench;
    const [one, two] = [await containerd.run('one'), await containerd.run('two')];

    const [oneAddresses, twoAddresses] = [
      await addressesOf(node, 'default-one'),
      await addressesOf(node, 'default-two'),
    ];
    expect(oneAddresses).toEqual([expect.stringMatching(/^10\.83\.0\.\d+$/), expect.stringMatching(/^fd00:83::/)]);
    const inside = await one.exec('ip', 'address', 'show', 'dev', 'eth0');
    for (const address of oneAddresses) expect(inside).toContain(`${address}/`);
    for (const address of twoAddresses) expect(await canPing(node, one.pid, address)).toBe(true);
    for (const address of oneAddresses) expect(await canPing(node, two.pid, address)).toBe(true);

    await one.stop();
    expect(await node.heldAddresses()).toEqual(twoAddresses);
    await two.stop();
    await expectNothing(node);
  });
});

describe('the network of containerd', () => {
  it("with a CNI 1.1 list is ready when netplug's STATUS succeeds, and shows its message until then", async () => {
    await using bench = await startBench({ pools: [], cniVersion: '1.1.0', network: 'later' });
    const { node, containerd } = bench;
    const networkReady = async (): Promise<Json> => {
      const { status } = await containerd.cri.call('status');
      return status.conditions.find(({ type }: Json) => type === 'NetworkReady');
    };
    expect(await networkReady()).toMatchObject({
      status: false,
      message: expect.stringContaining('no IPv4 pool exists'),
    });
    await node.seedPool('pool-4', '10.83.0.0/24');
    await node.seedPool('pool-6', 'fd00:83::/112');
    await until(async () => (await networkReady()).status === true, 'the network is ready');
    await node.exec('etcdctl', 'del', '/netplug/v3/resources/ippools/pool-4');
    await until(async () => (await networkReady()).status === false, 'the network is not ready any more');
  });

  it.each([
    { cniVersion: '1.1.0', asked: true },
    { cniVersion: '1.0.0', asked: false },
  ])('with a list of CNI $cniVersion asks for STATUS: $asked; it never asks for CHECK or GC', async (example) => {
    await using bench = await startBench({ cniVersion: example.cniVersion });
    const { node, containerd } = bench;
    const id = await containerd.runSandbox(POD);
    expect(await containerd.sandboxIps(id)).toEqual(await node.heldAddresses());
    await containerd.restart();
    await containerd.removeSandbox(id);
    const commands = new Set((await recordedCalls(node)).map(({ command }) => command));
    expect(commands).toEqual(new Set(['ADD', 'DEL', ...(example.asked ? ['STATUS'] : [])]));
    await expectNothing(node);
  });

  it('passes capabilities to the plugins that declare them, and neither addresses nor a MAC address to netplug', async () => {
    await using bench = await startBench({ capabilities: { ips: true, mac: true, portMappings: true } });
    const { node, containerd } = bench;
    const portMappings = [{ protocol: 0, containerPort: 80, hostPort: 18081 }];
    const id = await containerd.runSandbox({ ...POD, portMappings });
    const [{ conf }] = (await recordedCalls(node)).filter(({ command }) => command === 'ADD') as [Json];
    expect(Object.keys(conf.runtimeConfig)).toEqual(['portMappings']);
    expect(conf.runtimeConfig.portMappings).toMatchObject([{ HostPort: 18081, ContainerPort: 80, Protocol: 'tcp' }]);
    await containerd.removeSandbox(id);
    await expectNothing(node);
  });
});

describe('a pod sandbox of the CRI', () => {
  it('has its addresses reported and recorded with namespace, pod and uid', async () => {
    await using bench = await startBench();
    const { node, containerd } = bench;
    const id = await containerd.runSandbox(POD);

    const [endpoint] = await node.endpoints();
    expect(endpoint.metadata.namespace).toBe('shop');
    expect(endpoint.spec).toMatchObject({
      orchestrator: 'orch',
      pod: 'web-0',
      podUID: POD.uid,
      containerID: id,
      endpoint: 'eth0',
    });
    expect(await containerd.sandboxIps(id)).toEqual(await node.heldAddresses());
    expect(endpoint.spec.ipNetworks.map((cidr: string) => cidr.split('/')[0])).toEqual(await node.heldAddresses());
  });

  it('is disconnected by the first DEL; the second, without namespace and result, succeeds', async () => {
    await using bench = await startBench();
    const { node, containerd } = bench;
    const id = await containerd.runSandbox(POD);
    await containerd.cri.call('stopPodSandbox', { podSandboxId: id });
    await expectNothing(node);
    await containerd.cri.call('removePodSandbox', { podSandboxId: id });

    const calls = (await recordedCalls(node)).filter(({ containerId }) => containerId === id);
    expect(calls.map(({ command, netns, conf }) => [command, netns !== '', conf.prevResult !== undefined])).toEqual([
      ['ADD', true, false],
      ['DEL', true, true],
      ['DEL', false, false],
    ]);
    await expectNothing(node);
  });

  it('keeps link, addresses and endpoint when an older sandbox of the same pod is removed later', async () => {
    await using bench = await startBench();
    const { node, containerd } = bench;
    const old = await containerd.runSandbox(POD);
    const young = await containerd.runSandbox({ ...POD, attempt: 1 });
    const ips = await containerd.sandboxIps(young);

    for (const method of ['stopPodSandbox', 'removePodSandbox'])
      await containerd.cri.call(method, { podSandboxId: old });

    expect((await node.endpoints()).map(({ spec }) => spec.containerID)).toEqual([young]);
    expect(await node.heldAddresses()).toEqual(ips);
    expect(await node.hostLinks()).toHaveLength(1);
    for (const ip of ips) expect(await node.host.ping(ip)).toBe(true);

    await containerd.removeSandbox(young);
    await expectNothing(node);
  });

  it('is disconnected by containerd after a kill and restart', async () => {
    await using bench = await startBench();
    const { node, containerd } = bench;
    const id = await containerd.runSandbox(POD);
    const ips = await containerd.sandboxIps(id);
    await containerd.restart();
    for (const ip of ips) expect(await node.host.ping(ip)).toBe(true);
    await containerd.removeSandbox(id);
    await expectNothing(node);
  });

  it('is named by ipam check and doctor, and keeps its addresses, when its interface is gone', async () => {
    await using bench = await startBench();
    const { node, containerd } = bench;
    const id = await containerd.runSandbox(POD);
    const say = async (...words: string[]): Promise<string> => {
      const env = { KV_ENDPOINTS: 'http://127.0.0.1:2379', NODENAME: node.name };
      return (await node.run([NETPLUGCTL, ...words], { env })).stdout;
    };
    expect(await say('ipam', 'check', '--grace', '0')).toContain('nothing wrong is left');
    const held = await node.heldAddresses();
    for (const link of await node.hostLinks()) await node.exec('ip', 'link', 'delete', 'dev', link);
    const named = /pod "shop\/web-0" has no interface "eth0", although its network namespace "[^"]+" exists/;
    expect(await say('ipam', 'check', '--grace', '0', '--fix')).toMatch(named);
    expect(await say('doctor', '--node', '--socket', node.socket)).toMatch(named);
    expect(await node.heldAddresses()).toEqual(held);
    await containerd.removeSandbox(id);
    await expectNothing(node);
    expect(await say('ipam', 'check', '--grace', '0')).toContain('nothing wrong is left');
  });

  it.each([
    { example: '10-netplug.conflist', addresses: [/^10\.83\./] },
    { example: '10-netplug-host-local.conflist', addresses: [/^10\.244\.7\./, /^fd00:10:244:7::/] },
  ])('gets its network from the shipped example $example as it stands', async ({ example, addresses }) => {
    const list = JSON.parse(await readFile(`examples/${example}`, 'utf8'));
    // It leaves out the name of the node.
    await using bench = await startBench({ list, name: hostname() });
    const { node, containerd } = bench;
    const id = await containerd.runSandbox(POD);
    const ips = await containerd.sandboxIps(id);
    expect(ips).toEqual(addresses.map((address) => expect.stringMatching(address)));
    for (const ip of ips) expect(await node.host.ping(ip)).toBe(true);
    expect(await node.exec('cat', '/var/log/netplug/cni/cni.log')).toContain('pod connected');
    await containerd.removeSandbox(id);
    await expectNothing(node);
  });

  it('reaches another sandbox, and is reached through a node port within its bandwidth limits [chain-portmap] [chain-bandwidth]', async () => {
    await using bench = await startBench();
    const { node, containerd } = bench;
    await node.exec('sysctl', '-q', '-w', 'net.ipv4.ip_forward=1');
    await containerd.runSandbox({
      ...POD,
      portMappings: [{ protocol: 0, containerPort: 80, hostPort: 18081 }],
      annotations: { 'kubernetes.io/ingress-bandwidth': '10M', 'kubernetes.io/egress-bandwidth': '20M' },
    });
    const other = await containerd.runSandbox({ ...POD, name: 'web-1' });
    const added = (await recordedCalls(node)).filter(({ command }) => command === 'ADD');
    const [server, client] = added.map(({ netns }) => netns);

    for (const ip of await containerd.sandboxIps(other)) expect(await canPing(node, server!, ip)).toBe(true);
    expect(await node.exec('tc', 'qdisc', 'show')).toMatch(/rate 10Mbit[^]*rate 20Mbit/);
    await node.start(['nsenter', `--net=${server!}`, 'sh', '-c', 'echo served | nc -lN 80']);
    await until(
      async () => (await node.exec('nsenter', `--net=${server!}`, 'ss', '-Hltn')).includes(':80 '),
      'the pod listens on port 80',
    );
    expect(await node.exec('nsenter', `--net=${client!}`, 'nc', '-d', '-w', '5', '198.51.100.1', '18081')).toBe(
      'served\n',
    );
  });

  it('has its node port again after a flush of nftables, as containerd has recorded it, until it is removed [chain-portmap]', async () => {
    await using bench = await startBench();
    const { node, containerd } = bench;
    await using _agent = node.agent === undefined ? await startAgent(node, { socket: node.socket }) : undefined;
    const portMappings = [{ protocol: 0, containerPort: 80, hostPort: 18081 }];
    const id = await containerd.runSandbox({ ...POD, portMappings });
    const [added] = (await recordedCalls(node)).filter(({ command }) => command === 'ADD');
    const serve = 'while true; do echo served | nc -lN 80; done';
    await node.start(['nsenter', `--net=${added!.netns}`, 'sh', '-c', serve]);
    const fetch = async (): Promise<string> =>
      (await node.run(['nc', '-d', '-w', '2', '198.51.100.1', '18081'])).stdout;
    await until(async () => (await fetch()) === 'served\n', 'the port of the node answers');
    await node.exec('nft', 'flush', 'ruleset');
    expect(await fetch()).toBe('');
    await until(async () => (await fetch()) === 'served\n', 'the port of the node answers again');
    await containerd.removeSandbox(id);
    expect(await node.exec('nft', 'list', 'ruleset')).not.toContain('CNI-DN-');
  });

  it("is refused with netplug's message when no address is free, and leaves nothing", async () => {
    await using bench = await startBench({ pools: [], network: 'later' });
    const { node, containerd } = bench;
    const message = await containerd.runSandbox(POD).then(
      () => 'no refusal',
      (cause: unknown) => String(cause),
    );
    expect(message).toMatch(
      /failed \(add\): Cannot assign an IPv4 address on node "node-a": no IPv4 pool exists; hint: /,
    );
    await expectNothing(node);
  });
});

interface Bench extends AsyncDisposable {
  readonly node: TestNode;
  readonly containerd: Containerd;
}

interface BenchOptions {
  readonly pools?: readonly string[];
  /** The whole chain unless given, which the next two change. */
  readonly list?: Conflist;
  readonly cniVersion?: string;
  /** That netplug declares. */
  readonly capabilities?: object;
  readonly name?: string;
  readonly network?: 'at-once' | 'later';
}

async function startBench({
  pools = ['10.83.0.0/24', 'fd00:83::/112'],
  list,
  name = 'node-a',
  cniVersion = '1.1.0',
  capabilities = {},
  network = 'at-once',
}: BenchOptions = {}): Promise<Bench> {
  await using scope = new AsyncDisposableStack();
  const node = scope.use(await startNode({ name, ownRun: true }));
  for (const [index, cidr] of pools.entries()) await node.seedPool(`pool-${String(index)}`, cidr);
  for (const address of ['198.51.100.1/32', 'fd00:5100::1/128']) await node.host.addAddress(address, 'lo');
  await recordCalls(node);
  await installNetwork(node, list ?? wholeChain(node, { cniVersion, capabilities }));
  const containerd = scope.use(await startContainerd(node, { network }));
  const kept = scope.move();
  return { node, containerd, [Symbol.asyncDispose]: async () => kept.disposeAsync() };
}

function wholeChain(
  node: TestNode,
  { cniVersion, capabilities }: { readonly cniVersion: string; readonly capabilities: object },
): Conflist {
  return {
    cniVersion,
    name: 'k8s-pod-network',
    plugins: [
      node.netconf({ capabilities, ipam: { type: 'netplug-ipam', assign_ipv4: 'true', assign_ipv6: 'true' } }),
      { type: 'portmap', snat: true, capabilities: { portMappings: true } },
      { type: 'bandwidth', capabilities: { bandwidth: true } },
    ],
  };
}

async function addressesOf(node: TestNode, containerId: string): Promise<string[]> {
  const [endpoint] = (await node.endpoints()).filter(({ spec }) => spec.containerID === containerId);
  return endpoint.spec.ipNetworks.map((cidr: Json) => cidr.split('/')[0]);
}

/** From the namespace of a process, or at a path. */
async function canPing(node: TestNode, from: number | string, address: string): Promise<boolean> {
  const net = `--net=${typeof from === 'number' ? `/proc/${String(from)}/ns/net` : from}`;
  return (await node.run(['nsenter', net, 'ping', '-n', '-c', '1', '-W', '1', address])).status === 0;
}

async function expectNothing(node: TestNode): Promise<void> {
  const left = { held: await node.heldAddresses(), endpoints: await node.endpoints(), links: await node.hostLinks() };
  expect(left).toEqual({ held: [], endpoints: [], links: [] });
}
