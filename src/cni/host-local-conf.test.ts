import { describe, expect, it } from 'vitest';
import { hostLocalConf } from './host-local-conf.ts';

const SUBNETS = { 4: '10.244.1.0/24', 6: 'fd00:244:1::/64' };
const confOf = (ipam: object): unknown =>
  hostLocalConf({ name: 'n', ipam: { type: 'host-local', ...ipam } }, SUBNETS)['ipam'];

describe('the configuration for host-local', () => {
  it('has subnets in place of usePodCidr words, at the top level and in ranges [hl-podcidr-lookup]', () => {
    expect(confOf({ subnet: 'usePodCidr' })).toEqual({ type: 'host-local', subnet: '10.244.1.0/24' });
    expect(confOf({ ranges: [[{ subnet: 'usePodCidrIPv6' }, { subnet: 'fd00:9::/64' }]] })).toEqual({
      type: 'host-local',
      ranges: [[{ subnet: 'fd00:244:1::/64' }, { subnet: 'fd00:9::/64' }]],
    });
  });

  it('has no routes and gateways, and keeps all other fields [hl-gateway]', () => {
    const range = { subnet: '10.0.0.0/24', rangeStart: '10.0.0.5', gateway: '10.0.0.1' };
    expect(confOf({ ...range, routes: [{ dst: '0.0.0.0/0' }], dataDir: '/x', ranges: [[range]] })).toEqual({
      type: 'host-local',
      subnet: '10.0.0.0/24',
      rangeStart: '10.0.0.5',
      dataDir: '/x',
      ranges: [[{ subnet: '10.0.0.0/24', rangeStart: '10.0.0.5' }]],
    });
  });
});
