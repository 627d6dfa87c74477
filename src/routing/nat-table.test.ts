import { describe, expect, it } from 'vitest';
import { parseAddress } from '../net/address.ts';
import { filterText } from '../../test/support/filter-text.ts';
import { parseCidr } from '../net/cidr.ts';
import { type NatInput, NAT_TABLE, renderNat } from './nat-table.ts';

const NOTHING: NatInput = { natPools: [], allPools: [], floating: [], tunnels: [] };

describe('the table of address translation', () => {
  it('matches the golden file', async () => {
    const table = renderNat({
      natPools: cidrs('10.65.0.0/16', 'fd00:65::/48'),
      allPools: cidrs('10.65.0.0/16', 'fd00:65::/48', '10.66.0.0/16'),
      floating: [floating('198.51.100.9', '10.65.0.1'), floating('2001:db8::9', 'fd00:65::1')],
      tunnels: ['vxlan.npl', 'npl-tun'],
    });
    await expect(filterText(table)).toMatchFileSnapshot('../../test/golden/nat-table.txt');
  });

  it.each([
    ['nothing at all', NOTHING],
    ['pools alone', { ...NOTHING, allPools: cidrs('10.65.0.0/16') }],
    ['floating addresses of two families', { ...NOTHING, floating: [floating('198.51.100.9', 'fd00::1')] }],
  ])('has no rule that translates for %s, and nothing at all where there is no table', (_what, input) => {
    const { name, isIdle, chains, sets } = renderNat(input);
    expect([name, isIdle, sets.size]).toEqual([NAT_TABLE, true, 0]);
    expect([...chains.values()].flatMap(({ rules }) => rules.map(({ id }) => id))).toEqual(['established']);
  });

  it('does not depend on the order of pools and tunnels, and leaves out pools inside others', () => {
    const [wide, narrow, apart] = cidrs('10.64.0.0/10', '10.65.0.0/16', '10.128.0.0/16') as [never, never, never];
    const one = renderNat({ ...NOTHING, natPools: [narrow], allPools: [apart, narrow, wide], tunnels: ['b', 'a'] });
    const other = renderNat({ ...NOTHING, natPools: [narrow], allPools: [wide, apart], tunnels: ['a', 'b'] });
    expect(one).toEqual(other);
    expect(elementsOf(one, 'pools-v4')).toEqual(['10.64.0.0/10', '10.128.0.0/16']);
  });

  it('has no objects of a family with nothing to translate', () => {
    const table = renderNat({
      ...NOTHING,
      natPools: cidrs('10.65.0.0/16'),
      allPools: cidrs('10.65.0.0/16', 'fd00::/48'),
    });
    expect(filterText(table)).toContain('v4');
    expect(filterText(table)).not.toContain('v6');
  });

  it('translates several floating addresses to one pod, which sends from the first of them', () => {
    const table = renderNat({
      ...NOTHING,
      floating: [floating('198.51.100.9', '10.65.0.1'), floating('198.51.100.8', '10.65.0.1')],
    });
    expect(elementsOf(table, 'floating-to-pod-v4')).toEqual([
      ['198.51.100.9', '10.65.0.1'],
      ['198.51.100.8', '10.65.0.1'],
    ]);
    expect(elementsOf(table, 'pod-to-floating-v4')).toEqual([['10.65.0.1', '198.51.100.9']]);
    expect(elementsOf(table, 'pod-to-itself-v4')).toEqual([['10.65.0.1 10.65.0.1', '198.51.100.9']]);
  });

  it('assigns a floating address that two pods request to the first, and the other pod sends from none', () => {
    const table = renderNat({
      ...NOTHING,
      floating: [floating('198.51.100.9', '10.65.0.1'), floating('198.51.100.9', '10.65.0.2')],
    });
    expect(elementsOf(table, 'floating-to-pod-v4')).toEqual([['198.51.100.9', '10.65.0.1']]);
    expect(elementsOf(table, 'pod-to-floating-v4')).toEqual([['10.65.0.1', '198.51.100.9']]);
  });
});

function cidrs(...texts: string[]) {
  return texts.map(parseCidr);
}

function floating(external: string, internal: string) {
  return { external: parseAddress(external), internal: parseAddress(internal) };
}

function elementsOf({ sets }: ReturnType<typeof renderNat>, name: string): readonly unknown[] {
  return [...(sets.get(name)?.elements ?? [])];
}
