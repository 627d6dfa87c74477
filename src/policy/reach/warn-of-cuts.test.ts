import { describe, expect, it } from 'vitest';
import type { AnyResource } from '../../model/kinds.ts';
import { parseAddress } from '../../net/address.ts';
import type { PolicyChange } from '../policy-change.ts';
import { PolicyState } from '../policy-state.ts';
import { compareReach } from './compare-reach.ts';
import { apiServerAddresses } from './vital-services.ts';
import { warnOfCuts } from './warn-of-cuts.ts';

function resource(kind: 'Profile' | 'GlobalNetworkPolicy', name: string, spec: object): PolicyChange {
  const value = { apiVersion: 'netplug.io/v3', kind, metadata: { name }, spec } as unknown as AnyResource;
  return { kind: 'resource', which: { kind, name }, value };
}

function pod(namespace: string, name: string, address: string): PolicyChange {
  const spec = {
    orchestrator: 'orch',
    node: 'n1',
    network: '',
    containerID: name,
    pod: name,
    endpoint: 'eth0',
    interfaceName: '',
    mac: '',
    ipNetworks: [`${address}/32`],
    profiles: ['open'],
    ipam: '',
  } as const;
  const value = { apiVersion: 'netplug.io/v3', kind: 'WorkloadEndpoint', metadata: { name, namespace }, spec } as const;
  return { kind: 'endpoint', key: name, value };
}

const ALLOW = [{ action: 'Allow' }];
const PRESENT = [
  resource('Profile', 'open', { ingress: ALLOW, egress: ALLOW }),
  pod('kube-system', 'a', '10.0.0.1'),
  pod('kube-system', 'b', '10.0.0.2'),
  pod('shop', 'web', '10.0.0.3'),
  {
    kind: 'service',
    key: 'kubernetes',
    value: {
      namespace: 'default',
      name: 'kubernetes',
      addresses: [parseAddress('192.0.2.10')],
      ports: [{ protocol: 6, port: 6443 }],
    },
  },
] as const;

function warningsOf(spec: object): readonly string[] {
  const [before, after] = [new PolicyState(), new PolicyState()];
  before.apply(PRESENT);
  after.apply([...PRESENT, resource('GlobalNetworkPolicy', 'new', spec)]);
  return warnOfCuts(before, compareReach({ before, after }, apiServerAddresses(before)).changes);
}

describe('warnings about what a change cuts off', () => {
  it('name pods without the API server, and a system namespace of which every pod is concerned', () => {
    const egress = [{ action: 'Deny', destination: { nets: ['192.0.2.0/24'] } }, { action: 'Pass' }];
    expect(warningsOf({ selector: 'all()', types: ['Egress'], egress })).toEqual([
      'cuts the API server off for kube-system/a, kube-system/b, shop/web',
      'cuts connections of every pod of the namespace kube-system',
    ]);
  });

  it('stay away when the port of the API server stays open, and when only clients of a system namespace are closed', () => {
    const api = { action: 'Allow', protocol: 'TCP', destination: { nets: ['192.0.2.10/32'], ports: [6443] } };
    expect(warningsOf({ selector: "netplug/namespace == 'shop'", types: ['Egress'], egress: [api] })).toEqual([]);
  });
});
