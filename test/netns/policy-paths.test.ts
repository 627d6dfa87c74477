// Traffic that the text of NetworkPolicy leaves open: services, the own node, neighbours, ICMP, and SCTP.
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { enterNetns, type TestNetns } from '../support/netns.ts';
import { globalPolicy } from '../support/policy-arbitraries.ts';
import { PolicyCluster, type TestPod } from '../support/policy-cluster.ts';
import { HOST_ADDRESSES, PolicyHost, type Probe, probeAll } from '../support/policy-host.ts';
import { until } from '../support/until.ts';

const podOf = (name: string, ordinal: number): TestPod => ({
  namespace: 'x',
  name,
  addresses: [`10.65.0.${String(ordinal)}`, `fd00:65::${String(ordinal)}`],
  interfaceName: `npl${name}`,
  labels: { role: name },
});
const [WEB, CLIENT] = [podOf('web', 1), podOf('client', 2)];
const SERVICE = ['203.0.113.10', '2001:db8:9::10'];

/** Families. */
const BOTH = [true, true];

const scope = new AsyncDisposableStack();
const cluster = new PolicyCluster();
let host: PolicyHost;

beforeAll(async () => {
  host = scope.use(await PolicyHost.start(cluster));
  cluster.putNamespace('x');
  for (const pod of [WEB, CLIENT]) await host.addPod(pod);
  const [web4 = '', web6 = ''] = WEB.addresses;
  const [own4, own6] = HOST_ADDRESSES;
  await host.netns.exec(
    'nft',
    `table inet services {
      chain p { type nat hook prerouting priority dstnat;
        ip daddr ${SERVICE[0] ?? ''} tcp dport 80 dnat ip to ${web4}:80
        ip6 daddr ${SERVICE[1] ?? ''} tcp dport 80 dnat ip6 to [${web6}]:80
      }
      chain s { type nat hook postrouting priority srcnat;
        ip saddr ${web4} ip daddr ${web4} snat ip to ${own4}
        ip6 saddr ${web6} ip6 daddr ${web6} snat ip6 to ${own6}
      }
    }`,
  );
});
afterAll(async () => scope.disposeAsync());

/** Reports for each address whether the pod is answered as expected. */
async function are(expected: Probe['expected'], from: string, to: readonly string[]): Promise<readonly boolean[]> {
  const answers = await probeAll(to.map((address) => ({ from: host.pod(from), to: address, port: 80, expected })));
  return answers.map((isAnswered) => isAnswered === (expected === 'allowed'));
}

async function allowFrom(role: string, more: object = {}): Promise<void> {
  const spec = { selector: "role == 'web'", types: ['Ingress'], ...more };
  await host.enforce(cluster.put(globalPolicy('p', { source: { selector: `role == '${role}'` } }, spec)));
}

it('judges a pod that reaches itself through a service by its own policies, and not when it does so directly', async () => {
  await host.enforce();
  expect(await are('allowed', 'x/web', SERVICE)).toEqual(BOTH);
  await allowFrom('client');
  expect(await are('denied', 'x/web', SERVICE)).toEqual(BOTH);
  expect(await are('allowed', 'x/client', SERVICE)).toEqual(BOTH);
  expect(await are('allowed', 'x/web', WEB.addresses)).toEqual(BOTH);
  await allowFrom('web');
  expect(await are('allowed', 'x/web', SERVICE)).toEqual(BOTH);
  expect(await are('denied', 'x/client', SERVICE)).toEqual(BOTH);
});

it('lets pods find their neighbours when those have expired, and when they were removed', async () => {
  // Its answers to neighbours are no part of a connection.
  await allowFrom('client', { types: ['Ingress', 'Egress'], egress: [] });
  const places = [host.netns, host.pod('x/web'), host.pod('x/client')];
  for (const place of places)
    for (const family of ['ipv4', 'ipv6']) {
      const settings = ['base_reachable_time_ms=100', 'gc_stale_time=1', 'delay_first_probe_time=1'];
      const prefixes = ['default', 'eth0', 'nplweb', 'nplclient'].map((name) => `net.${family}.neigh.${name}`);
      for (const prefix of prefixes)
        for (const setting of settings) await place.exec('sysctl', '-qw', `${prefix}.${setting}`).catch(() => '');
    }
  expect(await are('allowed', 'x/client', WEB.addresses)).toEqual(BOTH);
  const stale = async (): Promise<boolean> => (await host.netns.exec('ip', 'neighbour')).includes('STALE');
  await until(stale, 'entries of neighbours have expired');
  expect(await are('allowed', 'x/client', WEB.addresses)).toEqual(BOTH);
  for (const place of places) await place.exec('ip', 'neighbour', 'flush', 'all').catch(() => '');
  expect(await are('allowed', 'x/client', WEB.addresses)).toEqual(BOTH);
  expect(await are('allowed', 'x/web', WEB.addresses)).toEqual(BOTH);
});

describe('SCTP', () => {
  const SOURCE_PORT = 9132;
  beforeAll(async () => {
    // The kernel need not have SCTP for programs: an INIT chunk leaves as a datagram and becomes SCTP on its way out.
    await host.pod('x/client').exec(
      'nft',
      `table inet rewritten { chain o { type filter hook output priority 0;
        udp sport ${String(SOURCE_PORT)} @th,32,32 set 0 ip protocol set 132
        udp sport ${String(SOURCE_PORT)} @th,32,32 set 0 ip6 nexthdr set 132
      }
}`,
    );
  });

  /** Returns which packets arrive, by family and port. */
  async function arrivals(): Promise<readonly string[]> {
    const web = host.pod('x/web');
    const places = [4, 6].flatMap((family) =>
      [80, 81].map((port) => ({ family, port, name: `IPv${String(family)} ${String(port)}` })),
    );
    const rules = places.map(
      ({ family, port, name }) =>
        `meta nfproto ipv${String(family)} meta l4proto 132 th dport ${String(port)} counter comment "${name}";`,
    );
    await web.exec(
      'nft',
      `table inet seen { chain p { type filter hook prerouting priority 0; ${rules.join(' ')} }\n}`,
    );
    for (const [at, address] of WEB.addresses.entries()) await sendInit(address, at === 0 ? 'udp4' : 'udp6');
    const listed = await web.exec('nft', 'list', 'table', 'inet', 'seen');
    await web.exec('nft', 'delete', 'table', 'inet', 'seen');
    return [...listed.matchAll(/packets ([1-9]\d*) bytes \d+ comment "([^"]+)"/g)].map(([, , name]) => name ?? '');
  }

  async function sendInit(address: string, type: 'udp4' | 'udp6'): Promise<void> {
    const inside = enterNetns(host.pod('x/client'));
    try {
      const socket = createSocket(type);
      socket.bind(SOURCE_PORT);
      await once(socket, 'listening');
      // Checksum; INIT of 20 bytes with a tag, a window, streams and a first number.
      const chunk = Buffer.from('000000000100001400000001000100000001000100000001', 'hex');
      for (const port of [80, 81]) socket.send(chunk, port, address);
      await sleep(100);
      socket.close();
    } finally {
      inside.leave();
    }
  }

  const rule = (protocol: string, ports: readonly number[]): object => ({
    selector: "role == 'web'",
    types: ['Ingress'],
    ingress: [{ action: 'Allow', protocol, destination: { ports } }],
  });

  it('passes where a rule of SCTP names its port, and opens nothing of other protocols', async () => {
    const hasSctp = async (): Promise<boolean> => /^SCTP\b/m.test(await readFile('/proc/net/protocols', 'utf8'));
    const before = await hasSctp();
    await host.enforce(cluster.remove(globalPolicy('p', {}, {})));
    expect(await arrivals()).toEqual(['IPv4 80', 'IPv4 81', 'IPv6 80', 'IPv6 81']);
    await host.enforce(cluster.put(globalPolicy('p', {}, rule('SCTP', [80]))));
    expect(await arrivals()).toEqual(['IPv4 80', 'IPv6 80']);
    expect(await are('denied', 'x/client', WEB.addresses)).toEqual(BOTH);
    await host.enforce(cluster.put(globalPolicy('p', {}, rule('TCP', [80, 81]))));
    expect(await arrivals()).toEqual([]);
    expect(await are('allowed', 'x/client', WEB.addresses)).toEqual(BOTH);
    // Policies load no module.
    expect(await hasSctp()).toBe(before);
  });
});

describe('what comes through a service of the node', () => {
  const NODE_PORT = 8080;
  beforeAll(async () => {
    const [web4 = '', web6 = ''] = WEB.addresses;
    outside = await host.addNeighbour('out0', {
      own: ['198.51.100.1/24', '2001:db8:1::1/64'],
      its: ['198.51.100.2/24', '2001:db8:1::2/64'],
    });
    await host.netns.exec(
      'nft',
      `table inet node-ports {
        chain p { type nat hook prerouting priority dstnat;
          meta nfproto ipv4 tcp dport ${String(NODE_PORT)} dnat ip to ${web4}:80
          meta nfproto ipv6 tcp dport ${String(NODE_PORT)} dnat ip6 to [${web6}]:80
        }
        chain s { type nat hook postrouting priority srcnat; iifname "out0" ct status dnat masquerade; }
}`,
    );
  });
  const NODE = ['198.51.100.1', '2001:db8:1::1'];
  let outside: TestNetns;

  async function enters(expected: Probe['expected'], port: number): Promise<readonly boolean[]> {
    const answers = await probeAll(NODE.map((to) => ({ from: outside, to, port, expected })));
    return answers.map((isAnswered) => isAnswered === (expected === 'allowed'));
  }

  it('is judged by the address of the client, although the node puts its own there, which always passes', async () => {
    await allowFrom('client');
    expect(await enters('denied', NODE_PORT)).toEqual(BOTH);
    // The node itself, from whatever address of it.
    const probes = WEB.addresses.map((to) => ({ from: host.netns, to, port: 80, expected: 'allowed' as const }));
    expect(await probeAll(probes)).toEqual(BOTH);
    for (const [source, to] of [
      ['198.51.100.1', WEB.addresses[0]],
      ['2001:db8:1::1', WEB.addresses[1]],
    ] as const)
      await host.netns.exec('ping', '-n', '-c', '1', '-W', '3', '-I', source, to ?? '');
    await allowFrom('client', {
      ingress: [{ action: 'Allow', source: { nets: ['198.51.100.2/32', '2001:db8:1::2/128'] } }],
    });
    expect(await enters('allowed', NODE_PORT)).toEqual(BOTH);
    await allowFrom('client', {
      ingress: [{ action: 'Allow', source: { nets: ['198.51.100.1/32', '2001:db8:1::1/128'] } }],
    });
    expect(await enters('denied', NODE_PORT)).toEqual(BOTH);
  });
});

it('lets a pod reach its node after its own policies, unless the agent is configured to drop that, and the node the pod', async () => {
  await host.enforce(cluster.remove(globalPolicy('p', {}, {})));
  const fromNode = WEB.addresses.map((to) => ({ from: host.netns, to, port: 80, expected: 'allowed' as const }));
  expect(await are('allowed', 'x/client', HOST_ADDRESSES)).toEqual(BOTH);
  host.setToHost('Drop');
  await host.enforce();
  expect(await are('denied', 'x/client', HOST_ADDRESSES)).toEqual(BOTH);
  expect(await are('allowed', 'x/client', WEB.addresses)).toEqual(BOTH);
  expect(await probeAll(fromNode)).toEqual(BOTH);
  host.setToHost('Accept');
  await host.enforce();
  expect(await are('allowed', 'x/client', HOST_ADDRESSES)).toEqual(BOTH);
});

it('lets ICMP errors about an allowed connection through to a pod that allows nothing in', async () => {
  await host.enforce(
    cluster.put(globalPolicy('p', {}, { selector: "role == 'client'", types: ['Ingress'], ingress: [] })),
  );
  const inside = enterNetns(host.pod('x/client'));
  try {
    for (const [at, address] of WEB.addresses.entries()) {
      const socket = createSocket(at === 0 ? 'udp4' : 'udp6');
      // No server has this port: the pod answers that it is unreachable.
      socket.connect(9, address);
      await once(socket, 'connect');
      const failed = once(socket, 'error', { signal: AbortSignal.timeout(30_000) });
      socket.send('hello');
      expect(await failed).toMatchObject([{ code: 'ECONNREFUSED' }]);
      socket.close();
    }
  } finally {
    inside.leave();
  }
});

it('lets messages of neighbour discovery pass on a link alone: they carry nothing past the policies of pods', async () => {
  const [, web6 = ''] = WEB.addresses;
  const [, client6 = ''] = CLIENT.addresses;
  const client = host.pod('x/client');
  await client.exec(
    'nft',
    `table inet disguised { chain o { type filter hook output priority 0;
      ip6 daddr ${web6} icmpv6 type echo-request icmpv6 type set nd-neighbor-solicit
    }
}`,
  );
  await host
    .pod('x/web')
    .exec(
      'nft',
      `table inet seen { chain p { type filter hook prerouting priority 0; ip6 saddr ${client6} icmpv6 type nd-neighbor-solicit counter; }\n}`,
    );
  const arrived = async (): Promise<boolean> => {
    await client.exec('ping', '-n', '-c', '1', '-W', '0.3', web6).catch(() => '');
    return /packets [1-9]/.test(await host.pod('x/web').exec('nft', 'list', 'table', 'inet', 'seen'));
  };
  await host.enforce(
    cluster.put(globalPolicy('p', {}, { selector: "role == 'web'", types: ['Ingress'], ingress: [] })),
  );
  expect(await arrived()).toBe(false);
  await host.enforce(
    cluster.put(globalPolicy('p', {}, { selector: "role == 'client'", types: ['Egress'], egress: [] })),
  );
  expect(await arrived()).toBe(false);
  await host.enforce(cluster.remove(globalPolicy('p', {}, {})));
  expect(await arrived()).toBe(true);
});
