// Packets through the interfaces of a node with host endpoints, over IPv4 and IPv6.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { AnyResource } from '../../src/model/kinds.ts';
import { failsafePorts } from '../../src/policy/open-ports.ts';
import type { TestNetns } from '../support/netns.ts';
import { globalPolicy, hostEndpoint } from '../support/policy-arbitraries.ts';
import { NODE, PolicyCluster, type TestPod } from '../support/policy-cluster.ts';
import { PolicyHost, probeAll } from '../support/policy-host.ts';

const WEB: TestPod = {
  namespace: 'shop',
  name: 'web',
  addresses: ['10.65.0.1', 'fd00:65::1'],
  interfaceName: 'nplweb',
};
const ADDRESSES = {
  node: ['198.51.100.1', '2001:db8:1::1'],
  far: ['198.51.100.2', '2001:db8:1::2'],
  side: ['203.0.113.2', '2001:db8:2::2'],
  web: WEB.addresses,
} as const;
type End = keyof typeof ADDRESSES;
/** Everything that may be asked for, by the interface that it passes. */
const CONNECTIONS = [
  'far > node',
  'side > node',
  'node > far',
  'node > side',
  'far > web',
  'web > far',
  'far > side',
  'node > web',
  'web > node',
  'node > node',
] as const;
type Connection = (typeof CONNECTIONS)[number];

const scope = new AsyncDisposableStack();
const cluster = new PolicyCluster();
/** Port 81 is kept open, port 80 is not. */
const FAILSAFE = failsafePorts({
  failsafeInboundHostPorts: [{ protocol: 'TCP', port: 81 }],
  failsafeOutboundHostPorts: [{ protocol: 'TCP', port: 81, net: '198.51.100.0/24' }],
});
let host: PolicyHost;
let netns: Readonly<Record<End, TestNetns>>;
let stored: readonly AnyResource[] = [];

beforeAll(async () => {
  host = scope.use(await PolicyHost.start(cluster, FAILSAFE));
  cluster.putNamespace('shop');
  await host.addPod(WEB);
  const far = await host.addNeighbour('eth0', {
    own: ['198.51.100.1/24', '2001:db8:1::1/64'],
    its: ['198.51.100.2/24', '2001:db8:1::2/64'],
  });
  const side = await host.addNeighbour('eth1', {
    own: ['203.0.113.1/24', '2001:db8:2::1/64'],
    its: ['203.0.113.2/24', '2001:db8:2::2/64'],
  });
  netns = { node: host.netns, far, side, web: host.pod('shop/web') };
  // A service: port 8080 of the node is port 80 of the pod.
  await host.netns.exec(
    'nft',
    `table inet services { chain p { type nat hook prerouting priority dstnat;
      iifname "eth0" meta nfproto ipv4 tcp dport 8080 dnat ip to 10.65.0.1:80
      iifname "eth0" meta nfproto ipv6 tcp dport 8080 dnat ip6 to [fd00:65::1]:80;
    }
}`,
  );
});
afterAll(async () => scope.disposeAsync());
beforeEach(async () => {
  for (const resource of stored) cluster.remove(resource);
  stored = [];
  await host.enforce();
  for (const each of Object.values(netns)) await each.exec('ip', 'neighbour', 'flush', 'all').catch(() => '');
});

async function store(...resources: readonly AnyResource[]): Promise<void> {
  stored = [...stored, ...resources];
  for (const resource of resources) cluster.put(resource);
  await host.enforce();
}

/** Returns the connections that are denied; of those where the families differ, with the family. */
async function denied(port = 80, expected: readonly Connection[] = []): Promise<readonly string[]> {
  const probes = CONNECTIONS.flatMap((connection) => {
    const [from, to] = connection.split(' > ') as [End, End];
    return ADDRESSES[to].map((address, index) => ({
      connection,
      family: index === 0 ? 4 : 6,
      from: netns[from],
      to: address,
      port,
      expected: expected.includes(connection) ? ('denied' as const) : ('allowed' as const),
    }));
  });
  const answers = await probeAll(probes);
  const silent = probes.filter((_, index) => answers[index] === false);
  return CONNECTIONS.flatMap((connection) => {
    const families = silent.filter((probe) => probe.connection === connection).map(({ family }) => family);
    if (families.length === 2) return [connection];
    return families.map((family) => `${connection} over IPv${String(family)}`);
  });
}

async function expectDenied(expected: readonly Connection[], port = 80): Promise<void> {
  expect(await denied(port, expected)).toEqual(CONNECTIONS.filter((each) => expected.includes(each)));
}

async function reaches(from: End, to: End, port: number, expected: 'allowed' | 'denied'): Promise<void> {
  const answers = await probeAll(ADDRESSES[to].map((address) => ({ from: netns[from], to: address, port, expected })));
  expect([from, to, port, answers]).toEqual([from, to, port, answers.map(() => expected === 'allowed')]);
}

const everything = (name: string, labels: object = {}): AnyResource =>
  hostEndpoint(name, { interfaceName: '*' }, labels);
const named = (spec: object = {}): AnyResource => hostEndpoint('named', { interfaceName: 'eth0', ...spec });
const OPEN = { profiles: ['netplug-default-allow'] };
const onHosts = (name: string, spec: object): AnyResource =>
  globalPolicy(name, {}, { selector: "host == 'yes'", types: ['Ingress'], ingress: [], ...spec });
const AT_FAR: readonly Connection[] = ['far > node', 'node > far'];
const AT_SIDE: readonly Connection[] = ['side > node', 'node > side'];

describe('a host endpoint to which nothing applies', () => {
  it('for all interfaces drops what is for the node or from it, and nothing of pods or loopback [hep-strict]', async () => {
    await store(everything('all'));
    await expectDenied([...AT_FAR, ...AT_SIDE]);
  });

  it('leaves failsafe ports open, so that the node stays in reach', async () => {
    await store(everything('all'));
    // Outgoing only to the network of "far", over IPv4.
    expect(await denied(81, [])).toEqual(['node > far over IPv6', 'node > side']);
  });

  it('for one interface leaves the others alone', async () => {
    await store(named());
    await expectDenied(AT_FAR);
  });

  it('is found by an address of the interface', async () => {
    await store(hostEndpoint('expected', { expectedIPs: ['2001:db8:2::1'] }));
    await expectDenied(AT_SIDE);
  });
});

describe('what the node sends to a service', () => {
  // Port 8081 of the service addresses: the pod, "far", the node. Their routes lead to "side" until they are translated.
  const TO = ['web', 'far', 'node'] as const;
  const services = ['203.0.113.101', '203.0.113.102', '203.0.113.103'];
  const services6 = ['2001:db8:2::101', '2001:db8:2::102', '2001:db8:2::103'];
  beforeAll(async () => {
    const rules = TO.flatMap((to, index) => [
      `ip daddr ${services[index] ?? ''} dnat ip to ${ADDRESSES[to][0]}`,
      `ip6 daddr ${services6[index] ?? ''} dnat ip6 to ${ADDRESSES[to][1]}`,
    ]);
    await host.netns.exec(
      'nft',
      `table inet sent { chain o { type nat hook output priority -100;
        ${rules.join('; ')}
      }
      chain s { type nat hook postrouting priority 100;
        ct status dnat ip saddr != 198.51.100.1 oifname "eth0" snat ip to 198.51.100.1
        ct status dnat ip6 saddr != 2001:db8:1::1 oifname "eth0" snat ip6 to 2001:db8:1::1
      }
}`,
    );
  });
  afterAll(async () => host.netns.exec('nft', 'delete', 'table', 'inet', 'sent'));

  async function deniedServices(expected: readonly (typeof TO)[number][]): Promise<readonly string[]> {
    const probes = TO.flatMap((to, index) =>
      [services[index] ?? '', services6[index] ?? ''].map((address) => ({
        from: netns.node,
        to: address,
        port: 80,
        expected: expected.includes(to) ? ('denied' as const) : ('allowed' as const),
      })),
    );
    const answers = await probeAll(probes);
    return TO.filter((_, index) => answers[2 * index] === false && answers[2 * index + 1] === false);
  }

  it('is judged at the interface by which it leaves after translation', async () => {
    await store(everything('all'));
    expect(await deniedServices(['far'])).toEqual(['far']);
    await reaches('node', 'side', 80, 'denied');
  });

  it('is not judged at the interface of the route before translation', async () => {
    await store(hostEndpoint('side', { interfaceName: 'eth1' }));
    expect(await deniedServices([])).toEqual([]);
    await store(named());
    expect(await deniedServices(['far'])).toEqual(['far']);
  });

  it('meets the policies of that interface', async () => {
    await store(
      named(OPEN),
      onHosts('out', {
        types: ['Egress'],
        egress: [{ action: 'Deny', destination: { nets: ['198.51.100.2/32', '2001:db8:1::2/128'] } }],
      }),
    );
    expect(await deniedServices(['far'])).toEqual(['far']);
    await reaches('far', 'node', 8080, 'allowed');
  });
});

describe('where several host endpoints meet', () => {
  it('a named one decides before one for all interfaces', async () => {
    await store(everything('all'), named(OPEN));
    await expectDenied(AT_SIDE);
  });

  it('a migration to an automatic one changes the node once, when the old one is deleted', async () => {
    const old = everything('old', { role: 'gateway' });
    await store(
      old,
      onHosts('gateways', { ingress: [{ action: 'Allow', protocol: 'TCP', destination: { ports: [80] } }] }),
    );
    await expectDenied(['node > far', 'node > side']);
    const automatic = hostEndpoint(
      `${NODE}-auto-hep`,
      { interfaceName: '*', ...OPEN },
      { role: 'gateway', 'netplug/created-by': 'netplug-orch-controllers' },
    );
    await store(automatic);
    await expectDenied(['node > far', 'node > side']);
    cluster.remove(old);
    await host.enforce();
    await expectDenied([]);
  });
});

describe('policies of a host endpoint', () => {
  it('decide on their own direction', async () => {
    await store(
      named(),
      onHosts('in', { ingress: [{ action: 'Allow', protocol: 'TCP', destination: { ports: [80] } }] }),
    );
    await expectDenied(['node > far']);
    await store(onHosts('out', { types: ['Egress'], egress: [{ action: 'Allow', protocol: 'TCP' }] }));
    await expectDenied([]);
  });

  it('decide on forwarded packets with applyOnForward', async () => {
    await store(
      named(OPEN),
      onHosts('in', {
        applyOnForward: true,
        ingress: [{ action: 'Allow', protocol: 'TCP', destination: { ports: [81] } }],
      }),
    );
    await expectDenied(['far > node', 'far > web', 'far > side']);
    await expectDenied([], 81);
    await store(onHosts('out', { applyOnForward: true, types: ['Egress'], egress: [{ action: 'Deny' }] }));
    await reaches('web', 'far', 80, 'denied');
    await reaches('web', 'node', 80, 'allowed');
  });

  it('with preDNAT see the port of a service, and what they allow meets no other policy of the endpoint', async () => {
    await store(named(OPEN));
    await reaches('far', 'node', 8080, 'allowed');
    const before = { preDNAT: true, applyOnForward: true };
    const service = { protocol: 'TCP', destination: { ports: [8080] } };
    await store(onHosts('before', { ...before, ingress: [{ action: 'Deny', ...service }] }));
    await reaches('far', 'node', 8080, 'denied');
    await reaches('far', 'web', 80, 'allowed');
    await store(
      onHosts('before', { ...before, ingress: [{ action: 'Allow', ...service }] }),
      onHosts('after', { applyOnForward: true, ingress: [{ action: 'Deny' }] }),
    );
    await reaches('far', 'node', 8080, 'allowed');
    await reaches('far', 'web', 80, 'denied');
    await reaches('far', 'node', 80, 'denied');
    // The kernel has exactly what was compiled, so a new agent changes nothing.
    expect(await host.repair()).toEqual({ chains: 0, sets: 0, elements: 0 });
  });

  it('with doNotTrack need both directions, keep packets out of connection tracking, and close no failsafe port', async () => {
    const raw = { doNotTrack: true, applyOnForward: true };
    const arriving = { action: 'Allow', protocol: 'TCP', destination: { ports: [80] } };
    await store(named(), onHosts('raw', { ...raw, ingress: [arriving] }));
    await reaches('far', 'node', 80, 'denied');
    await store(
      onHosts('raw', {
        ...raw,
        types: ['Ingress', 'Egress'],
        ingress: [arriving, { action: 'Deny' }],
        egress: [{ action: 'Allow', protocol: 'TCP', source: { ports: [80] } }],
      }),
    );
    await host.netns.exec(
      'nft',
      `table inet seen { chain i { type filter hook input priority -10;
        tcp dport 80 ct state untracked counter comment "untracked"
        tcp dport 80 ct state new counter comment "tracked";
      }
}`,
    );
    await reaches('far', 'node', 80, 'allowed');
    const counts = [...(await host.netns.exec('nft', 'list', 'table', 'inet', 'seen')).matchAll(/packets (\d+)/g)];
    await host.netns.exec('nft', 'delete', 'table', 'inet', 'seen');
    expect(counts.map(([, packets]) => Number(packets) > 0)).toEqual([true, false]);
    await reaches('far', 'node', 81, 'allowed');
    await reaches('node', 'side', 80, 'allowed');
  });

  it('with doNotTrack of one interface leave the policies of another in force', async () => {
    const rules = [{ action: 'Allow', protocol: 'TCP' }];
    const raw = { doNotTrack: true, applyOnForward: true, types: ['Ingress', 'Egress'], ingress: rules, egress: rules };
    await store(
      hostEndpoint('named', { interfaceName: 'eth0', ...OPEN }, { role: 'raw' }),
      hostEndpoint('side', { interfaceName: 'eth1', ...OPEN }, { role: 'guarded' }),
      onHosts('raw', { ...raw, selector: "role == 'raw'" }),
    );
    await reaches('far', 'side', 80, 'allowed');
    const leaving = { selector: "role == 'guarded'", applyOnForward: true, types: ['Egress'] };
    await store(onHosts('leaving', { ...leaving, egress: [{ action: 'Deny' }] }));
    await reaches('far', 'side', 80, 'denied');
    await reaches('far', 'node', 80, 'allowed');
    await store(onHosts('leaving', { ...leaving, types: ['Ingress'], ingress: [{ action: 'Deny' }] }));
    // Another program keeps packets out of connection tracking.
    await host.netns.exec(
      'nft',
      'table inet other { chain p { type filter hook prerouting priority raw; iifname "eth1" notrack; }\n}',
    );
    const answers = await probeAll(
      ADDRESSES.node.map((to) => ({ from: netns.side, to, port: 80, expected: 'denied' as const })),
    );
    await host.netns.exec('nft', 'delete', 'table', 'inet', 'other');
    expect(answers).toEqual([false, false]);
  });
});
