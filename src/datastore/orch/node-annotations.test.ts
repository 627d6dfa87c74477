import { describe, expect, it } from 'vitest';
import { annotationChanges, readNodeAnnotations } from './node-annotations.ts';

const FACTS = {
  ipv4Address: '192.0.2.7/24',
  ipv6Address: '2001:db8::7/64',
  ipv4VXLANTunnelAddr: '10.0.0.1',
  vxlanTunnelMACAddr: '0a:00:00:00:00:01',
  ipv6VXLANTunnelAddr: 'fd00::1',
  vxlanTunnelMACAddrV6: '0a:00:00:00:00:02',
  ipv4IPIPTunnelAddr: '10.0.0.2',
  netplugVersion: 'v3.27.0',
};

describe('annotations of a node', () => {
  it('say the facts they were written from', () => {
    const changes = annotationChanges(FACTS, { 'example.org/other': 'x' });
    const { ipv4Address, ipv6Address, ...others } = FACTS;
    // Nothing is removed from a node without annotations of ours.
    const annotations = Object.fromEntries(Object.entries(changes).map(([key, text]) => [key, text ?? 'removed']));
    expect(readNodeAnnotations(annotations)).toEqual({
      spec: { ...others, bgp: { ipv4Address, ipv6Address } },
      problems: [],
    });
    expect(annotationChanges(FACTS, annotations)).toEqual({});
  });

  it('are removed with the facts that are left out, and only these', () => {
    const annotations = { 'netplug/IPv4Address': '192.0.2.7/24', 'netplug/ASNumber': '64513', other: 'x' };
    expect(annotationChanges({}, annotations)).toEqual({ 'netplug/IPv4Address': null });
    expect(annotationChanges({ ipv4Address: '192.0.2.8/24' }, annotations)).toEqual({
      'netplug/IPv4Address': '192.0.2.8/24',
    });
  });

  it('give AS number and cluster id when users write them', () => {
    const annotations = { 'netplug/ASNumber': '4200000000', 'netplug/RouteReflectorClusterID': '244.0.0.1' };
    expect(readNodeAnnotations(annotations)).toEqual({
      spec: { bgp: { asNumber: 4_200_000_000, routeReflectorClusterID: '244.0.0.1' } },
      problems: [],
    });
  });

  it.each([
    ['netplug/IPv4Address', '192.0.2.7'],
    ['netplug/IPv4Address', 'fd00::7/64'],
    ['netplug/IPv6Address', '192.0.2.7/24'],
    ['netplug/ASNumber', '0'],
    ['netplug/ASNumber', '4294967296'],
    ['netplug/ASNumber', '64513 '],
    ['netplug/ASNumber', '1e3'],
    ['netplug/RouteReflectorClusterID', 'one'],
    ['netplug/IPv4VXLANTunnelAddr', 'fd00::1'],
    ['netplug/IPv6VXLANTunnelAddr', '10.0.0.1'],
    ['netplug/IPv4IPIPTunnelAddr', '10.0.0.1/32'],
    ['netplug/VXLANTunnelMACAddr', 'ff:ff:ff:ff:ff:ff'],
    ['netplug/VXLANTunnelMACAddrV6', ''],
  ])('such as %s: %j are left out and named', (key, text) => {
    const { spec, problems } = readNodeAnnotations({ [key]: text, 'netplug/IPv4IPIPTunnelAddr-x': 'y' });
    expect(spec).toEqual({});
    expect(problems).toEqual([expect.stringContaining(`metadata.annotations["${key}"]: found `)]);
  });
});
