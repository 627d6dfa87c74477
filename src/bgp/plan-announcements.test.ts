import { describe, expect, it } from 'vitest';
import { bgpConfigurationOf } from '../../test/support/bgp.ts';
import { poolOf } from '../../test/support/fixtures.ts';
import type { BgpConfigurationSpec } from '../model/bgp-configuration.ts';
import { formatCidr, parseCidr } from '../net/cidr.ts';
import { planAnnouncements } from './plan-announcements.ts';

const pools = [
  poolOf('routed', '10.65.0.0/16'),
  poolOf('hidden', '10.66.0.0/16', { disableBGPExport: true }),
  poolOf('vxlan', '10.67.0.0/16', { vxlanMode: 'CrossSubnet' }),
  poolOf('ipip', '10.68.0.0/16', { ipipMode: 'Always' }),
  poolOf('routed6', 'fd00:65::/64'),
];

function plan(held: readonly string[], spec: BgpConfigurationSpec = {}): ReturnType<typeof planAnnouncements> {
  return planAnnouncements({ held: held.map(parseCidr), pools, configurations: [bgpConfigurationOf(spec)] });
}

describe('announcements', () => {
  it('are blocks and addresses of the node in exported pools without encapsulation, each once [ann-routes]', () => {
    const inPools = ['fd00:65::40/122', '10.65.2.0/26', '10.65.1.7/32', '10.65.2.0/26'];
    const { announcements } = plan([...inPools, '10.66.1.0/26', '10.67.1.0/26', '10.68.1.0/26', '192.0.2.1/32']);
    expect(announcements.map(({ cidr }) => formatCidr(cidr))).toEqual([
      '10.65.1.7/32',
      '10.65.2.0/26',
      'fd00:65::40/122',
    ]);
  });

  it('have the communities of every range that contains them, by name or value, each once', () => {
    const { announcements, problems } = plan(['10.65.1.0/26', '10.65.2.0/26'], {
      communities: [{ name: 'site', value: '65000:1' }],
      prefixAdvertisements: [
        { cidr: '10.65.0.0/16', communities: ['site', '4294967295:1:2'] },
        { cidr: '10.65.1.0/24', communities: ['65000:1', '65000:2'] },
        { cidr: '10.65.1.0/27', communities: ['65000:3'] },
      ],
    });
    expect(announcements.map(({ communities }) => communities)).toEqual([
      [
        [65_000, 1],
        [4_294_967_295, 1, 2],
        [65_000, 2],
      ],
      [
        [65_000, 1],
        [4_294_967_295, 1, 2],
      ],
    ]);
    expect(problems).toEqual([]);
  });

  it.each(['unknown', '65536:1', '1:65536', '1:2:4294967296', '1:2:3:4', '1:', ''])(
    'have no community %j, which is reported as a problem',
    (text) => {
      const { announcements, problems } = plan(['10.65.1.0/26'], {
        prefixAdvertisements: [{ cidr: '10.65.0.0/16', communities: [text, '1:2'] }],
      });
      expect(announcements[0]?.communities).toEqual([[1, 2]]);
      expect(problems).toMatchObject([
        { path: 'BGPConfiguration.default.spec.prefixAdvertisements[0].communities[0]', code: 'bgp/peer-unusable' },
      ]);
    },
  );
});
