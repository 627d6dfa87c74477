import { describe, expect, it } from 'vitest';
import { bgpConfigurationOf, bgpNodeOf, bgpPeerOf } from '../../test/support/bgp.ts';
import { parseAddress } from '../net/address.ts';
import { parseCidr } from '../net/cidr.ts';
import { planSessions } from './plan-sessions.ts';
import { type BirdConfig, renderBird } from './render-bird.ts';
import { routerIdOf } from './router-id.ts';

function render(password: string, refused: readonly string[] = []): BirdConfig {
  const { sessions } = planSessions({
    nodeName: 'node-3',
    nodes: [bgpNodeOf(2), bgpNodeOf(3, { routeReflectorClusterID: '224.0.0.1' }), bgpNodeOf(4)],
    configurations: [bgpConfigurationOf({ nodeToNodeMeshEnabled: false })],
    peers: [
      bgpPeerOf('nodes', { node: 'node-3', peerSelector: 'all()' }),
      bgpPeerOf('router', {
        peerIP: '192.0.2.1:1790',
        asNumber: 65_001,
        ttlSecurity: 2,
        numAllowedLocalASNumbers: 1,
        bfd: { intervalMs: 300, multiplier: 3 },
        password: { file: '/etc/netplug/bgp/router' },
      }),
    ],
  });
  return renderBird({
    routerId: routerIdOf('node-3', undefined),
    sessions: sessions.map(({ passwordReference, ...session }) => ({
      ...session,
      password: passwordReference === undefined ? undefined : password,
    })),
    announcements: [
      { cidr: parseCidr('fd00:65::40/122'), communities: [] },
      {
        cidr: parseCidr('10.65.2.0/26'),
        communities: [
          [65_000, 1],
          [65_000, 1, 2],
        ],
      },
    ],
    refused: refused.map(parseCidr),
    pools: [parseCidr('10.66.0.0/16'), parseCidr('10.65.0.0/16')],
    log: { severity: 'Info', file: '/run/netplug/bird/bird.log' },
    podLinkPrefix: 'npl',
  });
}

describe('the configuration of BIRD', () => {
  it('contains sessions, filters, announcements and log settings', async () => {
    const { text, problems } = render("it's a \\ secret");
    expect(problems).toEqual([]);
    await expect(text).toMatchFileSnapshot('../../test/golden/bird.conf');
  });

  it.each([
    ['a quote', 'a"; } protocol static { #'],
    ['a line break', 'a\nb'],
    ['NUL', 'a\0b'],
    ['nothing', ''],
    ['81 bytes', 'ä'.repeat(40) + 'a'],
  ])('leaves out a session whose password is or contains %s, with a problem', (_what, password) => {
    const { text, problems } = render(password);
    expect(problems).toMatchObject([{ path: 'session.peer_192_0_2_1_1790.password', code: 'bgp/peer-unusable' }]);
    expect(text).not.toContain('192.0.2.1');
    expect(text.match(/protocol bgp/g)).toHaveLength(4);
  });

  it('accepts no route from another node that leads over a refused range', () => {
    const filter = (text: string): string | undefined => /^filter from_node4 .*$/m.exec(text)?.[0];
    expect(filter(render('a').text)).toBe('filter from_node4 { if in_pools4() then accept; reject; }');
    expect(filter(render('a', ['10.65.7.0/24', 'fd00::/64']).text)).toBe(
      'filter from_node4 { if net ~ [ 10.65.7.0/24-, 10.65.7.0/24+ ] then reject; if in_pools4() then accept; reject; }',
    );
  });

  it('accepts passwords of up to 80 bytes, the limit of the kernel', () => {
    expect(render('ä'.repeat(40)).problems).toEqual([]);
  });
});

describe('the id of a router', () => {
  it('is the IPv4 address, or else derived from the name', () => {
    expect(routerIdOf('node-3', parseAddress('192.0.2.3'))).toEqual(parseAddress('192.0.2.3'));
    const derived = new Set(['node-1', 'node-2', 'node-11', ''].map((name) => routerIdOf(name, undefined).value));
    expect(derived.size).toBe(4);
    expect(routerIdOf('node-1', parseAddress('fd00::1'))).toEqual(routerIdOf('node-1', undefined));
  });
});
