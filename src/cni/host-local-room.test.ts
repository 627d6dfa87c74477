import { describe, expect, it } from 'vitest';
import { parseAddress } from '../net/address.ts';
import { findFullSet } from './host-local-room.ts';

const full = (conf: Record<string, unknown>, ...taken: string[]): string | undefined =>
  findFullSet(conf, taken.map(parseAddress));
const NET = { subnet: '10.0.0.0/29' };
const REST = ['10.0.0.2', '10.0.0.3', '10.0.0.4', '10.0.0.5'];

describe('ranges of host-local', () => {
  it.each([
    { is: 'has one address left', ipam: NET, taken: REST, left: undefined },
    { is: 'has only network, gateway and broadcast left', ipam: NET, taken: [...REST, '10.0.0.6'], left: '1-6' },
    {
      is: 'has its gateway outside',
      ipam: { ranges: [[{ ...NET, gateway: '192.0.2.1' }]] },
      taken: [...REST, '10.0.0.6'],
      left: undefined,
    },
    {
      is: 'is one address',
      ipam: { ranges: [[{ ...NET, rangeStart: '10.0.0.3', rangeEnd: '10.0.0.3' }]] },
      taken: ['10.0.0.3'],
      left: '3-3',
    },
    {
      is: 'has a second range in its set',
      ipam: { ranges: [[NET, { subnet: '10.1.0.0/29' }]] },
      taken: [...REST, '10.0.0.6'],
      left: undefined,
    },
    {
      is: 'has a full set beside another one',
      ipam: { ranges: [[{ subnet: 'fd00::/64' }], [NET]] },
      taken: [...REST, '10.0.0.6'],
      left: '1-6',
    },
    { is: 'holds addresses of elsewhere', ipam: NET, taken: ['10.2.0.1', 'fd00::2', ...REST], left: undefined },
    { is: 'is unreadable', ipam: { subnet: 'usePodCidr' }, taken: REST, left: undefined },
    { is: 'is empty', ipam: {}, taken: REST, left: undefined },
  ])('$is', ({ ipam, taken, left }) => {
    const [first = '', last = ''] = left?.split('-') ?? [];
    expect(full({ ipam }, ...taken)).toBe(left === undefined ? undefined : `10.0.0.${first}-10.0.0.${last}`);
  });

  it('include the last address of an IPv6 subnet, and those that the runtime passes', () => {
    const conf = { ipam: {}, runtimeConfig: { ipRanges: [[{ subnet: 'fd00::/126' }]] } };
    expect(full(conf, 'fd00::2')).toBeUndefined();
    expect(full(conf, 'fd00::2', 'fd00::3')).toBe('fd00::1-fd00::3');
  });
});
