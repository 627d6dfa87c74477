// What the standard plugins portmap and bandwidth keep on the host, made by the plugins themselves.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type PortRule, portMarksOf, shaperOf } from '../../src/dataplane/chained-state.ts';
import { linuxChainedState } from '../../src/dataplane/linux/linux-chained-state.ts';
import { program } from '../support/components.ts';
import { enterNetns, newNetns, type TestNetns } from '../support/netns.ts';

const { signal } = new AbortController();
const ONE = { network: 'k8s-pod-network', containerId: 'one' };
const TWO = { network: 'k8s-pod-network', containerId: 'two' };

let host: TestNetns;
let inside: { leave(): void };
beforeAll(async () => {
  host = await newNetns();
  inside = enterNetns(host);
});
afterAll(async () => {
  inside.leave();
  await host[Symbol.asyncDispose]();
});

/** Lets portmap map ports of the host to a container with an address of each family. */
async function mapPorts({ network, containerId }: typeof ONE, hostPorts: readonly number[], more: object) {
  const conf = {
    cniVersion: '1.0.0',
    name: network,
    type: 'portmap',
    ...more,
    runtimeConfig: { portMappings: hostPorts.map((hostPort) => ({ hostPort, containerPort: 80, protocol: 'tcp' })) },
    prevResult: {
      cniVersion: '1.0.0',
      interfaces: [{ name: 'eth0', sandbox: '/pod' }],
      ips: [
        { address: '10.65.0.1/32', interface: 0 },
        { address: 'fd00:65::1/128', interface: 0 },
      ],
    },
  };
  const env = ['CNI_COMMAND=ADD', `CNI_CONTAINERID=${containerId}`, 'CNI_IFNAME=eth0', 'CNI_NETNS=/pod', 'CNI_PATH=/'];
  const add = 'printf %s "$1" | "$2"';
  await host.exec('env', ...env, 'sh', '-c', add, 'sh', JSON.stringify(conf), program('portmap'));
}

it.each([
  { backend: 'iptables', markOf: (of: typeof ONE) => portMarksOf(of).chain, rulesOf: () => 1, hook: 'nat PREROUTING' },
  {
    backend: 'nftables',
    markOf: (of: typeof ONE) => portMarksOf(of).comment,
    rulesOf: (ports: number) => ports,
    hook: 'cni_hostport output',
  },
])(
  'the rules of portmap with $backend are listed with whether packets come to them, and removed for one container alone',
  async ({ backend, markOf, rulesOf, hook }) => {
    const state = linuxChainedState();
    expect(await state.listPortRules(signal)).toEqual([]);
    await mapPorts(ONE, [8081, 8082], { backend });
    await mapPorts(TWO, [8083], { backend });
    const expected = (isReached4: boolean, ones: number): readonly PortRule[] =>
      ([4, 6] as const).flatMap((family) => {
        const isReached = family === 6 || isReached4;
        const one = Array.from({ length: ones }, () => ({ family, mark: markOf(ONE), isReached }));
        return [...one, { family, mark: markOf(TWO), isReached }];
      });
    expect(await state.listPortRules(signal)).toEqual(expected(true, rulesOf(2)));
    await host.exec('nft', `flush chain ip ${hook}`);
    expect(await state.listPortRules(signal)).toEqual(expected(false, rulesOf(2)));
    for (let times = 0; times < 2; times += 1) await state.removePortRules(ONE, signal);
    expect(await state.listPortRules(signal)).toEqual(expected(false, 0));
    const left = await host.exec('nft', 'list', 'ruleset');
    expect(left).not.toMatch(new RegExp(`808[12]|${portMarksOf(ONE).chain}|"one"`));
    expect(left).toContain('8083');
    await host.exec('nft', 'flush', 'ruleset');
  },
);

it('devices of bandwidth are found and removed by their names, and no other device of such a name is', async () => {
  const state = linuxChainedState();
  const [one, two] = [shaperOf(ONE), shaperOf(TWO)];
  await host.exec('ip', 'link', 'add', one, 'type', 'ifb');
  await host.exec('ip', 'link', 'add', two, 'type', 'veth', 'peer', 'name', 'other');
  expect(await state.findShapers([one, two, 'bwpmissing'])).toEqual([one]);
  for (const name of [one, one, two]) await state.removeShaper(name);
  expect((await host.ip('link')).map(({ ifname }) => String(ifname))).toContain(two);
});
