import { describe, expect, it } from 'vitest';
import type { PodFacts } from '../model/pod.ts';
import { formatAddress } from '../net/address.ts';
import { decodeAnnotations, refuseAnnotations } from './annotations.ts';
import { effectivePools } from './precedence.ts';

const ALL = { ipAddrsNoIpam: true, floatingIps: true };
const NONE = { ipAddrsNoIpam: false, floatingIps: false };
const key = (name: string): string => `cni.netplug/${name}`;

function podWith(annotations: Record<string, string>, namespaceAnnotations: Record<string, string> = {}): PodFacts {
  const facts = { namespace: 'shop', name: 'web-0', uid: 'u', labels: {}, serviceAccount: undefined, ports: [] };
  return { ...facts, annotations, namespaceAnnotations };
}

describe('pool annotations', () => {
  it('are read from pod and namespace, by name or CIDR [ann-pools]', () => {
    const { pools } = decodeAnnotations(podWith({ [key('ipv4pools')]: '["blue","10.0.0.0/16"]' }), NONE);
    expect(pools[4]).toMatchObject({ rule: 'pod-annotation', refs: [{ by: 'name', name: 'blue' }, { by: 'cidr' }] });
    expect(pools[6]).toBeUndefined();
  });

  it('take precedence on the pod over those of its namespace, per family [ann-pools]', () => {
    const pod = podWith(
      { [key('ipv4pools')]: '["mine"]' },
      { [key('ipv4pools')]: '["theirs"]', [key('ipv6pools')]: '["six"]' },
    );
    const { pools } = decodeAnnotations(pod, NONE);
    expect(pools[4]?.refs).toEqual([{ by: 'name', name: 'mine' }]);
    expect(pools[6]).toMatchObject({ rule: 'namespace-annotation', refs: [{ by: 'name', name: 'six' }] });
  });

  it('take precedence over the network configuration [prec-annotation]', () => {
    const configured = { assign: true, pools: [{ by: 'name' as const, name: 'conf' }] };
    const requests = decodeAnnotations(podWith({}, { [key('ipv4pools')]: '["space"]' }), NONE);
    expect(effectivePools(4, configured, requests)).toMatchObject({
      pools: [{ name: 'space' }],
      askedBy: { rule: 'namespace-annotation' },
    });
    expect(effectivePools(6, configured, requests)).toMatchObject({
      pools: [{ name: 'conf' }],
      askedBy: { rule: 'netconf' },
    });
    expect(effectivePools(6, { assign: true, pools: undefined }, requests)).toEqual({ assign: true, pools: undefined });
  });

  it('select no pools when they are empty arrays', () => {
    expect(decodeAnnotations(podWith({ [key('ipv4pools')]: '[]' }), NONE).pools[4]).toBeUndefined();
  });
});

describe('address annotations', () => {
  it('request one address per family, with or without the address manager [ann-addresses]', () => {
    const via = decodeAnnotations(podWith({ [key('ipAddrs')]: '["10.0.0.5","fd00::5"]' }), NONE).addresses;
    expect([via?.via, via?.addresses.map(formatAddress)]).toEqual(['ipam', ['10.0.0.5', 'fd00::5']]);
    const past = decodeAnnotations(podWith({ [key('ipAddrsNoIpam')]: '["10.0.0.5"]' }), ALL).addresses;
    expect(past?.via).toBe('bypass');
  });

  it.each<[string, Record<string, string>, typeof NONE, string]>([
    [
      'both at once',
      { ipAddrs: '["10.0.0.1"]', ipAddrsNoIpam: '["10.0.0.2"]' },
      ALL,
      'together with cni.netplug/ipAddrs',
    ],
    ['two of one family', { ipAddrs: '["10.0.0.1","10.0.0.2"]' }, NONE, 'at most one IPv4 address'],
    ['ipAddrsNoIpam without its switch', { ipAddrsNoIpam: '["10.0.0.1"]' }, NONE, 'feature_control.ip_addrs_no_ipam'],
    ['floatingIPs without its switch', { floatingIPs: '["10.0.0.1"]' }, NONE, 'feature_control.floating_ips'],
    ['no address', { ipAddrs: '["ten"]' }, NONE, '"ten" is no IP address'],
    ['no JSON', { ipAddrs: '10.0.0.1' }, NONE, 'a JSON array of strings'],
    ['a JSON string', { ipv4pools: '"blue"' }, NONE, 'a JSON array of strings'],
    ['numbers', { ipv4pools: '[1]' }, NONE, 'a JSON array of strings'],
    ['an empty text', { ipv4pools: '' }, NONE, 'a JSON array of strings'],
    ['a pool CIDR of the other family', { ipv4pools: '["fd00::/64"]' }, NONE, 'is not'],
  ])('%s: refused with pod, key, value and reason [err-annotations] [ann-floating]', (_, short, features, rule) => {
    const annotations = Object.fromEntries(Object.entries(short).map(([name, value]) => [key(name), value]));
    const [faulty = ''] = Object.keys(annotations).reverse();
    const refused = (): unknown => decodeAnnotations(podWith(annotations), features);
    expect(refused).toThrow('pod "shop/web-0"');
    expect(refused).toThrow(`${faulty} is ${JSON.stringify(annotations[faulty])}`);
    expect(refused).toThrow(rule);
  });

  it('are refused by name with host-local', () => {
    const pod = podWith({ [key('ipAddrs')]: '["10.0.0.5"]', [key('ipv4pools')]: '["blue"]' });
    const refused = (): void => refuseAnnotations(pod, decodeAnnotations(pod, NONE), 'host-local');
    expect(refused).toThrow(key('ipAddrs'));
    expect(refused).toThrow(key('ipv4pools'));
    expect(() => refuseAnnotations(podWith({}), decodeAnnotations(podWith({}), NONE), 'host-local')).not.toThrow();
  });
});
