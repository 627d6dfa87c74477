import { afterEach, expect, it } from 'vitest';
import { poolOf } from '../../../../../test/support/fixtures.ts';
import {
  type MemoryFilterTables,
  MemoryPolicyFilter,
} from '../../../../../test/support/memory/memory-policy-filter.ts';
import { hostAt, startNode, stopNodes, works, worldWith } from '../../../../../test/support/networked-node.ts';
import { until } from '../../../../../test/support/until.ts';
import { TUNNEL_TABLE } from '../../../../routing/tunnel-table.ts';

afterEach(stopNodes);

it.each([
  ['strict', ['beside-vxlan4-vxlan4', 'beside-vxlan4-ipip4']],
  ['off', []],
] as const)(
  'what only a tunnel leads to must come out of it, in each pool with a tunnel, with source check %s',
  async (sourceCheck, rules) => {
    const { store } = await worldWith(poolOf('routed', '10.64.0.0/16'));
    const tables: MemoryFilterTables = new Map();
    const filter = new MemoryPolicyFilter(tables);
    const beside = (): readonly string[] =>
      (tables.get(TUNNEL_TABLE)?.chains.get('forward')?.rules ?? [])
        .map(({ id }) => id)
        .filter((id) => id.startsWith('beside-'));
    await works(startNode('a', { store, host: hostAt('192.0.2.1/24'), filter, sourceCheck }));
    expect(beside()).toEqual([]);
    await store.createResource(poolOf('v4', '10.65.0.0/16', { vxlanMode: 'Always' }), new AbortController().signal);
    await until(() => tables.has(TUNNEL_TABLE), 'the tunnel is filtered');
    expect(beside().toSorted()).toEqual([...rules].toSorted());
  },
);
