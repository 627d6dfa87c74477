// podman is the only unmodified runtime here that requests a specific address: it sends IP and MAC in CNI_ARGS.
import { describe, expect, it } from 'vitest';
import { startNode, type TestNode, until } from '../support/node.ts';
import { type Podman, startPodman } from '../support/podman.ts';
import { installNetwork, recordCalls, recordedCalls } from '../support/runtime.ts';

const NETWORK = 'k8s-pod-network';

describe('podman run', () => {
  it('gives a container exactly the requested address and MAC address [args-ip]', async () => {
    await using bench = await startBench();
    const { node, podman } = bench;
    expect(await podman.run({ name: 'one', network: `${NETWORK}:ip=10.84.0.77,mac=0a:58:0a:54:00:4d` })).toMatchObject({
      status: 0,
    });

    const inside = await podman.exec('one', 'ip', 'address', 'show', 'dev', 'eth0');
    expect(inside).toContain('10.84.0.77/32');
    expect(inside).toContain('0a:58:0a:54:00:4d');
    expect(await node.heldAddresses()).toEqual(['10.84.0.77']);
    expect((await node.endpoints()).map(({ spec }) => spec.ipNetworks)).toEqual([['10.84.0.77/32']]);
    const { Networks: networks } = (await podman.inspect('one')).NetworkSettings;
    expect(networks[NETWORK]).toMatchObject({ IPAddress: '10.84.0.77', MacAddress: '0a:58:0a:54:00:4d' });
    expect(await node.host.ping('10.84.0.77')).toBe(true);

    const [added] = await recordedCalls(node);
    expect(added!.args.split(';')).toEqual(
      expect.arrayContaining(['K8S_POD_NAME=one', 'IP=10.84.0.77', 'MAC=0a:58:0a:54:00:4d']),
    );

    await podman.remove('one');
    await expectNothing(bench);
  });

  it('is refused an address that another container holds, with the holder named [args-ip]', async () => {
    await using bench = await startBench();
    const { node, podman } = bench;
    await podman.run({ name: 'one', network: `${NETWORK}:ip=10.84.0.77` });
    const holder = (await podman.inspect('one')).Id;

    const { status, stderr } = await podman.run({ name: 'two', network: `${NETWORK}:ip=10.84.0.77` });
    expect(status).not.toBe(0);
    expect(stderr).toContain('10.84.0.77');
    expect(stderr).toContain(holder);
    expect(await node.heldAddresses()).toEqual(['10.84.0.77']);
    expect(await node.host.ping('10.84.0.77')).toBe(true);

    await podman.remove('two');
    expect(await node.host.ping('10.84.0.77')).toBe(true);
    await podman.remove('one');
    await expectNothing(bench);
  });

  it('is refused an address outside of the pools, and leaves nothing [args-ip]', async () => {
    await using bench = await startBench();
    const { podman } = bench;
    const { status, stderr } = await podman.run({ name: 'one', network: `${NETWORK}:ip=10.85.0.1` });
    expect(status).not.toBe(0);
    expect(stderr).toContain('10.85.0.1');
    expect(stderr).toContain('ipam/address-not-in-pool');
    await podman.remove('one');
    await expectNothing(bench);
  });

  it('assigns an address of the pools without a request, and forwards a published port', async () => {
    await using bench = await startBench();
    const { node, podman } = bench;
    expect(await podman.run({ name: 'one', network: NETWORK, options: ['--publish', '18082:80'] })).toMatchObject({
      status: 0,
    });
    const [address] = await node.heldAddresses();
    expect(address).toMatch(/^10\.84\.0\.\d+$/);

    const pid = String((await podman.inspect('one')).State.Pid);
    await node.start(['nsenter', '-t', pid, '-n', 'sh', '-c', 'echo served | nc -lN 80']);
    await until(
      async () => (await node.exec('nsenter', '-t', pid, '-n', 'ss', '-Hltn')).includes(':80 '),
      'the container listens',
    );
    expect(await node.exec('nc', '-d', '-w', '5', '198.51.100.1', '18082')).toBe('served\n');

    await podman.remove('one');
    await expectNothing(bench);
  });
});

interface Bench extends AsyncDisposable {
  readonly node: TestNode;
  readonly podman: Podman;
}

async function startBench(): Promise<Bench> {
  await using scope = new AsyncDisposableStack();
  const node = scope.use(await startNode({ ownRun: true }));
  await node.seedPool('pool', '10.84.0.0/24');
  await node.exec('ip', 'address', 'add', '198.51.100.1/32', 'dev', 'lo');
  await recordCalls(node);
  await installNetwork(node, {
    cniVersion: '1.0.0',
    name: NETWORK,
    plugins: [node.netconf(), { type: 'portmap', snat: true, capabilities: { portMappings: true } }],
  });
  const podman = scope.use(await startPodman(node));
  const kept = scope.move();
  return { node, podman, [Symbol.asyncDispose]: async () => kept.disposeAsync() };
}

async function expectNothing({ node }: Bench): Promise<void> {
  const left = { held: await node.heldAddresses(), endpoints: await node.endpoints(), links: await node.hostLinks() };
  expect(left).toEqual({ held: [], endpoints: [], links: [] });
  const rules = await node.exec('iptables', '-t', 'nat', '-S');
  expect(rules).not.toContain('CNI-DN-');
}
