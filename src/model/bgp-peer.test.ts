import { describe, expect, it } from 'vitest';
import { problemLine } from '../base/problem.ts';
import { parseAddress } from '../net/address.ts';
import { readPeerIp } from './bgp-peer.ts';
import { decodeResource, decodeStoredResource } from './decode-resource.ts';
import { API_VERSION } from './resource.ts';

const peer = (spec: object): object => ({ apiVersion: API_VERSION, kind: 'BGPPeer', metadata: { name: 'p' }, spec });
const ROUTER = { peerIP: '192.0.2.1', asNumber: 64_513 };

function problemsOf(raw: unknown): string[] {
  const decoded = decodeResource(raw);
  return 'problems' in decoded ? decoded.problems.map(problemLine) : [];
}

describe('a BGP peer', () => {
  it('gets its defaults', () => {
    expect(decodeResource(peer(ROUTER))).toEqual({
      resource: peer({ ...ROUTER, keepOriginalNextHop: false, sourceAddress: 'UseNodeIP' }),
    });
  });

  it('gets the defaults of BFD with an empty object', () => {
    expect(decodeResource(peer({ ...ROUTER, bfd: {} }))).toMatchObject({
      resource: { spec: { bfd: { intervalMs: 300, multiplier: 3 } } },
    });
  });

  it.each([
    { ...ROUTER, node: 'n1', password: { file: '/etc/netplug/bgp/password' }, ttlSecurity: 1 },
    { nodeSelector: '!has(rr)', peerSelector: 'has(rr)' },
    { ...ROUTER, password: { secretKeyRef: { name: 'bgp', key: 'password' } }, numAllowedLocalASNumbers: 0 },
  ])('may be %j', (spec) => {
    expect(problemsOf(peer(spec))).toEqual([]);
  });

  it.each([
    [{}, 'spec.peerIP: missing'],
    [{ peerIP: '192.0.2.1' }, 'spec.asNumber: missing'],
    [{ peerIP: '192.0.2.0/24', asNumber: 1 }, 'spec.peerIP: found "192.0.2.0/24"'],
    [{ ...ROUTER, peerSelector: 'all()' }, 'spec.peerSelector: excludes peerIP'],
    [{ peerSelector: 'all()', asNumber: 1 }, 'spec.asNumber: excludes peerSelector'],
    [{ ...ROUTER, node: 'n1', nodeSelector: 'all()' }, 'spec.nodeSelector: excludes node'],
    [{ ...ROUTER, asNumber: '64513' }, 'write 64513 without quotes'],
    [{ ...ROUTER, asNumber: 4_294_967_296 }, 'spec.asNumber: found 4294967296'],
    [{ ...ROUTER, bfd: { intervalMs: 49 } }, 'spec.bfd.intervalMs: found 49'],
    [{ ...ROUTER, bfd: { multiplier: 1 } }, 'spec.bfd.multiplier: found 1'],
    [{ ...ROUTER, bfd: { interval: 300 } }, 'spec.bfd.interval: is not a known field'],
    [{ ...ROUTER, bfd: {}, sourceAddress: 'None' }, 'spec.bfd: needs sourceAddress "UseNodeIP"'],
    [{ ...ROUTER, password: {} }, 'spec.password'],
    [{ ...ROUTER, password: { file: '/etc/netplug/bgp/a', secretKeyRef: { name: 'a', key: 'b' } } }, 'not both'],
    [{ ...ROUTER, sourceAddress: 'none' }, 'did you mean "None"'],
  ])('is refused with %j', (spec, text) => {
    expect(problemsOf(peer(spec)).join('\n')).toContain(text);
  });

  it.each([
    'password',
    '/dev/kmsg',
    '//etc/netplug/bgp/a',
    '/etc/netplug/bgp/',
    '/etc/netplug/bgp',
    '/etc/netplug/bgp/.',
    '/etc/netplug/bgp/..',
    '/etc/netplug/bgp/../../shadow',
    '/etc/netplug/bgp/a/b',
    '/etc/netplug/bgp/./a',
    '/etc/netplug/bgp/a\n',
    '/etc/netplug/bgp/a b',
    `/etc/netplug/bgp/${'a'.repeat(129)}`,
  ])('is refused with the password file %j', (file) => {
    expect(problemsOf(peer({ ...ROUTER, password: { file } })).join('\n')).toContain('spec.password.file: found');
  });

  it('is unreadable with another password file that an older release has stored, and says so to preflight', () => {
    const stored = peer({ ...ROUTER, password: { file: '/var/lib/netplug/password' } });
    expect(decodeStoredResource(stored)).toContain('spec.password.file: found "/var/lib/netplug/password"');
  });
});

describe('the address of a peer', () => {
  it.each([
    ['192.0.2.1', '192.0.2.1', undefined],
    ['192.0.2.1:1790', '192.0.2.1', 1790],
    ['2001:db8::1', '2001:db8::1', undefined],
    ['[2001:db8::1]:179', '2001:db8::1', 179],
    ['2001:db8::1:179', '2001:db8::1:179', undefined],
  ])('%s is %s and port %s', (text, address, port) => {
    expect(readPeerIp(text)).toEqual({ address: parseAddress(address), port });
  });

  it.each(['', 'router', '192.0.2.1:', '192.0.2.1:0', '192.0.2.1:65536', '[192.0.2.1]:179', '[2001:db8::1]', '::1%lo'])(
    'is not %j',
    (text) => {
      expect(readPeerIp(text)).toBeUndefined();
    },
  );
});
