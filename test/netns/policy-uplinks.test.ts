// Flows of a node with several uplinks, where the route to a machine is not the interface by which its packets come.
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { hostEndpointsToward } from '../../src/apps/agent/network/flows/host-endpoints-toward.ts';
import { flowJudge } from '../../src/apps/agent/network/flows/judge-flow.ts';
import { readHost } from '../../src/apps/agent/network/host/read-host-links.ts';
import { linuxHostNetwork } from '../../src/dataplane/linux/host-network.ts';
import { LinuxFlowTable } from '../../src/dataplane/linux/linux-flow-table.ts';
import type { AnyResource } from '../../src/model/kinds.ts';
import { formatAddress } from '../../src/net/address.ts';
import { NO_OPEN_PORTS } from '../../src/policy/open-ports.ts';
import { enterNetns, type TestNetns } from '../support/netns.ts';
import { globalPolicy, hostEndpoint } from '../support/policy-arbitraries.ts';
import { NODE, PolicyCluster, type TestPod } from '../support/policy-cluster.ts';
import { HOST_ADDRESSES, PolicyHost } from '../support/policy-host.ts';
import { until } from '../support/until.ts';

const WEB: TestPod = {
  namespace: 'shop',
  name: 'web',
  addresses: ['10.65.0.1', 'fd00:65::1'],
  interfaceName: 'nplweb',
};
/** The main table leads to it by eth0, that of the addresses of eth1 by eth1. */
const CLIENT = ['198.18.0.9', '2001:db8:18::9'];
const [OWN0, OWN1] = [
  ['198.51.100.1', '2001:db8:1::1'],
  ['203.0.113.1', '2001:db8:2::1'],
];

const scope = new AsyncDisposableStack();
const cluster = new PolicyCluster();
let host: PolicyHost;
let far: TestNetns;
let side: TestNetns;
let stored: readonly AnyResource[] = [];

beforeAll(async () => {
  host = scope.use(await PolicyHost.start(cluster));
  cluster.putNamespace('shop');
  await host.addPod(WEB);
  far = await host.addNeighbour('eth0', {
    own: ['198.51.100.1/24', '2001:db8:1::1/64'],
    its: ['198.51.100.2/24', '2001:db8:1::2/64'],
  });
  side = await host.addNeighbour('eth1', {
    own: ['203.0.113.1/24', '2001:db8:2::1/64'],
    its: ['203.0.113.2/24', '2001:db8:2::2/64'],
  });
  // Both neighbours are gateways to the client, and the client itself.
  for (const netns of [far, side]) for (const address of CLIENT) await netns.addAddress(address, 'lo');
  const { netns } = host;
  await checkSources(0);
  for (const [family, via0, via1, own] of [
    ['-4', '198.51.100.2', '203.0.113.2', OWN1[0]],
    ['-6', '2001:db8:1::2', '2001:db8:2::2', OWN1[1]],
  ] as const) {
    await netns.exec('ip', family, 'route', 'add', 'default', 'via', via0);
    await netns.exec('ip', family, 'route', 'add', 'default', 'via', via1, 'table', '100');
    await netns.exec('ip', family, 'rule', 'add', 'from', own ?? '', 'lookup', '100');
  }
  // A link-local address that is still being verified finds no neighbours.
  for (const each of [netns, far, side])
    await until(async () => !(await each.exec('ip', '-6', 'address')).includes('tentative'), 'addresses are usable');
});
afterAll(async () => scope.disposeAsync());
beforeEach(async () => {
  for (const resource of stored) cluster.remove(resource);
  stored = [];
  await host.enforce();
  await checkSources(0);
});

async function checkSources(value: number): Promise<void> {
  const links = ['all', 'default', 'eth0', 'eth1'];
  for (const link of links) await host.netns.exec('sysctl', '-qw', `net.ipv4.conf.${link}.rp_filter=${String(value)}`);
}

async function store(...resources: readonly AnyResource[]): Promise<void> {
  stored = [...stored, ...resources];
  for (const resource of resources) cluster.put(resource);
  await host.enforce();
}

type Machine = 'client by eth0' | 'client by eth1' | 'node';

async function send(from: Machine, source: string, to: readonly [string, number]): Promise<void> {
  const [target, port] = to;
  const inside = enterNetns(from === 'node' ? host.netns : from === 'client by eth0' ? far : side);
  try {
    const socket = createSocket(source.includes(':') ? 'udp6' : 'udp4');
    socket.bind({ address: source });
    await once(socket, 'listening');
    socket.send('hello', port, target);
    await sleep(20);
    socket.close();
  } finally {
    inside.leave();
  }
}

let lastPort = 5000;

/** Sends a packet over each family, and reports of each flow that the kernel has admitted whether it would end by the policies. */
async function flow(
  from: Machine,
  sources: readonly string[],
  targets: readonly string[],
): Promise<() => Promise<readonly string[]>> {
  const port = (lastPort += 1);
  for (const [at, target] of targets.entries()) await send(from, sources[at] ?? '', [target, port]);
  return async () => {
    const inside = enterNetns(host.netns);
    try {
      using table = LinuxFlowTable.open();
      const isAllowed = await judge();
      const flows = await table.list('all');
      return sources.map((source) => {
        const found = flows.find(
          ({ original }) => formatAddress(original.source) === source && original.destinationPort === port,
        );
        return found === undefined ? 'not admitted' : isAllowed(found) === 'allowed' ? 'goes on' : 'ends';
      });
    } finally {
      inside.leave();
    }
  };
}

async function judge(): Promise<ReturnType<typeof flowJudge>> {
  const network = linuxHostNetwork();
  const { links, addresses } = await readHost(network, []);
  const facts = { view: cluster.state, node: NODE, links, areSettingsKnown: true, host: network };
  return flowJudge(cluster.state, {
    node: NODE,
    hostAddresses: addresses,
    endpointToHost: 'Accept',
    open: NO_OPEN_PORTS,
    hostEndpoints: await hostEndpointsToward(facts),
  });
}

const END = ['ends', 'ends'];
const GO_ON = ['goes on', 'goes on'];
const closed = (interfaceName: string): AnyResource => hostEndpoint(`closed-${interfaceName}`, { interfaceName });
const noForwarding = (interfaceName: string): readonly AnyResource[] => [
  hostEndpoint(interfaceName, { interfaceName }, { role: interfaceName }),
  globalPolicy(
    `forward-${interfaceName}`,
    {},
    {
      selector: `role == '${interfaceName}'`,
      applyOnForward: true,
      types: ['Ingress'],
      ingress: [{ action: 'Deny' }],
    },
  ),
];

it('a flow to an address whose own table leads back goes on, however the main table leads', async () => {
  const came = await flow('client by eth1', CLIENT, OWN1);
  await store(closed('eth0'));
  expect(await came()).toEqual(GO_ON);
  const again = await flow('client by eth1', CLIENT, OWN1);
  expect(await again()).toEqual(GO_ON);
  await store(closed('eth1'));
  expect(await again()).toEqual(END);
  expect(await (await flow('client by eth1', CLIENT, OWN1))()).toEqual(['not admitted', 'not admitted']);
});

it('a flow of a machine of another network of the node goes on that came by a gateway', async () => {
  // A machine of the network of eth1, whose packets to the other address of the node pass a router.
  const near = ['203.0.113.77', '2001:db8:2::77'];
  for (const address of near) await far.addAddress(address, 'lo');
  const came = await flow('client by eth0', near, OWN0);
  await store(closed('eth1'));
  expect(await came()).toEqual(GO_ON);
  await store(closed('eth0'));
  expect(await came()).toEqual(END);
});

it('a flow to an address of no uplink goes on while some uplink allows it', async () => {
  const came = await flow('client by eth1', CLIENT, HOST_ADDRESSES);
  await store(closed('eth0'));
  expect(await came()).toEqual(GO_ON);
  expect(await (await flow('client by eth1', CLIENT, HOST_ADDRESSES))()).toEqual(GO_ON);
});

it('a flow to a pod goes on while some uplink allows it', async () => {
  const came = await flow('client by eth1', CLIENT, WEB.addresses);
  await store(...noForwarding('eth0'));
  expect(await came()).toEqual(GO_ON);
  await store(...noForwarding('eth1'));
  expect(await came()).toEqual(END);
});

it('a flow of IPv4 ends where a link with another way to its source would have dropped its packets', async () => {
  // eth1 leads to other networks only.
  const { netns } = host;
  await netns.exec('ip', 'route', 'replace', '100.64.0.0/10', 'via', '203.0.113.2');
  await netns.exec('ip', '-6', 'route', 'replace', '2001:db8:64::/48', 'via', '2001:db8:2::2');
  for (const family of ['-4', '-6']) await netns.exec('ip', family, 'route', 'flush', 'table', '100');
  const came = await flow('client by eth0', CLIENT, HOST_ADDRESSES);
  await store(closed('eth0'));
  expect(await came()).toEqual(GO_ON);
  await checkSources(1);
  // IPv6 has no such check.
  expect(await came()).toEqual(['ends', 'goes on']);
});
