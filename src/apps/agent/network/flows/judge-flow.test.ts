import { describe, expect, it } from 'vitest';
import { globalPolicy, hostEndpoint, podOf } from '../../../../../test/support/policy-arbitraries.ts';
import { NODE, PolicyCluster } from '../../../../../test/support/policy-cluster.ts';
import type { FlowTuple, TrackedFlow } from '../../../../dataplane/flow-table.ts';
import type { AnyResource } from '../../../../model/kinds.ts';
import type { HostPath } from '../../../../dataplane/host-network.ts';
import { fromPod } from '../../../../model/from-kubernetes/pod.ts';
import { formatAddress, parseAddress } from '../../../../net/address.ts';
import { parseCidr } from '../../../../net/cidr.ts';
import { failsafePorts } from '../../../../policy/open-ports.ts';
import { hostEndpointsToward } from './host-endpoints-toward.ts';
import { flowJudge } from './judge-flow.ts';
import { localPodAddresses } from '../policy/local-pod-addresses.ts';

const FAILSAFE = failsafePorts({
  failsafeInboundHostPorts: [{ protocol: 'TCP', port: 22 }],
  failsafeOutboundHostPorts: [],
});
const LINKS = {
  interfaces: [
    { name: 'eth0', addresses: ['198.51.100.1'] },
    { name: 'eth1', addresses: ['203.0.113.1'] },
  ],
  tunnels: [],
  servers: [],
};
const path = (destination: string, ...devices: readonly string[]): HostPath => ({
  destination: parseCidr(destination),
  table: 254,
  devices,
  isConnected: destination !== '0.0.0.0/0',
});
const CONNECTED = [path('198.51.100.0/24', 'eth0'), path('203.0.113.0/24', 'eth1')];

function tuple(source: string, destination: string, ports: readonly [number, number]): FlowTuple {
  const [sourcePort, destinationPort] = ports;
  return {
    source: parseAddress(source),
    destination: parseAddress(destination),
    protocol: 6,
    sourcePort,
    destinationPort,
  };
}

/** A flow to a port, translated to `to` if given. */
function flow(source: string, destination: string, port: number, to?: readonly [string, number]): TrackedFlow {
  const [address, own] = to ?? [destination, port];
  return {
    original: tuple(source, destination, [40_000, port]),
    reply: tuple(address, source, [own, 40_000]),
    handle: new Uint8Array(),
    isReplied: true,
  };
}

const FLOWS = {
  'outside > node': flow('198.51.100.9', '198.51.100.1', 80),
  'outside > node, failsafe': flow('198.51.100.9', '198.51.100.1', 22),
  'side > node': flow('203.0.113.9', '203.0.113.1', 80),
  'side > other address': flow('203.0.113.9', '198.51.100.1', 80),
  'node > outside': flow('198.51.100.1', '198.51.100.9', 80),
  'node > node': flow('198.51.100.1', '203.0.113.1', 80),
  'outside > pod': flow('198.51.100.9', '10.65.0.1', 80),
  'outside > service > pod': flow('198.51.100.9', '198.51.100.1', 8080, ['10.65.0.1', 80]),
  'node > pod': flow('198.51.100.1', '10.65.0.1', 80),
  'outside > side': flow('198.51.100.9', '203.0.113.9', 80),
};

async function denied(...resources: readonly AnyResource[]): Promise<readonly string[]> {
  return deniedWith({}, resources);
}

async function deniedWith(
  {
    areSettingsKnown = true,
    paths = CONNECTED,
    checked = [],
  }: { areSettingsKnown?: boolean; paths?: readonly HostPath[]; checked?: readonly string[] },
  resources: readonly AnyResource[],
): Promise<readonly string[]> {
  const cluster = new PolicyCluster();
  cluster.putNamespace('x');
  cluster.putPod(podOf({ namespace: 'x', ordinal: 1, role: 'a', isLocal: true }));
  for (const resource of resources) cluster.put(resource);
  const view = cluster.state;
  const flows = Object.entries(FLOWS);
  const standingOf = flowJudge(view, {
    node: NODE,
    hostAddresses: new Set(['127.0.0.1', '198.51.100.1', '203.0.113.1']),
    endpointToHost: 'Accept',
    open: FAILSAFE,
    hostEndpoints: await hostEndpointsToward({
      view,
      node: NODE,
      links: LINKS,
      areSettingsKnown,
      host: {
        listPaths: async () => Promise.resolve(paths),
        findSourceChecks: (links) => new Set(links.filter((link) => checked.includes(link))),
      },
    }),
  });
  return flows.filter(([, each]) => standingOf(each) !== 'allowed').map(([name]) => name);
}

/** Flows that an endpoint for all interfaces denies if it allows nothing. */
const AT_ALL = ['outside > node', 'side > node', 'side > other address', 'node > outside'];
const onHosts = (spec: object): AnyResource =>
  globalPolicy('g', {}, { selector: "host == 'yes'", applyOnForward: true, types: ['Ingress'], ...spec });

describe('flows of a node with host endpoints', () => {
  it('end at the interfaces of an endpoint that allows nothing, except failsafe ports and what the node forwards', async () => {
    expect(await denied()).toEqual([]);
    expect(await denied(hostEndpoint('all', { interfaceName: '*' }))).toEqual(AT_ALL);
    expect(await denied(hostEndpoint('one', { interfaceName: 'eth1' }))).toEqual(['side > node']);
  });

  it('go on until the settings of the agent are known', async () => {
    const all = hostEndpoint('all', { interfaceName: '*' });
    expect(await deniedWith({ areSettingsKnown: false }, [all])).toEqual([]);
  });

  it('go on where an interface allows them by which some table leads to the other end', async () => {
    const one = hostEndpoint('one', { interfaceName: 'eth1' });
    const both = [one, hostEndpoint('two', { interfaceName: 'eth0' })];
    const uplinks = [path('0.0.0.0/0', 'eth1'), { ...path('0.0.0.0/0', 'eth0'), table: 100 }];
    expect(await deniedWith({ paths: uplinks }, [one])).toEqual([]);
    expect(await deniedWith({ paths: uplinks }, both)).toEqual(AT_ALL);
    expect(await deniedWith({ paths: [path('0.0.0.0/0', 'eth0', 'eth1')] }, [one])).toEqual([]);
    // The longest match of a table is what it uses.
    expect(await deniedWith({ paths: [...CONNECTED, path('0.0.0.0/0', 'eth0')] }, [one])).toEqual(['side > node']);
    expect(await deniedWith({ paths: [] }, both)).toEqual([]);
  });

  it('go on where they may have come by the interface of the own address, and that one allows them', async () => {
    const one = hostEndpoint('one', { interfaceName: 'eth1' });
    const paths = [path('0.0.0.0/0', 'eth1'), path('198.51.100.0/30', 'eth0')];
    // The address of the node is that of eth0, while packets to "outside" leave by eth1.
    expect(await deniedWith({ paths }, [one])).toEqual(['side > node']);
    const all = [one, hostEndpoint('all', { interfaceName: '*' })];
    expect(await deniedWith({ paths }, all)).toEqual(AT_ALL);
  });

  it('go on where they may have come by a gateway, unless the interface of the own address checks sources', async () => {
    const one = hostEndpoint('one', { interfaceName: 'eth1' });
    expect(await deniedWith({}, [one])).toEqual(['side > node']);
    expect(await deniedWith({ checked: ['eth0', 'eth1'] }, [one])).toEqual(['side > node', 'side > other address']);
  });

  it('to a pod go on where some uplink allows them by which they may have come', async () => {
    const elsewhere = { ...path('192.0.2.0/24', 'eth1'), isConnected: false };
    const paths = [...CONNECTED, path('0.0.0.0/0', 'eth0'), elsewhere];
    const open = hostEndpoint('one', { interfaceName: 'eth0', profiles: ['netplug-default-allow'] });
    const deny = onHosts({ ingress: [{ action: 'Deny' }] });
    // What was sent to an address of the node came by its interface.
    const sure = ['outside > node', 'outside > service > pod'];
    expect(await deniedWith({ paths }, [open, deny])).toEqual(sure);
    const checked = [...sure.toSpliced(1, 0, 'outside > pod'), 'outside > side'];
    expect(await deniedWith({ paths, checked: ['eth1'] }, [open, deny])).toEqual(checked);
  });

  it('end when the node forwards them and a policy with applyOnForward denies', async () => {
    const open = hostEndpoint('one', { interfaceName: 'eth0', profiles: ['netplug-default-allow'] });
    expect(await denied(open, onHosts({ ingress: [{ action: 'Deny' }] }))).toEqual([
      'outside > node',
      'outside > pod',
      'outside > service > pod',
      'outside > side',
    ]);
    const egress = { types: ['Egress'], egress: [{ action: 'Deny' }], ingress: [] };
    const side = hostEndpoint('side', { interfaceName: 'eth1' });
    expect(await denied(side, onHosts(egress))).toEqual(['side > node', 'outside > side']);
  });

  it('are judged before translation by policies with preDNAT', async () => {
    const open = hostEndpoint('one', { interfaceName: 'eth0', profiles: ['netplug-default-allow'] });
    const service = [{ action: 'Deny', protocol: 'TCP', destination: { ports: [8080] } }];
    expect(await denied(open, onHosts({ preDNAT: true, ingress: service }))).toEqual(['outside > service > pod']);
  });
});

describe('flows of addresses that users note on a pod', () => {
  const FOREIGN = ['198.51.100.9', '198.51.100.1'];
  const endedBy = async (areReported: boolean): Promise<{ denied: readonly string[]; own: readonly string[] }> => {
    const cluster = new PolicyCluster();
    cluster.putNamespace('x');
    cluster.putPolicy({ namespace: 'x', name: 'none', spec: { podSelector: {}, policyTypes: ['Ingress', 'Egress'] } });
    const metadata = { name: 'thief', namespace: 'x', annotations: { 'cni.netplug/podIPs': FOREIGN.join() } };
    const status = areReported ? { podIPs: FOREIGN.map((ip) => ({ ip })) } : {};
    const { value } = fromPod({ metadata, spec: { nodeName: NODE }, status });
    if (value === undefined) throw new Error('the pod has no endpoint');
    cluster.state.apply([{ kind: 'endpoint', key: 'x/thief', value }]);
    const view = cluster.state;
    const standingOf = flowJudge(view, {
      node: NODE,
      hostAddresses: new Set(['198.51.100.1']),
      endpointToHost: 'Accept',
      open: FAILSAFE,
      hostEndpoints: () => [undefined],
    });
    const flows = Object.entries(FLOWS).filter(([, each]) => standingOf(each) !== 'allowed');
    return { denied: flows.map(([name]) => name), own: localPodAddresses(view, NODE).map(formatAddress) };
  };

  it('go on, also those of the node itself when a kubelet reports its address', async () => {
    expect(await endedBy(false)).toEqual({ denied: [], own: [] });
    const { denied: ended } = await endedBy(true);
    expect(ended).toContain('outside > pod');
    expect(ended).not.toContain('node > node');
  });
});

describe('a flow to a pod with rules about requests', () => {
  const asks = globalPolicy('asks', { http: { methods: ['GET'] } });
  const plain = globalPolicy('plain', { protocol: 'TCP' });
  const none = globalPolicy('none', { source: { nets: ['192.0.2.0/24'] } });

  it.each<[string, readonly AnyResource[], boolean, string]>([
    ['goes on when they let it in, and its requests are judged', [asks], true, 'allowed'],
    ['ends when it began before its requests were judged', [asks], false, 'unjudged'],
    ['goes on when another rule allows it', [asks, plain], false, 'allowed'],
    ['ends when nothing allows it any more, because nothing judges what it carries', [none], true, 'unjudged'],
    ['is denied as any other when they never let it in', [none], false, 'denied'],
  ])('%s', (_, resources, isNoted, standing) => {
    const cluster = new PolicyCluster();
    cluster.putNamespace('x');
    cluster.putPod(podOf({ namespace: 'x', ordinal: 1, role: 'a', isLocal: true }));
    for (const resource of resources) cluster.put(resource);
    cluster.putGuard(1, [80]);
    const standingOf = flowJudge(cluster.state, {
      node: NODE,
      hostAddresses: new Set(),
      endpointToHost: 'Accept',
      open: FAILSAFE,
      hostEndpoints: () => [undefined],
    });
    expect(standingOf({ ...FLOWS['outside > pod'], ...(isNoted ? { isNoted } : {}) })).toBe(standing);
  });
});
