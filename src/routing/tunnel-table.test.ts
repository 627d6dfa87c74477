import { describe, expect, it } from 'vitest';
import { parseAddress } from '../net/address.ts';
import { renderTunnelTable, TUNNEL_TABLE, type TunnelInput } from './tunnel-table.ts';

const NODES = ['192.0.2.12', '192.0.2.11', '2001:db8::12', '192.0.2.12'].map(parseAddress);

describe('the tunnel filter table', () => {
  it('matches the golden file', async () => {
    const table = renderTunnelTable({ tunnels: ['vxlan4', 'vxlan6', 'ipip4'], nodes: NODES });
    await expect(`${JSON.stringify(table, undefined, 2)}\n`).toMatchFileSnapshot('../../test/golden/tunnel-table.json');
  });

  it('does not exist without tunnels', () => {
    expect(renderTunnelTable({ tunnels: [], nodes: NODES })).toEqual({ name: TUNNEL_TABLE, objects: [] });
  });

  it.each([
    ['vxlan4', 'l4proto', 'ip6'],
    ['vxlan6', 'l4proto', '"ip"'],
    ['ipip4', '"dport"', 'ip6'],
  ] as const)('says of %s nothing of other protocols and families', (kind, ...absent) => {
    const text = JSON.stringify(renderTunnelTable({ tunnels: [kind], nodes: NODES }));
    for (const word of absent) expect(text).not.toContain(word);
  });

  it('does not depend on the order of nodes, and drops all tunnel packets when there is no other node', () => {
    const table = (nodes: TunnelInput['nodes']) => renderTunnelTable({ tunnels: ['vxlan4'], nodes });
    expect(table(NODES)).toEqual(table(NODES.toReversed()));
    expect(table([]).objects[0]).toEqual({ set: { name: 'nodes-v4', type: 'ipv4_addr' } });
  });
});
