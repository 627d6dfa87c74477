import { describe, expect, it } from 'vitest';
import type { HostInterface } from '../dataplane/host-network.ts';
import { type Family, formatAddress, parseAddress } from '../net/address.ts';
import { parseCidr, tryReadCidr } from '../net/cidr.ts';
import { readDetection } from './detect-address-method.ts';
import { type HostFacts, detectAddress } from './detect-address.ts';

const HOST: HostFacts = {
  interfaces: [
    { ...link('lo', '127.0.0.1/8', '::1/128', '192.0.2.7/32'), isLoopback: true, mtu: 65536 },
    { ...link('eth9', '192.0.2.9/24'), isUp: false },
    link('docker0', '172.17.0.1/16', 'fd00:17::1/64'),
    link('vxlan.npl', '10.65.9.0/32'),
    link('eth0', '169.254.7.7/16', '10.65.4.4/32', '198.51.100.1/24', 'fe80::1/64', '2001:db8::1/64'),
    { ...link('eth1', '203.0.113.1/28', '2001:db8:1::1/56'), mtu: 9000 },
  ],
  pools: [parseCidr('10.65.0.0/16')],
  reach: undefined,
  internalIps: [],
};

describe('the address of the node', () => {
  it.each<[string, Family, string]>([
    ['', 4, '198.51.100.1/24 eth0 1500'],
    ['first-found', 4, '198.51.100.1/24 eth0 1500'],
    ['first-found', 6, '2001:db8::1/64 eth0 1500'],
    ['skip-interface=eth0', 4, '203.0.113.1/28 eth1 9000'],
    ['skip-interface=^eth0$, ^eno', 6, '2001:db8:1::1/56 eth1 9000'],
    ['interface=eth1,eth0', 4, '203.0.113.1/28 eth1 9000'],
    ['interface=eth.*', 4, '198.51.100.1/24 eth0 1500'],
    ['interface=docker', 4, '172.17.0.1/16 docker0 1500'],
    ['cidr=203.0.113.0/24,198.51.100.0/24', 4, '203.0.113.1/28 eth1 9000'],
    ['cidr=203.0.113.0/24,2001:db8:1::/48', 6, '2001:db8:1::1/56 eth1 9000'],
    ['203.0.113.1', 4, '203.0.113.1/28 eth1 9000'],
    ['203.0.113.1/24', 4, '203.0.113.1/24 eth1 9000'],
    ['192.0.2.7/32', 4, '192.0.2.7/32 lo 65536'],
    ['192.0.2.9', 4, '192.0.2.9/24 eth9 1500'],
  ])('by %j of IPv%i is %s', (method, family, expected) => {
    expect(shown(method, family)).toBe(expected);
  });

  it.each<[string, Family, string]>([
    ['interface=eth9', 4, 'no interface that is up and matches "eth9" has one'],
    ['interface=vxlan', 4, 'no interface that is up and matches "vxlan" has one'],
    ['interface=lo', 4, 'no interface that is up and matches "lo" has one'],
    [
      'skip-interface=eth',
      4,
      'no interface that is up has one that counts, other than "eth"; 172.17.0.1 of interface "docker0" is skipped, because Docker names interfaces so',
    ],
    ['cidr=10.65.0.0/16', 4, 'no interface that is up has one in 10.65.0.0/16'],
    ['198.51.100.99/24', 4, 'no interface has 198.51.100.99'],
    ['198.51.100.99', 4, 'no interface has 198.51.100.99'],
    ['198.51.100.1', 6, '198.51.100.1 is of the other family'],
    ['can-reach=192.0.2.99', 4, 'the host has no route to 192.0.2.99'],
    ['can-reach=192.0.2.99', 6, '192.0.2.99 is of the other family'],
    ['orch-internal-ip', 4, 'the Node of the orchestrator has no InternalIP of this family'],
  ])('by %j of IPv%i is not found: %s', (method, family, reason) => {
    expect(shown(method, family)).toBe(`Cannot find an IPv${String(family)} address of the node: ${reason}`);
  });

  it('is kept when a pool is written over its network, and named when it is not known yet', () => {
    const host = { ...HOST, interfaces: [link('eth0', '198.51.100.1/24')], pools: [parseCidr('198.51.100.0/25')] };
    const detection = readDetection('first-found');
    expect(detectAddress(4, detection, { ...host, known: [parseAddress('198.51.100.1')] })).toMatchObject({
      kind: 'found',
      interfaceName: 'eth0',
    });
    expect(detectAddress(4, detection, host)).toEqual({
      kind: 'problem',
      problem:
        'Cannot find an IPv4 address of the node: no interface that is up has one; 198.51.100.1 of interface "eth0" is inside the pool 198.51.100.0/25, whose addresses are for pods',
    });
  });

  it.each<[string, Family, string, string]>([
    ['first-found', 6, '2001:db8::1', '2001:db8::1/64 eth0 1500'],
    ['interface=eth0', 6, '2001:db8::1', '2001:db8::1/64 eth0 1500'],
    ['cidr=2001:db8::/64', 6, '2001:db8::1', '2001:db8::1/64 eth0 1500'],
    ['cidr=2001:db8:0:9::/64,2001:db8::/64', 6, '2001:db8::1', '2001:db8:0:9::1/64 eth0 1500'],
    ['first-found', 6, '2001:db8:1::1', '2001:db8:1::1/56 eth1 9000'],
    ['skip-interface=eth1', 6, '2001:db8:1::1', '2001:db8:0:9::1/64 eth0 1500'],
    ['interface=eth0,eth1', 6, '2001:db8:1::1', '2001:db8:0:9::1/64 eth0 1500'],
    ['first-found', 6, '2001:db8::7', '2001:db8:0:9::1/64 eth0 1500'],
  ])('by %j of IPv%i, once %s, with a newer one before it, is %s', (method, family, known, expected) => {
    const newer = link('eth0', '2001:db8:0:9::1/64', '2001:db8::1/64');
    const host = { ...HOST, interfaces: [newer, ...HOST.interfaces.slice(-1)], known: [parseAddress(known)] };
    expect(shown(method, family, host)).toBe(expected);
  });

  it.each<[what: string, interfaces: string, known: string, internalIps: string, expected: string]>([
    ['before a VIP that comes first', 'eth0 192.0.2.100/32 192.0.2.11/24', '', '', '192.0.2.11/24 eth0'],
    ['again, once the VIP was published', 'eth0 192.0.2.100/32 192.0.2.11/24', '192.0.2.100', '', '192.0.2.11/24 eth0'],
    [
      'before a VIP that is the InternalIP',
      'eth0 192.0.2.100/32 192.0.2.11/24',
      '',
      '192.0.2.100',
      '192.0.2.11/24 eth0',
    ],
    [
      'before a VIP of an earlier interface',
      'vip0 192.0.2.100/32, eth0 192.0.2.11/24',
      '192.0.2.100',
      '',
      '192.0.2.11/24 eth0',
    ],
    [
      'a VIP as long as there is nothing else',
      'eth0 192.0.2.100/32',
      '192.0.2.11',
      '192.0.2.11',
      '192.0.2.100/32 eth0',
    ],
    [
      'the published one before the InternalIP',
      'eth0 192.0.2.57/24 192.0.2.12/24 192.0.2.11/24',
      '192.0.2.11',
      '192.0.2.12',
      '192.0.2.11/24 eth0',
    ],
    ['the InternalIP before the first', 'eth0 192.0.2.57/24 192.0.2.11/24', '', '192.0.2.11', '192.0.2.11/24 eth0'],
    [
      'the one before the one that stood in',
      'eth0 192.0.2.57/24 192.0.2.11/24',
      '192.0.2.11 192.0.2.57',
      '',
      '192.0.2.11/24 eth0',
    ],
    [
      'of hosts, the InternalIP before a published VIP',
      'eth0 192.0.2.100/32 192.0.2.11/32',
      '192.0.2.100',
      '192.0.2.11',
      '192.0.2.11/32 eth0',
    ],
    [
      'of hosts, the one before a VIP that stood in',
      'eth0 192.0.2.100/32 192.0.2.11/32',
      '192.0.2.11 192.0.2.100',
      '',
      '192.0.2.11/32 eth0',
    ],
    [
      'the InternalIP without a network before a later bridge',
      'eth0 192.0.2.11/32, lxdbr0 198.51.100.1/24',
      '',
      '192.0.2.11',
      '192.0.2.11/32 eth0',
    ],
    [
      'the InternalIP of a later interface, where the node has had none',
      'eth0 192.0.2.11/24, eth1 198.51.100.1/24',
      '',
      '198.51.100.1',
      '198.51.100.1/24 eth1',
    ],
    [
      'the published one, though another interface has the InternalIP',
      'eth0 192.0.2.11/24, eth1 198.51.100.1/24',
      '192.0.2.11',
      '198.51.100.1',
      '192.0.2.11/24 eth0',
    ],
    ['not one of a bridge of LXD', 'lxdbr0 10.1.7.1/24, eth0 192.0.2.11/24', '', '', '192.0.2.11/24 eth0'],
    [
      'not one of a bridge of LXD that was published, where another interface has the InternalIP',
      'lxdbr0 10.1.7.1/24, eth0 192.0.2.11/24',
      '10.1.7.1',
      '192.0.2.11',
      '192.0.2.11/24 eth0',
    ],
    [
      'the published one of a skipped name, where no interface has the InternalIP',
      'tailscale0 100.64.0.7/24, eth0 192.0.2.11/24',
      '100.64.0.7',
      '',
      '100.64.0.7/24 tailscale0',
    ],
    [
      'of IPv6, on a bridge with the InternalIP of IPv4',
      'br-ex 192.0.2.11/24 2001:db8::11/64',
      '',
      '192.0.2.11',
      '2001:db8::11/64 br-ex',
    ],
    ...['br-ex', 'wg0', 'docker0'].map((name): [string, string, string, string, string] => [
      `the InternalIP on "${name}"`,
      `eth0 198.51.100.1/24, ${name} 192.0.2.11/24`,
      '',
      '192.0.2.11',
      `192.0.2.11/24 ${name}`,
    ]),
    [
      'the one before, when its interface is made again after another one',
      'eth1 198.51.100.1/24, bond0 192.0.2.57/24 192.0.2.11/24',
      '192.0.2.11 198.51.100.1',
      '198.51.100.1',
      '192.0.2.11/24 bond0',
    ],
    [
      'the published one, though another interface is before its own',
      'eth1 198.51.100.1/24, bond0 192.0.2.11/24',
      '192.0.2.11',
      '',
      '192.0.2.11/24 bond0',
    ],
    [
      'of hosts alone, the published one of a later interface',
      'eth1 198.51.100.1/32, bond0 192.0.2.11/32',
      '192.0.2.11',
      '',
      '192.0.2.11/32 bond0',
    ],
    ['of IPv6 before a VIP', 'eth0 2001:db8::100/128 2001:db8::11/64', '2001:db8::100', '', '2001:db8::11/64 eth0'],
    [
      'of DHCPv6, which the Node has as well',
      'eth0 2001:db8::11/128 2001:db8::a1b2/64',
      '2001:db8::11',
      '2001:db8::11',
      '2001:db8::11/128 eth0',
    ],
  ])('is %s', (_what, interfaces, known, internalIps, expected) => {
    const addressesIn = (text: string) => text.split(' ').filter(Boolean).map(parseAddress);
    const host = {
      ...HOST,
      interfaces: interfaces.split(', ').map((text) => link(...(text.split(' ') as [string, ...string[]]))),
      known: addressesIn(known),
      internalIps: addressesIn(internalIps),
    };
    expect(shown('first-found', expected.includes(':') ? 6 : 4, host)).toBe(`${expected} 1500`);
  });

  it('is not found on a host without one, and not searched for with "none"', () => {
    const bare = { ...HOST, interfaces: HOST.interfaces.slice(0, 4) };
    expect(detectAddress(4, readDetection('first-found'), bare)).toEqual({
      kind: 'problem',
      problem:
        'Cannot find an IPv4 address of the node: no interface that is up has one that counts; 172.17.0.1 of interface "docker0" is skipped, because Docker names interfaces so',
      method: 'cidr=172.17.0.0/16',
    });
    const bridged = { ...HOST, interfaces: [link('docker0', '172.17.0.1/16'), link('br-ex', '192.0.2.11/32')] };
    expect(detectAddress(4, readDetection('first-found'), bridged)).toMatchObject({ method: 'interface=^br-ex$' });
    expect(shown('interface=^br-ex$', 4, bridged)).toBe('192.0.2.11/32 br-ex 1500');
    expect(shown('first-found', 4, { ...HOST, interfaces: [] })).toMatch(/no interface that is up has one$/);
    expect(detectAddress(4, readDetection('none'), HOST)).toEqual({ kind: 'none' });
  });

  it.each<[string, HostFacts['reach'], string]>([
    ['the source of the route', { device: 'eth1', source: parseAddress('203.0.113.1') }, '203.0.113.1/28 eth1 9000'],
    [
      'on another device than the route',
      { device: 'eth1', source: parseAddress('198.51.100.1') },
      '198.51.100.1/24 eth0 1500',
    ],
    ['the first of the device', { device: 'eth0', source: undefined }, '198.51.100.1/24 eth0 1500'],
    [
      'not one of a pool',
      { device: 'vxlan.npl', source: parseAddress('10.65.9.0') },
      'Cannot find an IPv4 address of the node: interface "vxlan.npl", by which the host reaches 192.0.2.99, has none to use',
    ],
  ])('by "can-reach" is %s', (_what, reach, expected) => {
    expect(shown('can-reach=192.0.2.99', 4, { ...HOST, reach })).toBe(expected);
  });

  it('is the first InternalIP of the family on the Node with "orch-internal-ip"', () => {
    const internalIps = ['2001:db8:1::1', '203.0.113.1', '198.51.100.1'].map(parseAddress);
    expect(shown('orch-internal-ip', 4, { ...HOST, internalIps })).toBe('203.0.113.1/28 eth1 9000');
    expect(shown('orch-internal-ip', 6, { ...HOST, internalIps })).toBe('2001:db8:1::1/56 eth1 9000');
  });
});

describe('a method of detection', () => {
  it.each([
    ['first-fund', 'it is neither an address nor a known method'],
    ['firstfound=1', 'it is neither an address nor a known method'],
    ['can-reach=', '"" is no IP address'],
    ['can-reach=example.org', '"example.org" is no IP address'],
    ['interface=', 'the list contains an empty item'],
    ['interface=eth0,,eth1', 'the list contains an empty item'],
    ['interface=eth[', '"eth[" is no regular expression'],
    ['cidr=10.0.0.0', '"10.0.0.0" is no CIDR'],
    ['10.0.0.0/8', 'it is a network, not an address of the node'],
    ['constructor', 'it is neither an address nor a known method'],
  ])('%j is refused: %s', (method, reason) => {
    expect(() => readDetection(method)).toThrow(
      expect.objectContaining({
        code: 'agent/detection-invalid',
        message: `Cannot detect the address of the node by "${method}": ${reason}`,
        hint: expect.stringContaining('can-reach=<address>'),
        facts: expect.objectContaining({ found: method }),
      }),
    );
  });
});

function link(name: string, ...cidrs: string[]): HostInterface {
  const addresses = cidrs.map((text) => {
    const { address, cidr } = tryReadCidr(text)!;
    return { address, prefixBits: cidr.prefixBits };
  });
  return { name, mtu: 1500, isUp: true, isLoopback: false, addresses };
}

function shown(method: string, family: Family, facts: HostFacts = HOST): string {
  const outcome = detectAddress(family, readDetection(method), facts);
  if (outcome.kind !== 'found') return outcome.kind === 'none' ? 'none' : outcome.problem;
  const { address, prefixBits, interfaceName, mtu } = outcome;
  return `${formatAddress(address)}/${String(prefixBits)} ${interfaceName} ${String(mtu)}`;
}
