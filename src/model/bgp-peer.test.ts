import { describe, expect, it } from 'vitest';
import { problemLine } from '../base/problem.ts';
import { parseAddress } from '../net/address.ts';
import { readPeerIp } from './bgp-peer.ts';
import { decodeResource } from './decode-resource.ts';
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

  it.each([
    { ...ROUTER, node: 'n1', password: { file: '/etc/netplug/password' }, ttlSecurity: 1 },
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
    [{ ...ROUTER, password: {} }, 'spec.password'],
    [{ ...ROUTER, password: { file: 'password' } }, 'spec.password.file'],
    [{ ...ROUTER, password: { file: '/a', secretKeyRef: { name: 'a', key: 'b' } } }, 'not both'],
    [{ ...ROUTER, sourceAddress: 'none' }, 'did you mean "None"'],
  ])('is refused with %j', (spec, text) => {
    expect(problemsOf(peer(spec)).join('\n')).toContain(text);
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
