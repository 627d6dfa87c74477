import { describe, expect, it } from 'vitest';
import type { InstallationSpec } from '../../model/installation.ts';
import { idleFields } from './idle-fields.ts';
import type { Variant } from './settings.ts';

const ALL: InstallationSpec = {
  cni: { ipam: { type: 'netplug-ipam' } },
  calicoNetwork: {
    ipPools: [{ cidr: '10.1.0.0/16' }],
    bgp: 'Enabled',
    mtu: 1400,
    hostPorts: 'Enabled',
    bandwidth: 'Enabled',
    bandwidthBurstMs: 50,
    policy: 'Disabled',
    containerIPForwarding: 'Enabled',
    floatingIPs: 'Enabled',
    ipAddrsNoIpam: 'Enabled',
  },
  logging: { cni: { logSeverity: 'Debug' } },
  registry: 'r.example',
  deletionPolicy: 'Remove',
};

const paths = (spec: InstallationSpec, variant: Variant, method: 'operator' | 'manifest' = 'operator'): string[] =>
  idleFields(spec, { method, variant }).map(({ path }) => path.replace(/^spec\./, ''));

describe('fields of an Installation without effect', () => {
  it('are none with an operator, which uses every field', () => {
    expect(paths(ALL, 'policy-and-networking')).toEqual([]);
  });

  it('are those of the operator itself without one', () => {
    expect(paths(ALL, 'policy-and-networking', 'manifest')).toEqual(['deletionPolicy']);
  });

  it('are those of the work that another plugin does', () => {
    expect(paths(ALL, 'second-plugin')).toEqual(['cni.ipam.type', 'calicoNetwork.bgp', 'calicoNetwork.floatingIPs']);
    expect(paths(ALL, 'policy-only')).toEqual([
      'cni.ipam.type',
      'calicoNetwork.ipPools',
      'calicoNetwork.bgp',
      'calicoNetwork.mtu',
      'calicoNetwork.hostPorts',
      'calicoNetwork.bandwidth',
      'calicoNetwork.bandwidthBurstMs',
      'calicoNetwork.policy',
      'calicoNetwork.containerIPForwarding',
      'calicoNetwork.ipAddrsNoIpam',
      'calicoNetwork.floatingIPs',
      'logging.cni.logSeverity',
    ]);
  });

  it('are not reported when they are switched off, which is what the variant does', () => {
    const off: InstallationSpec = { calicoNetwork: { bgp: 'Disabled', floatingIPs: 'Disabled', policy: 'Enabled' } };
    expect(paths(off, 'policy-only')).toEqual([]);
  });
});
