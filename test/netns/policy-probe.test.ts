// Packets of `policy why --probe`, followed through the kernel of a node, over IPv4 and IPv6.
import { once } from 'node:events';
import { spawn } from 'node:child_process';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { probeConnection, type ExplainedProbe } from '../../src/apps/ctl/policy/probe-connection.ts';
import { judgeConnections } from '../../src/apps/ctl/policy/explain-connection.ts';
import type { AskedProtocol } from '../../src/apps/ctl/policy/explain-connection.ts';
import { findEnd } from '../../src/apps/ctl/policy/connection-ends.ts';
import { findService, SERVICE } from '../../src/apps/ctl/policy/find-destination.ts';
import type { ServiceReader } from '../../src/apps/ctl/policy/read-services.ts';
import { linuxPacketProbe } from '../../src/dataplane/linux/linux-packet-probe.ts';
import type { AnyResource } from '../../src/model/kinds.ts';
import type { Node } from '../../src/model/node.ts';
import { failsafePorts } from '../../src/policy/open-ports.ts';
import { enterNetns } from '../support/netns.ts';
import { globalPolicy, hostEndpoint } from '../support/policy-arbitraries.ts';
import { NODE, PolicyCluster, type TestPod } from '../support/policy-cluster.ts';
import { parseAddress } from '../../src/net/address.ts';
import { PolicyHost, type Probe, probeAll } from '../support/policy-host.ts';
import { until } from '../support/until.ts';

const WEB: TestPod = {
  namespace: 'shop',
  name: 'web',
  addresses: ['10.66.0.1', 'fd00:66::1'],
  interfaceName: 'nplweb',
};
const DB: TestPod = { namespace: 'shop', name: 'db', addresses: ['10.66.0.2', 'fd00:66::2'], interfaceName: 'npldb' };
const NODES: readonly Node[] = [
  {
    apiVersion: 'netplug.io/v3',
    kind: 'Node',
    metadata: { name: NODE },
    spec: { addresses: ['198.51.100.1', '2001:db8:1::1'].map((address) => ({ address, type: 'InternalIP' })) },
  },
];
const FAR = ['198.51.100.2', '2001:db8:1::2'] as const;
const SERVICE_ADDRESS = '10.96.0.7';
/** One Service, behind which is `shop/web`. */
const SERVICES: ServiceReader = {
  find: async () =>
    Promise.resolve({
      namespace: 'shop',
      name: 'web',
      isHeadless: false,
      clusterIps: [parseAddress(SERVICE_ADDRESS)],
      externalAddresses: [],
      balancerAddresses: [],
      sourceRanges: [],
      ports: [{ name: '', protocol: 6, port: 8000 }],
      internalTrafficPolicy: 'Cluster',
      externalTrafficPolicy: 'Cluster',
      hasAffinity: false,
    }),
  list: async () => Promise.resolve([]),
  endpointsOf: async () =>
    Promise.resolve([
      {
        address: parseAddress('10.66.0.1'),
        node: NODE,
        isReady: true,
        isServing: true,
        isTerminating: false,
        hasHints: false,
        ports: [{ name: '', protocol: 6, port: 80 }],
      },
    ]),
};
const FAILSAFE = failsafePorts({
  failsafeInboundHostPorts: [{ protocol: 'TCP', port: 81 }],
  failsafeOutboundHostPorts: [],
});

const scope = new AsyncDisposableStack();
const cluster = new PolicyCluster();
let host: PolicyHost;
let stored: readonly AnyResource[] = [];

beforeAll(async () => {
  host = scope.use(await PolicyHost.start(cluster, FAILSAFE));
  cluster.putNamespace('shop');
  await host.addPod(WEB);
  await host.addPod(DB);
  await host.addNeighbour('eth0', {
    own: ['198.51.100.1/24', '2001:db8:1::1/64'],
    its: ['198.51.100.2/24', '2001:db8:1::2/64'],
  });
});
afterAll(async () => scope.disposeAsync());
beforeEach(async () => {
  for (const resource of stored) cluster.remove(resource);
  stored = [];
  await host.enforce();
});

async function store(...resources: readonly AnyResource[]): Promise<void> {
  stored = [...stored, ...resources];
  for (const resource of resources) cluster.put(resource);
  await host.enforce();
}

/** Sends `from -> to:port/protocol` over each family that both ends have. */
async function probe(text: string, { isMissingHere = false } = {}): Promise<readonly ExplainedProbe[]> {
  const [, from = '', to = '', port, name = 'tcp'] = /^(\S+) -> (\S+?)(?:#(\d+))?(?:%(\w+))?$/.exec(text) ?? [];
  const plan = { view: cluster.state, nodes: NODES, pools: [], floating: [] };
  const protocol = name.toUpperCase() as AskedProtocol;
  const asked = port === undefined ? undefined : Number(port);
  const source = findEnd(plan, from);
  const found = to.startsWith(SERVICE)
    ? await findService(plan, { text: to, from: source, protocol, port: asked }, SERVICES)
    : { to: findEnd(plan, to), port: asked };
  const connections = judgeConnections({
    plan,
    from: source,
    ...found,
    protocol,
    endpointToHost: () => 'Accept',
    openPorts: () => FAILSAFE,
  });
  const probed: ExplainedProbe[] = [];
  const inside = enterNetns(host.netns);
  try {
    for (const connection of connections) {
      const question = { view: cluster.state, node: isMissingHere ? 'other' : NODE, connection, protocol };
      probed.push(await probeConnection(linuxPacketProbe(), question, AbortSignal.timeout(20_000)));
    }
  } finally {
    inside.leave();
  }
  return probed;
}

/** Each place as `place: outcome, verdict of the kernel`, which must be the same over all families. */
async function places(text: string): Promise<readonly string[]> {
  const [first = [], ...others] = (await probe(text)).map((each) =>
    each.places.map(({ place, outcome, kernel }) => `${place}: ${outcome}, ${kernel?.verdict ?? 'not seen'}`),
  );
  for (const other of others) expect(other).toEqual(first);
  return first;
}

async function tables(): Promise<string> {
  return host.netns.exec('nft', 'list', 'tables');
}

/** Decides about packets to pods before their policies do. */
async function tamper(verdict: string): Promise<void> {
  const chain = ['inet', 'netplug-policy', 'forward-ingress'] as const;
  const listed = await host.netns.exec('nft', '-a', 'list', 'chain', ...chain);
  const [, handle = ''] = /vmap @to-pods.*# handle (\d+)/.exec(listed) ?? [];
  await host.netns.exec('nft', 'insert', 'rule', ...chain, 'handle', handle, verdict);
}

interface Rules {
  readonly ingress?: readonly object[];
  readonly egress?: readonly object[];
}

/** A policy of the directions for which it has rules. */
function policy(
  name: string,
  selector: string,
  { ingress, egress, ...rest }: Rules & { applyOnForward?: true },
): AnyResource {
  const types = [...(ingress === undefined ? [] : ['Ingress']), ...(egress === undefined ? [] : ['Egress'])];
  return globalPolicy(name, {}, { selector, types, ingress: ingress ?? [], egress: egress ?? [], ...rest });
}

const ofWeb = (rules: Rules): AnyResource => policy('web', "pod == 'web'", rules);

describe('policy why --probe', () => {
  it('agrees where profiles allow, over TCP, UDP and ICMP', async () => {
    for (const traffic of ['#80', '#80%udp', '%icmp'])
      expect(await places(`shop/web -> shop/db${traffic}`)).toEqual([
        'egress of shop/web: agrees, allow',
        'ingress of shop/db: agrees, allow',
      ]);
    expect(await tables()).toBe('table inet netplug-policy\n');
  });

  it('names the rule that denies, and what the packet no longer reaches', async () => {
    await store(ofWeb({ egress: [{ action: 'Deny', protocol: 'TCP' }, { action: 'Allow' }] }));
    expect(await places('shop/web -> shop/db#80')).toEqual([
      'egress of shop/web: agrees, deny',
      'ingress of shop/db: not reached, not seen',
    ]);
    const [denied] = await probe('shop/web -> shop/db#80');
    expect(denied?.outcome).toBe('agrees');
    expect(denied?.places[0]?.kernel?.reason).toBe('GlobalNetworkPolicy web, egress[0]: Deny TCP');
    expect(await places('shop/web -> shop/db#80%udp')).toEqual([
      'egress of shop/web: agrees, allow',
      'ingress of shop/db: agrees, allow',
    ]);
  });

  it('names the default that denies', async () => {
    await store(ofWeb({ ingress: [{ action: 'Allow', protocol: 'UDP' }] }));
    const [denied] = await probe('shop/db -> shop/web#80');
    expect(denied?.places[1]).toMatchObject({
      outcome: 'agrees',
      kernel: { verdict: 'deny', reason: expect.stringContaining('no rule matches of GlobalNetworkPolicy web') },
    });
    expect(await places('shop/db -> shop/web#80%udp')).toHaveLength(2);
    expect(await places('shop/db -> shop/web%icmp')).toContain('ingress of shop/web: agrees, deny');
  });

  it('follows packets of the node, to the node, and from other machines', async () => {
    await store(ofWeb({ ingress: [{ action: 'Deny', protocol: 'TCP' }], egress: [{ action: 'Allow' }] }));
    expect(await places(`shop/web -> host/${NODE}#80`)).toEqual([
      'egress of shop/web: agrees, allow',
      'packets of pods to their own node: agrees, allow',
    ]);
    expect((await probe(`host/${NODE} -> shop/web#80`)).map(({ outcome }) => outcome)).toEqual(['agrees', 'agrees']);
    for (const far of FAR) {
      expect(await places(`${far} -> shop/web#80`)).toEqual(['ingress of shop/web: agrees, deny']);
      expect(await places(`${far} -> shop/db#80`)).toEqual(['ingress of shop/db: agrees, allow']);
      expect(await places(`shop/db -> ${far}#80`)).toEqual(['egress of shop/db: agrees, allow']);
    }
    expect(
      (await host.netns.ip('link')).map(({ ifname }) => String(ifname)).filter((name) => name.startsWith('netplug')),
    ).toEqual([]);
  });

  it('follows packets through host endpoints', async () => {
    await store(
      hostEndpoint('all', { interfaceName: '*' }, { role: 'gateway' }),
      policy('gateway', "role == 'gateway'", {
        applyOnForward: true,
        ingress: [{ action: 'Allow', protocol: 'UDP' }],
        egress: [{ action: 'Deny', protocol: 'UDP' }, { action: 'Allow' }],
      }),
    );
    const [far] = FAR;
    expect(await places(`${far} -> host/${NODE}#80`)).toEqual(['ingress at HostEndpoint all, local: agrees, deny']);
    expect(await places(`${far} -> host/${NODE}#81`)).toEqual(['ingress at HostEndpoint all, local: agrees, allow']);
    expect(await places(`${far} -> shop/web#80%udp`)).toEqual([
      'ingress of shop/web: agrees, allow',
      'ingress at HostEndpoint all, forwarded: agrees, allow',
    ]);
    expect(await places(`host/${NODE} -> ${far}#80`)).toContain('egress at HostEndpoint all, local: agrees, allow');
    expect(await places(`shop/web -> ${far}#80%udp`)).toEqual([
      'egress of shop/web: agrees, allow',
      'egress at HostEndpoint all, forwarded: agrees, deny',
    ]);
  });

  it('follows packets to a Service, also back to the pod that sends them', async () => {
    // As kube-proxy does it: a pod that answered itself directly would take the answer for another connection's.
    await host.netns.exec(
      'nft',
      `table ip proxy {
        chain to { type nat hook prerouting priority -100; ip daddr ${SERVICE_ADDRESS} tcp dport 8000 dnat to 10.66.0.1:80; }
        chain back { type nat hook postrouting priority 100; ip saddr 10.66.0.1 ip daddr 10.66.0.1 masquerade; }
      }`,
    );
    const connects = async (from: string, to: string, port: number, expected: Probe['expected']): Promise<boolean> =>
      (await probeAll([{ from: host.pod(from), to, port, expected }]))[0] ?? false;
    await store(ofWeb({ ingress: [{ action: 'Allow', source: { selector: "pod == 'db'" } }] }));
    expect(await places('shop/db -> svc/web#8000')).toEqual([
      'egress of shop/db: agrees, allow',
      'ingress of shop/web: agrees, allow',
    ]);
    expect(await places('shop/web -> svc/web#8000')).toEqual([
      'egress of shop/web: agrees, allow',
      'ingress of shop/web: agrees, deny',
    ]);
    expect(await connects('shop/web', SERVICE_ADDRESS, 8000, 'denied')).toBe(false);
    expect(await connects('shop/web', '10.66.0.1', 80, 'allowed')).toBe(true);
    await expect(probe('shop/web -> shop/web#80')).rejects.toMatchObject({ code: 'policy/probe-impossible' });
    await store(ofWeb({ ingress: [{ action: 'Allow', source: { selector: "pod == 'web'" } }] }));
    expect(await places('shop/web -> svc/web#8000')).toContain('ingress of shop/web: agrees, allow');
    expect(await connects('shop/web', SERVICE_ADDRESS, 8000, 'allowed')).toBe(true);
    await host.netns.exec('nft', 'delete table ip proxy');
  });

  it('differs when the kernel has other rules than the policies', async () => {
    await store(ofWeb({ ingress: [{ action: 'Deny', protocol: 'TCP' }] }));
    await tamper('accept');
    const [opened] = await probe('shop/db -> shop/web#80');
    expect(opened?.outcome).toBe('differs');
    expect(opened?.places[1]).toMatchObject({
      outcome: 'differs',
      expected: { verdict: 'deny' },
      kernel: { verdict: 'allow' },
    });
    await host.repair();
    expect((await probe('shop/db -> shop/web#80'))[0]?.outcome).toBe('agrees');
    // The same verdict for another reason differs as well.
    await tamper('drop');
    expect((await probe('shop/db -> shop/web#80'))[0]?.outcome).toBe('differs');
    await host.repair();
  });

  it.each([
    ['ip other', 'netplug'],
    ['ip netplug-tunnels', 'netplug'],
    ['inet netplug-tunnels', 'a policy'],
  ])('says that table %s drops the packet before policies see it, and that it is not %s', async (table, not) => {
    const rule = `${table.startsWith('inet') ? 'meta nfproto ipv4' : ''} tcp dport 80 drop`;
    await host.netns.exec('nft', `table ${table} { chain c { type filter hook forward priority -10; ${rule}; }; }`);
    const [v4, v6] = await probe('shop/web -> shop/db#80');
    expect(v4).toMatchObject({
      outcome: 'unknown',
      notes: [`not ${not} but chain c of table ${table} drops the packet`],
    });
    expect(v6?.outcome).toBe('agrees');
    await host.netns.exec('nft', `delete table ${table}`);
  });

  it('refuses what it cannot send', async () => {
    const code = 'policy/probe-impossible';
    await expect(probe('shop/web -> shop/db#80%sctp')).rejects.toMatchObject({ code });
    await expect(probe('shop/web -> shop/db#80', { isMissingHere: true })).rejects.toMatchObject({
      code,
      hint: `Run the command as root on node ${NODE}`,
    });
    await expect(probe('shop/web -> shop/db')).rejects.toMatchObject({ code: 'cli/usage' });
  });

  it('leaves nothing behind when it is killed', async () => {
    const script = `
      import { linuxPacketProbe } from '${new URL('../../src/dataplane/linux/linux-packet-probe.ts', import.meta.url).pathname}';
      import { parseAddress } from '${new URL('../../src/net/address.ts', import.meta.url).pathname}';
      const packet = { source: parseAddress('198.51.100.77'), destination: parseAddress('198.51.100.78'), protocol: 'TCP', port: 9, sender: { kind: 'outside' } };
      for (;;) await linuxPacketProbe().follow(packet, 'netplug-policy', AbortSignal.timeout(60000));`;
    const child = spawn('nsenter', [`--net=${host.netns.path}`, process.execPath, '--input-type=module', '-e', script]);
    await until(async () => (await tables()).includes('netplug-probe'), 'the probe has its table');
    child.kill('SIGKILL');
    await once(child, 'exit');
    await until(async () => !(await tables()).includes('netplug-probe'), 'the table is gone');
    expect((await host.netns.ip('link')).some(({ ifname }) => /^netplug\d/.test(String(ifname)))).toBe(false);
  });
});
