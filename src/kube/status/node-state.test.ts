import { expect, it } from 'vitest';
import type { ApiObject } from '../objects.ts';
import { nodeStateOf } from './node-state.ts';

const nodeOf = (parts: object): ApiObject => ({ metadata: { name: 'n' }, ...parts });

it('reads what a Node says of itself, with its addresses that are IP addresses', () => {
  const node = nodeOf({
    spec: { podCIDR: '10.0.0.0/24', unschedulable: true, taints: [{ key: 'a', effect: 'NoSchedule' }] },
    status: {
      conditions: [{ type: 'Ready', status: 'False', reason: 'KubeletNotReady', message: 'no network' }],
      nodeInfo: { operatingSystem: 'linux', kernelVersion: '6.1', architecture: 'arm64', kubeletVersion: 'v1.37.0' },
      addresses: [
        { type: 'Hostname', address: 'n' },
        { type: 'InternalIP', address: '192.0.2.1' },
      ],
    },
  });
  expect(nodeStateOf(node)).toMatchObject({
    os: 'linux',
    isReady: false,
    notReady: 'KubeletNotReady: no network',
    isSchedulable: false,
    kernel: '6.1',
    addresses: ['192.0.2.1'],
    podCidrs: ['10.0.0.0/24'],
    taints: ['a=:NoSchedule'],
  });
});

it('has the network that its agent has published before the addresses that its kubelet shows', () => {
  const annotations = { 'netplug/IPv4Address': '192.0.2.1/24', 'netplug/IPv6Address': '2001:db8::1/64' };
  const status = { addresses: [{ type: 'InternalIP', address: '192.0.2.1' }] };
  const { addresses } = nodeStateOf({ metadata: { name: 'n', annotations }, status });
  expect(addresses).toEqual(['192.0.2.1/24', '2001:db8::1/64', '192.0.2.1']);
});

it('is not ready before its kubelet has said so, and tells its clock from the lease of the kubelet', () => {
  expect(nodeStateOf(nodeOf({}))).toMatchObject({ os: 'linux', isReady: false, notReady: 'no condition' });
  const lease = nodeOf({ spec: { renewTime: '2026-01-01T00:00:09.5Z' } });
  const managedFields = [{ time: '2026-01-01T00:00:00Z' }];
  const noted = { ...lease, metadata: { name: 'n', managedFields } };
  expect(nodeStateOf(nodeOf({}), noted).clockAheadMs).toBe(9500);
  expect(nodeStateOf(nodeOf({}), lease).clockAheadMs).toBeUndefined();
});
