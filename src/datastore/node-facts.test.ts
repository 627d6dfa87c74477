import { describe, expect, it } from 'vitest';
import type { Node } from '../model/node.ts';
import { API_VERSION } from '../model/resource.ts';
import { withFacts } from './node-facts.ts';

const node = (spec: Node['spec'] & Readonly<Record<string, unknown>>): Node => ({
  apiVersion: API_VERSION,
  kind: 'Node',
  metadata: { name: 'n1', labels: { rack: '7' } },
  spec,
});

describe('the facts of a node', () => {
  it('take the place of older ones, with the addresses of the node', () => {
    const old = withFacts(node({}), { ipv4Address: '192.0.2.7/24', ipv4VXLANTunnelAddr: '10.0.0.1' });
    expect(old.spec).toEqual({
      bgp: { ipv4Address: '192.0.2.7/24' },
      ipv4VXLANTunnelAddr: '10.0.0.1',
      addresses: [{ address: '192.0.2.7', type: 'NodeIP' }],
    });
    expect(withFacts(old, { ipv6Address: 'fd00::7/64', ipv4IPIPTunnelAddr: '10.0.0.2' }).spec).toEqual({
      bgp: { ipv6Address: 'fd00::7/64' },
      ipv4IPIPTunnelAddr: '10.0.0.2',
      addresses: [{ address: 'fd00::7', type: 'NodeIP' }],
    });
  });

  it('leave everything else of the node alone', () => {
    const written = node({
      bgp: { asNumber: 64_513, routeReflectorClusterID: '244.0.0.1', colour: 'blue' },
      addresses: [{ address: '203.0.113.7', type: 'ExternalIP' }],
      podCIDRs: ['10.1.0.0/24'],
      shade: 'navy',
    });
    expect(withFacts(written, {})).toEqual(written);
    const facts = { ipv4Address: '192.0.2.7/24' };
    expect(withFacts(withFacts(written, facts), {})).toEqual(written);
    expect(withFacts(written, facts)).toEqual({
      ...written,
      spec: {
        ...written.spec,
        bgp: { ...written.spec.bgp, ipv4Address: '192.0.2.7/24' },
        addresses: [
          { address: '192.0.2.7', type: 'NodeIP' },
          { address: '203.0.113.7', type: 'ExternalIP' },
        ],
      },
    });
  });

  it('are absent when given as undefined', () => {
    expect(withFacts(node({ vxlanTunnelMACAddr: '0a:00:00:00:00:01' }), { vxlanTunnelMACAddr: undefined })).toEqual(
      node({}),
    );
  });
});
