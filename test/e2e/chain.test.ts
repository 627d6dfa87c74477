// netplug -> portmap -> bandwidth, with packets that come from outside the node.
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { startAgent } from '../support/agent.ts';
import { NETPLUGCTL } from '../support/built.ts';
import { type Conflist, chainAdd, type ChainCall, chainCheck, chainDel, recordResult } from '../support/chain.ts';
import { newNetns, type TestNetns } from '../support/netns.ts';
import { type Json, startNode, type TestNode, until } from '../support/node.ts';

const HOST_PORT = 18080;
const NODE_ADDRESSES = ['198.51.100.1', 'fd00:5100::1'];
const MBIT = 1_000_000;

describe('portmap after netplug', () => {
  it('leads a port of the node to the pod, from outside, from the node (at 127.0.0.1 too) and from the pod itself [chain-portmap]', async () => {
    await using bench = await startBench();
    const { call } = await bench.attach('one');
    await bench.serve(call.netns);

    for (const address of NODE_ADDRESSES) {
      const from = { outside: bench.outside.path, node: bench.node.host.path, pod: call.netns };
      const seen = {
        outside: await bench.fetch(from.outside, address),
        node: await bench.fetch(from.node, address),
        pod: await bench.fetch(from.pod, address),
      };
      expect(seen).toEqual({ outside: 'served', node: 'served', pod: 'served' });
    }
    expect(await bench.fetch(bench.node.host.path, '127.0.0.1')).toBe('served');
  });

  it('closes the port of the node on DEL and leaves no rule of the pod [chain-portmap]', async () => {
    await using bench = await startBench();
    const { call, cached } = await bench.attach('one');
    await bench.serve(call.netns);
    expect(await bench.fetch(bench.outside.path, NODE_ADDRESSES[0]!)).toBe('served');

    await chainDel(bench.node, bench.list(), { ...call, cached });
    await chainDel(bench.node, bench.list(), { ...call, cached });

    for (const address of NODE_ADDRESSES) expect(await bench.fetch(bench.outside.path, address)).toBeUndefined();
    for (const tool of ['iptables', 'ip6tables']) {
      expect(await bench.node.exec(tool, '-t', 'nat', '-S')).not.toMatch(/CNI-DN-|one/);
    }
    expect(await bench.node.hostLinks()).toEqual([]);
    expect(await bench.node.heldAddresses()).toEqual([]);
  });

  it.each(['1.0.0', '0.4.0', '0.3.1'])(
    'reads the result of netplug in cniVersion %s [chain-portmap]',
    async (cniVersion) => {
      await using bench = await startBench({ cniVersion });
      const { call, cached } = await bench.attach('one');
      await bench.serve(call.netns);
      expect(cached.cniVersion).toBe(cniVersion);
      expect(await bench.fetch(bench.outside.path, NODE_ADDRESSES[0]!)).toBe('served');
      // CHECK of portmap 1.1.1 mixes the families up, that of bandwidth crashes without limits.
      const checked = bench.list({ without: ['portmap', 'bandwidth'] });
      if (cniVersion !== '0.3.1') await chainCheck(bench.node, checked, { ...call, cached });
    },
  );

  it('that fails after netplug leaves nothing after the following DEL', async () => {
    await using bench = await startBench();
    const pod = await bench.node.pod();
    const capabilityArgs = { portMappings: [{ hostPort: HOST_PORT, containerPort: 0, protocol: 'tcp' }] };
    const call = { containerId: 'one', netns: pod.path, capabilityArgs };
    await expect(chainAdd(bench.node, bench.list(), call)).rejects.toThrow('portmap refused');
    expect(await bench.node.heldAddresses()).toHaveLength(2);

    // As runtimes do, without a result; portmap then refuses its own configuration again.
    await chainDel(bench.node, bench.list({ without: ['portmap'] }), call);
    expect([await bench.node.heldAddresses(), await bench.node.hostLinks(), await bench.node.endpoints()]).toEqual([
      [],
      [],
      [],
    ]);
  });

  it('can be removed from the list: no node port is open, the pod is still reachable [chain-removed]', async () => {
    await using bench = await startBench({ plugins: ['netplug', 'bandwidth'] });
    const { call, addresses } = await bench.attach('one');
    await bench.serve(call.netns);
    for (const address of NODE_ADDRESSES) expect(await bench.fetch(bench.outside.path, address)).toBeUndefined();
    for (const address of addresses) expect(await bench.fetch(bench.outside.path, address, 80)).toBe('served');
  });
});

describe('bandwidth after netplug', () => {
  it('limits what the pod receives and what it sends, until DEL [chain-bandwidth]', async () => {
    await using bench = await startBench();
    const free = await bench.attach('free');
    const limited = await bench.attach('limited', {
      bandwidth: { ingressRate: 10 * MBIT, ingressBurst: MBIT, egressRate: 20 * MBIT, egressBurst: MBIT },
    });

    const unlimited = await bench.throughput(free);
    const measured = await bench.throughput(limited);
    expect(measured.ingress).toBeLessThan(unlimited.ingress / 4);
    expect(measured.egress).toBeLessThan(unlimited.egress / 4);
    expectAround(measured.ingress, 10 * MBIT);
    expectAround(measured.egress, 20 * MBIT);

    await chainCheck(bench.node, bench.list(), { ...limited.call, cached: limited.cached });
    await chainDel(bench.node, bench.list(), { ...limited.call, cached: limited.cached });
    expect((await bench.node.host.ip('link')).filter(({ ifname }) => String(ifname).startsWith('bwp'))).toEqual([]);
    expect(await bench.node.exec('tc', 'qdisc', 'show')).not.toContain('tbf');
  });

  it('holds within a second once an agent runs, for what runs already too, whatever burst the runtime passes', async () => {
    await using bench = await startBench();
    const burst = 2 ** 32 - 1;
    const rates = { ingressRate: 10 * MBIT, ingressBurst: burst, egressRate: 20 * MBIT, egressBurst: burst };
    const before = await bench.attach('before', { bandwidth: rates });
    await using _agent = await startAgent(bench.node);
    const after = await bench.attach('after', { bandwidth: rates });
    await until(async () => {
      const queues: readonly Json[] = JSON.parse(await bench.node.exec('tc', '-j', 'qdisc', 'show'));
      const bounded = queues.filter(({ kind, options }) => kind === 'tbf' && options.minburst < options.rate);
      return bounded.length === 4;
    }, 'the agent has bounded two pods in both directions');
    const measured = await bench.throughput(after);
    expectAround(measured.ingress, 10 * MBIT);
    expectAround(measured.egress, 20 * MBIT);
    for (const { call, cached } of [before, after]) await chainCheck(bench.node, bench.list(), { ...call, cached });
  });

  it('can be removed from the list: nothing limits the pod [chain-removed]', async () => {
    await using bench = await startBench({ plugins: ['netplug', 'portmap'] });
    const rates = { ingressRate: 10 * MBIT, ingressBurst: MBIT, egressRate: 10 * MBIT, egressBurst: MBIT };
    const measured = await bench.throughput(await bench.attach('one', { bandwidth: rates }));
    expect(measured.ingress).toBeGreaterThan(4 * rates.ingressRate);
    expect(measured.egress).toBeGreaterThan(4 * rates.egressRate);
    expect(await bench.node.exec('tc', 'qdisc', 'show')).not.toContain('tbf');
  });
});

describe('host ports on a node with an agent', () => {
  it('are mapped again after a flush of nftables, but not for a pod that has ended; what keeps them away is named [chain-portmap]', async () => {
    await using bench = await startBench();
    const { node } = bench;
    await using agent = await startAgent(node, { socket: node.socket });
    const { call, cached } = await bench.attach('one');
    const gone = await bench.attach('gone', {
      portMappings: [{ hostPort: HOST_PORT + 1, containerPort: 80, protocol: 'tcp' }],
    });
    await bench.serve(call.netns);
    for (const each of [
      { ...call, cached },
      { ...gone.call, cached: gone.cached },
    ])
      await recordResult(node, bench.list(), each);
    const status = async (): Promise<string> =>
      (await node.run([NETPLUGCTL, 'node', 'status', '--socket', agent.socket])).stdout;

    await node.exec('sh', '-c', 'mv /opt/cni/bin/portmap /opt/cni/portmap; nft flush ruleset');
    expect(await bench.fetch(bench.outside.path, NODE_ADDRESSES[0]!)).toBeUndefined();
    const problem = `host ports ${String(HOST_PORT)}/tcp of container "one" have lost rules and cannot be mapped again: portmap:`;
    await until(async () => (await status()).includes(problem), 'the agent names the host port');
    await node.exec('mv', '/opt/cni/portmap', '/opt/cni/bin/portmap');
    await chainDel(node, bench.list(), { ...gone.call, cached: gone.cached });
    for (const address of NODE_ADDRESSES)
      await until(
        async () => (await bench.fetch(bench.outside.path, address)) === 'served',
        () => `${address} answers again:\n${agent.log()}`,
      );
    for (const tool of ['iptables', 'ip6tables'])
      expect((await node.exec(tool, '-t', 'nat', '-S')).match(/-N CNI-DN-/g)).toHaveLength(1);
    await until(async () => !(await status()).includes('host ports'), 'the agent names no host port');
  });
});

describe('a purge of a node', () => {
  it('ends the chains of running pods: no host port and no device of theirs is left, whether a runtime knows them or not', async () => {
    await using bench = await startBench();
    const { node } = bench;
    const bandwidth = { ingressRate: 10 * MBIT, ingressBurst: MBIT, egressRate: 20 * MBIT, egressBurst: MBIT };
    for (const [index, containerId] of ['known', 'unknown'].entries()) {
      const portMappings = [{ hostPort: HOST_PORT + index, containerPort: 80, protocol: 'tcp' }];
      const { call, cached } = await bench.attach(containerId, { portMappings, bandwidth });
      if (containerId === 'known') await recordResult(node, bench.list(), { ...call, cached });
    }
    const state = async (): Promise<string> => node.exec('sh', '-c', 'ip -br link; nft list ruleset');
    expect((await state()).match(/^bwp|chain CNI-DN-/gm)).toHaveLength(6);
    // The machine has the same /run.
    const run = { NETPLUG_RUN_DIR: join(node.dir, 'netplug'), NETPLUG_SOCKET: join(node.dir, 'netplug/cni.sock') };
    const env = { DATASTORE_TYPE: 'kvv3', KV_ENDPOINTS: 'http://127.0.0.1:2379', ...run };
    const purged = await node.run([NETPLUGCTL, 'node', 'uninstall', '--purge', '--force'], { env });
    expect(purged).toMatchObject({ status: 0, stderr: '' });
    expect(purged.stdout).toMatch(/^chain "known eth0" removed$[^]*^host port "container unknown" removed$/m);
    expect(await state()).not.toMatch(/^(bwp|npl)|CNI-DN-|dport/m);
    expect(await node.exec('ls', '/var/lib/cni/results')).toBe('');
  });
});

interface Attached {
  readonly call: ChainCall & { readonly netns: string };
  readonly cached: Json;
  readonly addresses: readonly string[];
}

interface Bench extends AsyncDisposable {
  readonly node: TestNode;
  /** A neighbour of the node. */
  readonly outside: TestNetns;
  list(more?: { readonly without?: readonly string[] }): Conflist;
  /** Runs a pod through the chain; asks for a host port unless other capabilities are given. */
  attach(containerId: string, capabilityArgs?: Json): Promise<Attached>;
  /** Serves the word `served` on port 80 of the pod. */
  serve(netns: string): Promise<void>;
  /** Returns the answer of a web server to a client in the namespace; undefined without a connection. */
  fetch(netns: string, ...to: [address: string, port?: number]): Promise<string | undefined>;
  /** Bits per second from outside to the pod and back. */
  throughput(attached: Attached): Promise<{ ingress: number; egress: number }>;
}

async function startBench({
  plugins = ['netplug', 'portmap', 'bandwidth'],
  cniVersion = '1.0.0',
} = {}): Promise<Bench> {
  await using scope = new AsyncDisposableStack();
  const outside = scope.use(await newNetns());
  const node = scope.use(await startNode());
  await node.seedPool('v4', '10.82.0.0/24');
  await node.seedPool('v6', 'fd00:82::/112');
  await joinTo(node, outside);
  const web = join(node.dir, 'web');
  await mkdir(web);
  await writeFile(join(web, 'index.html'), 'served\n');

  const entries = [
    node.netconf({ ipam: { type: 'netplug-ipam', assign_ipv4: 'true', assign_ipv6: 'true' } }),
    { type: 'portmap', snat: true, capabilities: { portMappings: true } },
    { type: 'bandwidth', capabilities: { bandwidth: true } },
  ];
  const list: Conflist = {
    cniVersion,
    name: 'k8s-pod-network',
    plugins: entries.filter(({ type }) => plugins.includes(type)),
  };
  const portMappings = [{ hostPort: HOST_PORT, containerPort: 80, protocol: 'tcp' }];
  const kept = scope.move();
  return {
    node,
    outside,
    list: ({ without = [] } = {}) => ({ ...list, plugins: list.plugins.filter(({ type }) => !without.includes(type)) }),
    attach: async (containerId, capabilityArgs = { portMappings }) => {
      const pod = await node.pod();
      const call = { containerId, netns: pod.path, capabilityArgs };
      const cached = await chainAdd(node, list, call);
      return { call, cached, addresses: cached.ips.map(({ address }: Json) => address.split('/')[0]) };
    },
    serve: async (netns) => {
      await node.start(['nsenter', `--net=${netns}`, 'busybox', 'httpd', '-f', '-p', '[::]:80', '-h', web]);
      await until(async () => isListening(node, netns, 80), 'the pod listens on port 80');
    },
    fetch: async (netns, address, port = HOST_PORT) => {
      const get = 'printf "GET / HTTP/1.0\r\n\r\n" | nc -N -w 2 "$@"';
      const { stdout } = await node.run(['nsenter', `--net=${netns}`, 'sh', '-c', get, 'sh', address, String(port)]);
      return stdout === '' ? undefined : stdout.trim().split('\n').at(-1);
    },
    throughput: async ({ call: { netns }, addresses }) => {
      const measure = async (...direction: string[]): Promise<number> => {
        const server = await node.start(['nsenter', `--net=${netns}`, 'iperf3', '--server', '--one-off']);
        await until(async () => isListening(node, netns, 5201), 'iperf3 listens');
        const client = ['iperf3', '--json', '--time', '2', '--client', addresses[0]!, ...direction];
        const { stdout } = await node.run(['nsenter', `--net=${outside.path}`, ...client]);
        await server.stop('KILL');
        const { error, end } = JSON.parse(stdout);
        if (error !== undefined) throw new Error(`iperf3: ${error}`);
        return end.sum_received.bits_per_second;
      };
      return { ingress: await measure(), egress: await measure('--reverse') };
    },
    [Symbol.asyncDispose]: async () => kept.disposeAsync(),
  };
}

/** Connects the namespace to the node, which forwards for it. */
async function joinTo(node: TestNode, outside: TestNetns): Promise<void> {
  const { host } = node;
  await host.exec('ip', 'link', 'add', 'uplink', 'type', 'veth', 'peer', 'name', 'uplink', 'netns', outside.name);
  for (const [netns, last] of [
    [host, '1'],
    [outside, '2'],
  ] as const) {
    await netns.addAddress(`198.51.100.${last}/24`, 'uplink');
    await netns.addAddress(`fd00:5100::${last}/64`, 'uplink');
    await netns.exec('ip', 'link', 'set', 'dev', 'uplink', 'up');
  }
  for (const gateway of NODE_ADDRESSES) await outside.exec('ip', 'route', 'add', 'default', 'via', gateway);
  await node.exec('sysctl', '-q', '-w', 'net.ipv4.ip_forward=1', 'net.ipv6.conf.all.forwarding=1');
}

async function isListening(node: TestNode, netns: string, port: number): Promise<boolean> {
  return (await node.exec('nsenter', `--net=${netns}`, 'ss', '-Hltn')).includes(`:${String(port)} `);
}

/** Loose on purpose: bursts and headers count differently at both ends. */
function expectAround(bitsPerSecond: number, limit: number): void {
  expect(bitsPerSecond).toBeGreaterThan(limit / 5);
  expect(bitsPerSecond).toBeLessThan(limit * 2);
}
