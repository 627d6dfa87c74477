import { describe, expect, it } from 'vitest';
import { filterText } from '../../test/support/filter-text.ts';
import { parseAddress } from '../net/address.ts';
import { parseCidr } from '../net/cidr.ts';
import { renderTunnelTable, type TunnelInput } from './tunnel-table.ts';

const NODES = ['192.0.2.12', '192.0.2.11', '2001:db8::12', '192.0.2.12'].map(parseAddress);

describe('the tunnel filter table', () => {
  it('matches the golden file', async () => {
    const tunnelled = [
      { by: 'vxlan4', pools: [parseCidr('10.65.0.0/16')] },
      { by: 'vxlan6', pools: [parseCidr('fd00:65::/32')], from: [parseCidr('fd00:65::/32')] },
    ] as const;
    const table = renderTunnelTable({ tunnels: ['vxlan4', 'vxlan6', 'ipip4'], nodes: NODES, tunnelled });
    await expect(filterText(table)).toMatchFileSnapshot('../../test/golden/tunnel-table.txt');
  });

  it('does not exist without tunnels', () => {
    expect(renderTunnelTable({ tunnels: [], nodes: NODES })).toBeUndefined();
  });

  it.each([
    ['vxlan4', '"protocols":[4]', '"family":6'],
    ['vxlan6', '"protocols":[4]', '"family":4'],
    ['ipip4', '"ports"', '"family":6'],
  ] as const)('says of %s nothing of other protocols and families', (kind, ...absent) => {
    const text = filterText(renderTunnelTable({ tunnels: [kind], nodes: NODES }));
    for (const word of absent) expect(text).not.toContain(word);
  });

  it('does not depend on the order of nodes, and drops all tunnel packets when there is no other node', () => {
    const table = (nodes: TunnelInput['nodes']) => renderTunnelTable({ tunnels: ['vxlan4'], nodes });
    expect(table(NODES)).toEqual(table(NODES.toReversed()));
    expect(table([])?.sets).toEqual(new Map([['nodes-v4', { kind: 'addresses', family: 4, elements: new Set() }]]));
  });
});
