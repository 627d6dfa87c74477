// Valid records to begin with.
import { takeSlot } from '../support/block-edits.ts';
import { KIND_NAMES } from '../../src/model/kinds.ts';
import type { Allocation, IpBlock } from '../../src/model/ip-block.ts';
import { emptyBlock } from '../../src/model/ip-block.ts';
import type { Handle } from '../../src/model/names.ts';
import type { WorkloadEndpoint } from '../../src/model/workload-endpoint.ts';
import { parseCidr } from '../../src/net/cidr.ts';
import { ipamConfigurationOf, nodeName, nodeOf, poolOf, reservationOf } from '../support/fixtures.ts';

export const ENDPOINT: WorkloadEndpoint = {
  apiVersion: 'netplug.io/v3',
  kind: 'WorkloadEndpoint',
  metadata: {
    name: 'n1-orch-web-eth0',
    namespace: 'shop',
    labels: { 'netplug/namespace': 'shop', 'netplug/orchestrator': 'orch' },
  },
  spec: {
    orchestrator: 'orch',
    node: 'n1',
    network: 'net',
    containerID: 'c1',
    pod: 'web',
    podUID: 'u1',
    endpoint: 'eth0',
    interfaceName: 'npl0123456789a',
    mac: '0a:00:00:00:00:01',
    ipNetworks: ['10.0.0.1/32', 'fd00::1/128'],
    ipv4Gateway: '169.254.1.1',
    profiles: ['kns.shop'],
    serviceAccountName: 'default',
    ports: [{ name: 'http', protocol: 'TCP', port: 80, hostPort: 8080, hostIP: '127.0.0.1' }],
    ipNATs: [{ internalIP: '10.0.0.1', externalIP: '192.0.2.1' }],
    ipam: 'netplug-ipam',
  },
};

export function allocationOf(id: string): Allocation {
  return {
    id,
    // A handle as the address manager writes it.
    handle: `net/c-${id}/eth0` as Handle,
    node: nodeName('n1'),
    network: 'net',
    containerId: `c-${id}`,
    ifName: 'eth0',
    namespace: 'shop',
    pod: 'web',
    podUid: 'u1',
    at: '2026-01-01T00:00:00.000Z',
    chosenBy: 'netconf',
    considered: ['v4: chosen'],
  };
}

/** Empty, partly held, with pre-allocated addresses, and borrowed from a node that is gone. */
export function sampleBlocks(): readonly IpBlock[] {
  return ['10.0.0.0/26', '10.0.0.128/32', 'fd00::/122'].flatMap((cidr): IpBlock[] => {
    const empty = emptyBlock(parseCidr(cidr), nodeName('n1'));
    const held = takeSlot(empty, 0, allocationOf('a'));
    const [next, ...queue] = held.queue;
    const withPreallocated =
      next === undefined
        ? held
        : { ...held, queue, preallocated: new Map([[next, 'run#1']]), requested: new Set([next]) };
    return [empty, held, withPreallocated, { ...held, node: undefined }];
  });
}

const rule = {
  action: 'Allow',
  protocol: 'TCP',
  source: { selector: 'role == "db" && has(tier)', nets: ['10.0.0.0/8'] },
  destination: { ports: [80, '8080:8090', 'http'], notNets: ['10.1.0.0/16'] },
};

/** One resource of each kind with nothing in it, and some with much. */
export const RESOURCES: readonly unknown[] = [
  ...KIND_NAMES.map((kind) => ({ apiVersion: 'netplug.io/v3', kind, metadata: { name: 'default' }, spec: {} })),
  poolOf('v4', '10.0.0.0/16', { nodeSelector: 'zone in {"a", "b"} || !has(x)' }),
  poolOf('v6', 'fd00::/64', { vxlanMode: 'Always' }),
  reservationOf('kept', ['10.0.0.0/28']),
  ipamConfigurationOf({ strictAffinity: true }),
  nodeOf('n1', { zone: 'a' }),
  {
    apiVersion: 'netplug.io/v3',
    kind: 'NetworkPolicy',
    metadata: { name: 'web', namespace: 'shop', labels: { a: 'b' } },
    spec: { order: 10, selector: 'app == "web"', types: ['Ingress', 'Egress'], ingress: [rule], egress: [rule] },
  },
  {
    apiVersion: 'netplug.io/v3',
    kind: 'BGPPeer',
    metadata: { name: 'tor' },
    spec: { peerIP: '192.0.2.1', asNumber: 64512, nodeSelector: 'rack == "1"' },
  },
  {
    apiVersion: 'netplug.io/v3',
    kind: 'HostEndpoint',
    metadata: { name: 'h' },
    spec: { node: 'n1', interfaceName: 'eth0', expectedIPs: ['192.0.2.7'], profiles: ['p'] },
  },
];
