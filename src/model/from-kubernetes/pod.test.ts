import { describe, expect, it } from 'vitest';
import { formatAddress } from '../../net/address.ts';
import { servicePorts } from '../service-endpoints.ts';
import { fromEndpointSlice } from './endpoint-slice.ts';
import type { KubernetesObject } from './kubernetes-object.ts';
import { fromPod } from './pod.ts';
import { fromNamespace, fromServiceAccount } from './profiles.ts';

interface PodParts {
  readonly metadata?: object;
  readonly spec?: object;
  readonly status?: object;
}

function podWith({ metadata, spec, status }: PodParts): KubernetesObject {
  return {
    metadata: { name: 'web-0', namespace: 'shop', uid: 'u1', labels: { app: 'web' }, ...metadata },
    spec: { nodeName: 'n1', serviceAccountName: 'seller', containers: [], ...spec },
    status: { phase: 'Running', podIPs: [{ ip: '10.0.0.1' }, { ip: 'fd00::1' }], ...status },
  };
}

function addressesWith(parts: PodParts): readonly string[] | undefined {
  return fromPod(podWith(parts)).value?.spec.ipNetworks;
}

describe('the endpoint of a pod', () => {
  it('has labels, addresses, profiles and ports that policies need', () => {
    const container = { ports: [{ name: 'http', containerPort: 80 }, { containerPort: 81 }] };
    const sidecar = { restartPolicy: 'Always', ports: [{ name: 'metrics', protocol: 'UDP', containerPort: 9 }] };
    const init = { ports: [{ name: 'never', containerPort: 7 }] };
    const { value } = fromPod(podWith({ spec: { containers: [container], initContainers: [sidecar, init] } }));
    expect(value?.metadata).toEqual({
      name: 'n1-orch-web--0-eth0',
      namespace: 'shop',
      labels: {
        app: 'web',
        'netplug/namespace': 'shop',
        'netplug/orchestrator': 'orch',
        'netplug/serviceaccount': 'seller',
      },
    });
    expect(value?.spec).toMatchObject({
      node: 'n1',
      pod: 'web-0',
      podUID: 'u1',
      ipNetworks: ['10.0.0.1/32', 'fd00::1/128'],
      profiles: ['kns.shop', 'ksa.shop.seller'],
      ports: [
        { name: 'metrics', protocol: 'UDP', port: 9 },
        { name: 'http', protocol: 'TCP', port: 80 },
      ],
    });
  });

  it('has labels of users under names of their own where netplug gives labels of those names', () => {
    const labels = {
      'netplug/namespace': 'kube-system',
      'pcns.team': 'a',
      'pcsa.x': 'y',
      'netplug/serviceaccount': 'root',
    };
    const { value } = fromPod(podWith({ metadata: { labels }, spec: { serviceAccountName: '' } }));
    expect(value?.metadata.labels).toEqual({
      'pcown.netplug/namespace': 'kube-system',
      'pcown.pcns.team': 'a',
      'pcown.pcsa.x': 'y',
      'pcown.netplug/serviceaccount': 'root',
      'netplug/namespace': 'shop',
      'netplug/orchestrator': 'orch',
    });
  });

  it.each([
    ['in the network of its host', { spec: { hostNetwork: true } }],
    ['without a node', { spec: { nodeName: '' } }],
    ['that succeeded', { status: { phase: 'Succeeded' } }],
    ['that failed', { status: { phase: 'Failed' } }],
  ])('is missing for a pod %s', (_, parts) => {
    expect(fromPod(podWith(parts))).toEqual({ value: undefined, problems: [] });
  });

  it('has the addresses that the kubelet reports, and no others, whatever users note on the pod', () => {
    for (const note of ['10.0.0.7/32,fd00::7/128', '']) {
      const metadata = { annotations: { 'cni.netplug/podIPs': note } };
      expect(addressesWith({ metadata })).toEqual(['10.0.0.1/32', 'fd00::1/128']);
      expect(addressesWith({ metadata, status: { podIPs: [], podIP: '10.0.0.8' } })).toEqual(['10.0.0.8/32']);
      expect(addressesWith({ metadata, status: { podIPs: [] } })).toEqual([]);
    }
    expect(addressesWith({ status: { podIPs: [], podIP: '10.0.0.8' } })).toEqual(['10.0.0.8/32']);
    expect(addressesWith({ status: { podIPs: [] } })).toEqual([]);
  });

  it('says whether the kubelet reports its addresses', () => {
    expect(fromPod(podWith({})).value?.spec.areAddressesReported).toBe(true);
    expect(fromPod(podWith({ status: { podIPs: [] } })).value?.spec).not.toHaveProperty('areAddressesReported');
  });

  it('keeps its addresses while it terminates, whatever users note on the pod', () => {
    const deletionTimestamp = '2026-01-01T00:00:00Z';
    expect(addressesWith({ metadata: { deletionTimestamp } })).toEqual(['10.0.0.1/32', 'fd00::1/128']);
    expect(fromPod(podWith({ metadata: { deletionTimestamp } })).value?.spec.isTerminating).toBe(true);
    expect(fromPod(podWith({})).value?.spec).not.toHaveProperty('isTerminating');
    const annotations = { 'cni.netplug/podIPs': '' };
    expect(addressesWith({ metadata: { deletionTimestamp, annotations } })).toEqual(['10.0.0.1/32', 'fd00::1/128']);
    expect(addressesWith({ metadata: { annotations } })).toEqual(['10.0.0.1/32', 'fd00::1/128']);
  });

  it('reports an address that is none, and keeps the others', () => {
    const { value, problems } = fromPod(podWith({ status: { podIPs: [{ ip: '10.0.0.300' }, { ip: 'fd00::1' }] } }));
    expect(value?.spec.ipNetworks).toEqual(['fd00::1/128']);
    expect(problems).toEqual(['Pod shop/web-0: "10.0.0.300" is no address']);
  });
});

describe('the profile of a namespace', () => {
  it('allows everything and applies the labels of the namespace', () => {
    const { metadata, spec } = fromNamespace({
      metadata: { name: 'shop', labels: { team: 'a', 'netplug/name': 'x' } },
    });
    expect(metadata.name).toBe('kns.shop');
    expect(spec).toEqual({
      ingress: [{ action: 'Allow' }],
      egress: [{ action: 'Allow' }],
      labelsToApply: { 'pcns.team': 'a', 'pcns.pcown.netplug/name': 'x', 'pcns.netplug/name': 'shop' },
    });
  });
});

describe('the profile of a service account', () => {
  it('has no rules and applies the labels of the account', () => {
    const { metadata, spec } = fromServiceAccount({
      metadata: { name: 'seller', namespace: 'shop', labels: { a: 'b' } },
    });
    expect(metadata.name).toBe('ksa.shop.seller');
    expect(spec).toEqual({ labelsToApply: { 'pcsa.a': 'b', 'pcsa.netplug/name': 'seller' } });
  });
});

describe('the endpoints of an EndpointSlice', () => {
  const metadata = { name: 'web-abc', namespace: 'shop', labels: { 'kubernetes.io/service-name': 'web' } };

  it('are each address with each port', () => {
    const { value } = fromEndpointSlice({
      metadata,
      endpoints: [
        { addresses: ['10.0.0.1'], conditions: { ready: false } },
        { addresses: ['host.example', '10.0.0.2'] },
      ],
      ports: [{ port: 80 }, { protocol: 'UDP', port: 53 }, { protocol: 'TCP' }],
    });
    const shown = servicePorts(value!).map(
      (each) => `${formatAddress(each.address)} ${String(each.protocol)} ${String(each.port)}`,
    );
    expect([value?.namespace, value?.name]).toEqual(['shop', 'web']);
    expect(value?.addresses.map(formatAddress)).toEqual(['10.0.0.1', '10.0.0.2']);
    expect(shown).toEqual(['10.0.0.1 6 80', '10.0.0.2 6 80', '10.0.0.1 17 53', '10.0.0.2 17 53']);
  });

  it('have their addresses when the service has no ports', () => {
    const { value } = fromEndpointSlice({ metadata, endpoints: [{ addresses: ['10.0.0.1'] }], ports: null });
    expect([value?.addresses.map(formatAddress), value?.ports]).toEqual([['10.0.0.1'], []]);
  });

  it('take no more room than the slice, however many addresses and ports it has', () => {
    const addresses = Array.from({ length: 1000 }, (_, index) => `10.0.${String(index >> 8)}.${String(index & 255)}`);
    const ports = Array.from({ length: 20_000 }, (_, index) => ({ port: index + 1 }));
    const { value } = fromEndpointSlice({ metadata, endpoints: [{ addresses }], ports });
    expect([value?.addresses.length, value?.ports.length]).toEqual([1000, 20_000]);
  });

  it('are missing for a slice without a service', () => {
    expect(fromEndpointSlice({ metadata: { ...metadata, labels: {} } })).toEqual({ value: undefined, problems: [] });
  });
});
