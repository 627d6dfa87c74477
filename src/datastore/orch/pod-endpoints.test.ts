import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { WorkloadEndpoint } from '../../model/workload-endpoint.ts';
import { tryReadCidr } from '../../net/cidr.ts';
import type { ApiObject } from '../../kube/objects.ts';
import { endpointTexts, packEndpoint, readEndpoints } from './pod-endpoints.ts';
import { Unreadable } from './unreadable.ts';

const NOTE = 'cni.netplug/endpoint.eth0';
const ENDPOINT: WorkloadEndpoint = {
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
    ipv6Gateway: 'fe80::ecee:eeff:feee:eeee',
    profiles: ['kns.shop', 'ksa.shop.default'],
    serviceAccountName: 'default',
    ports: [{ name: 'http', protocol: 'TCP', port: 80, hostPort: 8080, hostIP: '127.0.0.1' }],
    ipNATs: [{ internalIP: '10.0.0.1', externalIP: '192.0.2.1' }],
    ipam: 'netplug-ipam',
  },
};
const PLAIN = JSON.parse(packEndpoint(ENDPOINT, 'id')) as Record<string, unknown>;

function podWith(annotations: Readonly<Record<string, string>>): ApiObject {
  return { metadata: { name: 'web', namespace: 'shop', uid: 'u1', annotations }, spec: { nodeName: 'n1' } };
}

function read(note: unknown): ReturnType<typeof readEndpoints>[number] | undefined {
  return readEndpoints(podWith({ [NOTE]: typeof note === 'string' ? note : JSON.stringify(note) }))[0];
}

describe('the note of an endpoint on its pod', () => {
  it('is read as it was written', () => {
    expect(read(PLAIN)).toEqual({ value: ENDPOINT, version: JSON.stringify(PLAIN) });
  });

  it.each([
    ['no JSON', '{"network":'],
    ['a list', []],
    ['too long', { ...PLAIN, profiles: ['x'.repeat(40_000)] }],
    ['an address with a leading zero', { ...PLAIN, ipNetworks: ['010.0.0.1/32'] }],
    ['a range of addresses', { ...PLAIN, ipNetworks: ['10.0.0.0/24'] }],
    ['an address without its length', { ...PLAIN, ipNetworks: ['10.0.0.1'] }],
    ['a container id with a slash', { ...PLAIN, containerID: '../c1' }],
    ['an interface name with a slash', { ...PLAIN, interfaceName: '../eth0' }],
    ['a multicast MAC', { ...PLAIN, mac: 'ff:ff:ff:ff:ff:ff' }],
    ['a gateway that is no address', { ...PLAIN, ipv4Gateway: 'router' }],
    ['a floating IP that is no address', { ...PLAIN, ipNATs: [{ internalIP: '10.0.0.1', externalIP: '' }] }],
    ['a port out of range', { ...PLAIN, ports: [{ protocol: 'TCP', port: 70_000 }] }],
    ['another interface', { ...PLAIN, endpoint: 'eth1' }],
  ])('is refused alone when it holds %s', (_, note) => {
    const other = JSON.stringify({ ...PLAIN, endpoint: 'net1' });
    const text = typeof note === 'string' ? note : JSON.stringify(note);
    const [bad, good] = readEndpoints(podWith({ [NOTE]: text, 'cni.netplug/endpoint.net1': other }));
    expect(bad).toBeInstanceOf(Unreadable);
    expect(good).toMatchObject({ value: { spec: { endpoint: 'net1' } } });
  });

  it('always describes its own pod, node and interface, in addresses that can be read, whatever it holds', () => {
    const mutations = fc.dictionary(fc.constantFrom(...Object.keys(PLAIN), 'node', 'pod', 'podUID'), fc.jsonValue());
    fc.assert(
      fc.property(mutations, (changed) => {
        const found = read({ ...PLAIN, ...changed });
        if (found === undefined || found instanceof Unreadable) return;
        const { metadata, spec } = found.value;
        expect(metadata).toEqual(ENDPOINT.metadata);
        expect(spec).toMatchObject({ node: 'n1', pod: 'web', podUID: 'u1', endpoint: 'eth0', orchestrator: 'orch' });
        expect(Object.keys(spec).filter((key) => !(key in ENDPOINT.spec))).toEqual([]);
        expect(spec.ipNetworks.map(tryReadCidr)).not.toContain(undefined);
      }),
    );
  });

  it('of the main interface is among the few that are read of a pod, however many its owner makes up', () => {
    const made = Array.from({ length: 4000 }, (_, index) => [`cni.netplug/endpoint.a${String(index)}`, '{}'] as const);
    const texts = endpointTexts(podWith({ ...Object.fromEntries(made), [NOTE]: JSON.stringify(PLAIN) }));
    expect(texts).toHaveLength(8);
    expect(texts[0]?.[0]).toBe(NOTE);
  });
});
