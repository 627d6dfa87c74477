import { describe, expect, it } from 'vitest';
import { NftPolicyFilter } from '../../src/dataplane/linux/nft-policy-filter.ts';
import type { FilterChain, FilterMatch, FilterTable, TableRule } from '../../src/dataplane/policy-filter.ts';
import { RulesetCompiler } from '../../src/policy/ruleset/ruleset-compiler.ts';
import { policyFilterContract } from '../contract/suites/dataplane/policy-filter.ts';
import { type TestNetns, enterNetns, newNetns } from '../support/netns.ts';
import { globalPolicy, podOf } from '../support/policy-arbitraries.ts';
import { NODE, PolicyCluster } from '../support/policy-cluster.ts';
import { insideSync } from '../support/policy-host.ts';

policyFilterContract('linux', async () => {
  const scope = new AsyncDisposableStack();
  const host = scope.use(await newNetns());
  return {
    newFilter: () => {
      const inside = enterNetns(host);
      try {
        return scope.use(NftPolicyFilter.open());
      } finally {
        inside.leave();
      }
    },
    show: async (table) => shown(host, table),
    countRuleElements: async (table, chain) => {
      const listing = await host.exec('nft', 'list', 'chain', 'inet', table, chain);
      return [...listing.matchAll(/\{ ([^{}]+) \}/g)].flatMap(([, elements = '']) => elements.split(', ')).length;
    },
    removeTable: async (table) => {
      await host.exec('nft', 'delete', 'table', 'inet', table);
    },
    meddle: async (table, { chain, set, element }) => {
      await host.exec('nft', 'add', 'rule', 'inet', table, chain, 'counter');
      await host.exec('nft', 'delete', 'element', 'inet', table, set, `{ ${element} }`);
      await host.exec('nft', 'add', 'chain', 'inet', table, 'foreign');
    },
    [Symbol.asyncDispose]: async () => scope.disposeAsync(),
  };
});

const NETS = ['10.0.0.0/8', '172.16.0.0/12'];
const ODD_PORTS = Array.from({ length: 32_768 }, (_, index) => 2 * index + 1);
const namesOf = (count: number): string[] => Array.from({ length: count }, (_, index) => `p${String(index)}`);
/** Every condition that one rule may have. */
const EVERY_CONDITION = {
  nets: NETS,
  notNets: NETS.map((net) => net.replace('.0.0', '.9.0').replace(/\d+$/, '24')),
  selector: "kind == 'set'",
  notSelector: "kind == 'set'",
  ports: ['1:10', '20:30'],
  notPorts: [5, 7, ...namesOf(8)],
};

it.each([
  ['excluded names', { action: 'Log', notProtocol: 'UDP', source: EVERY_CONDITION, destination: EVERY_CONDITION }],
  ['names at both ends', { source: { ports: namesOf(22) }, destination: { ports: namesOf(23) } }],
  ['ports', { source: { nets: NETS }, destination: { ports: ODD_PORTS } }],
])('the kernel accepts the largest rule that policies may have: %s', async (_, rule) => {
  const cluster = new PolicyCluster();
  cluster.putNamespace('x');
  cluster.putPod(podOf({ namespace: 'x', ordinal: 1, role: 'a', isLocal: true }));
  cluster.put({
    apiVersion: 'netplug.io/v3',
    kind: 'GlobalNetworkSet',
    metadata: { name: 's', labels: { kind: 'set' } },
    spec: { nets: ['192.0.2.0/24', '192.0.3.1/32'] },
  });
  cluster.put(globalPolicy('g', {}, { ingress: [{ action: 'Allow', protocol: 'TCP', ...rule }] }));
  expect([...cluster.state.problems.values()]).toEqual([]);
  const settings = { node: NODE, logPrefix: 'netplug-packet', endpointToHostAction: 'Accept' } as const;
  const { table } = new RulesetCompiler(settings).compile(cluster.state);
  await using host = await newNetns();
  const inside = enterNetns(host);
  using filter = NftPolicyFilter.open();
  inside.leave();
  const { signal } = new AbortController();
  expect((await filter.apply(table, { signal })).chains).toBe(table.chains.size);
  expect(await filter.apply(table, { signal, reread: true })).toEqual({ chains: 0, sets: 0, elements: 0 });
});

type Listed = Readonly<Record<'chain' | 'rule' | 'set' | 'map', Record<string, unknown> | undefined>>;

/** Returns rules by chain, and sets with sorted elements, as nft lists them. */
async function shown(host: TestNetns, table: string): Promise<unknown> {
  const listing = await host.exec('nft', '-j', 'list', 'table', 'inet', table).catch(() => undefined);
  if (listing === undefined) return undefined;
  const { nftables } = JSON.parse(listing) as { nftables: readonly Listed[] };
  const chains: Record<string, unknown[]> = {};
  const sets: Record<string, unknown> = {};
  for (const { chain, rule, set, map } of nftables) {
    if (chain !== undefined) chains[String(chain['name'])] = [[chain['hook'], chain['prio'], chain['policy']]];
    if (rule !== undefined) chains[String(rule['chain'])]?.push([rule['comment'], rule['expr']]);
    const { name, type, flags, elem = [] } = set ?? map ?? {};
    if (typeof name === 'string')
      sets[name] = { type, flags, elem: (elem as unknown[]).map((one) => JSON.stringify(one)).toSorted() };
  }
  return JSON.parse(
    JSON.stringify({ chains, sets }, (key, value: unknown) => (key === 'packets' || key === 'bytes' ? 0 : value)),
  );
}

it('names the rule that the kernel refuses, and leaves the table as it was', async () => {
  await using netns = await newNetns();
  const inside = enterNetns(netns);
  using filter = NftPolicyFilter.open();
  inside.leave();
  const signal = new AbortController().signal;
  const tableWith = (matches: number): FilterTable => {
    const match = { kind: 'protocol', protocols: [6] } as const;
    const parts = [...Array.from({ length: matches }, () => match), { kind: 'count' } as const];
    const rules = [
      { id: 'small', parts: [match] },
      { id: 'large', parts },
    ];
    return { name: 'wanted', chains: new Map([['a', { rules }]]), sets: new Map() };
  };
  await filter.apply(tableWith(1), { signal });
  const before = await netns.exec('nft', 'list', 'table', 'inet', 'wanted');
  // The kernel takes 128 steps per rule.
  await expect(filter.apply(tableWith(200), { signal })).rejects.toMatchObject({
    facts: { rule: 'large' },
    hint: expect.stringContaining('nf_tables'),
  });
  expect(await netns.exec('nft', 'list', 'table', 'inet', 'wanted')).toBe(before);
});

it('finds what another program changes in a large set, also when it has compared the set before', async () => {
  await using host = await newNetns();
  using filter = insideSync(host, () => NftPolicyFilter.open());
  const elements = Array.from({ length: 3000 }, (_, at) => `10.${String(at >> 8)}.${String(at & 255)}.16/28`);
  const tableOf = (count: number): FilterTable => ({
    name: 'netplug-large',
    chains: new Map(),
    sets: new Map([['large', { kind: 'nets', family: 4, elements: new Set(elements.slice(0, count)) }]]),
  });
  const signal = AbortSignal.timeout(60_000);
  const [table, larger] = [tableOf(2000), tableOf(3000)];
  const restored = async (wanted: FilterTable): Promise<number> =>
    (await filter.apply(wanted, { signal, reread: true })).elements;
  const meddle = async (verb: 'add' | 'delete', element: string): Promise<string> =>
    host.exec('nft', verb, 'element', 'inet', 'netplug-large', 'large', `{ ${element} }`);
  await filter.apply(table, { signal });
  expect([await restored(table), await restored(table)]).toEqual([0, 0]);
  await meddle('delete', '10.3.0.16/28');
  expect([await restored(table), await restored(table)]).toEqual([1, 0]);
  await meddle('add', '192.0.2.0/24');
  expect([await restored(larger), await restored(larger), await restored(table)]).toEqual([1001, 0, 1000]);
});

it('answers readings while a table is written over the same socket', async () => {
  await using netns = await newNetns();
  const inside = enterNetns(netns);
  using filter = NftPolicyFilter.open();
  inside.leave();
  const signal = new AbortController().signal;
  const rules = Array.from({ length: 200 }, (_, at) => ({ id: `r${at}`, parts: [{ kind: 'count' } as const] }));
  const tableOf = (count: number): FilterTable => {
    const chains = new Map([
      ['a', { rules }],
      ['b', { rules: rules.slice(0, count) }],
    ]);
    return { name: 'wanted', chains, sets: new Map() };
  };
  const ids = new Set(rules.map(({ id }) => id));
  await filter.apply(tableOf(0), { signal });
  for (let round = 1; round <= 20; round += 1) {
    const written = filter.apply(tableOf(round), { signal, reread: true });
    const read = await Promise.all(Array.from({ length: 4 }, async () => filter.ruleIds('wanted', signal)));
    expect(read).toEqual([ids, ids, ids, ids]);
    await written;
  }
});

it('makes a table anew that has objects of another kind, definition or owner, and adopts an empty one', async () => {
  await using netns = await newNetns();
  const inside = enterNetns(netns);
  using filter = NftPolicyFilter.open();
  inside.leave();
  const signal = new AbortController().signal;
  const table: FilterTable = {
    name: 'wanted',
    chains: new Map([['postrouting', { hook: { type: 'nat', hook: 'postrouting', priority: 100 }, rules: [] }]]),
    sets: new Map([
      ['addresses', { kind: 'translations', family: 4, by: 'one', elements: new Map([['192.0.2.1', '192.0.2.2']]) }],
    ]),
  };
  const show = async (): Promise<string> => netns.exec('nft', 'list', 'ruleset');
  await filter.apply(table, { signal });
  const wanted = await show();
  const chain = (text: string): string => `chain postrouting { ${text}\n}`;
  for (const other of [
    '',
    chain('type nat hook postrouting priority 7;'),
    chain('type filter hook postrouting priority 100;'),
    chain('type nat hook postrouting priority 100; policy drop;'),
    chain('masquerade'),
    `map addresses { type ipv4_addr : verdict; elements = { 192.0.2.1 : accept }; }
      chain foreign { type filter hook forward priority 7; ip saddr vmap @addresses;\n}`,
    'map addresses { type ipv4_addr : inet_service; }',
    'set addresses { type ipv4_addr; flags interval; elements = { 192.0.2.0/24 }; }',
    'flags dormant;',
    `flags dormant;\n${wanted.slice(wanted.indexOf('{') + 1, wanted.lastIndexOf('}'))}`,
    'set addresses { type ipv4_addr; } \nchain foreign { ip saddr @addresses drop;\n}',
  ]) {
    await netns.exec('nft', 'flush', 'ruleset');
    await netns.exec('nft', `table inet wanted {\n${other}\n}`);
    await filter.apply(table, { signal, reread: true });
    expect([other, await show()]).toEqual([other, wanted]);
  }
});

describe('a table that is too large for one transaction', () => {
  const HOOK = { type: 'filter', hook: 'forward', priority: 0 } as const;
  const spans = Array.from({ length: 8000 }, (_, index) => ({ first: 2 * index + 1, last: 2 * index + 1 }));
  const large = (name: string, ...more: readonly FilterMatch[]): TableRule => ({
    id: name,
    parts: [{ kind: 'protocol', protocols: [6] }, { kind: 'ports', side: 'source', spans }, ...more, { kind: 'drop' }],
  });
  /** Each name has a chain and a set of its own; a refused one has a rule that the kernel never takes. */
  const tableOf = (names: readonly string[], refused?: string): FilterTable => {
    const tooMany = Array.from({ length: 200 }, () => ({ kind: 'protocol', protocols: [6] }) as const);
    const element = (name: string): string => `10.65.0.${String(name.length)}`;
    return {
      name: 'wanted',
      chains: new Map<string, FilterChain>([
        [
          'forward',
          { hook: HOOK, rules: names.map((name) => ({ id: 'jump', parts: [{ kind: 'jump', chain: name }] })) },
        ],
        ...names.map((name): [string, FilterChain] => [
          name,
          { rules: [large(name, ...(name === refused ? tooMany : []))] },
        ]),
      ]),
      sets: new Map(
        names.map((name) => [`set-${name}`, { kind: 'addresses', family: 4, elements: new Set([element(name)]) }]),
      ),
      owners: new Map(names.flatMap((name) => [name, `set-${name}`].map((each) => [each, `policy ${name}`]))),
    };
  };
  const NAMES = ['a', 'ab', 'abc', 'abcd'];
  const signal = new AbortController().signal;

  it('is the same as one that was written at once', async () => {
    await using netns = await newNetns();
    await using other = await newNetns();
    using filter = insideSync(netns, () => NftPolicyFilter.open());
    using single = insideSync(other, () => NftPolicyFilter.open());
    for (const names of [NAMES, NAMES.slice(0, 1), NAMES]) {
      expect(await filter.apply(tableOf(names), { signal })).not.toEqual({ chains: 0, sets: 0, elements: 0 });
      for (let count = 1; count <= names.length; count += 1)
        await single.apply(tableOf(names.slice(0, count)), { signal });
      expect(await shown(netns, 'wanted')).toEqual(await shown(other, 'wanted'));
      expect(await filter.apply(tableOf(names), { signal, reread: true })).toEqual({ chains: 0, sets: 0, elements: 0 });
    }
  });

  it('names the owner of what the kernel refuses, and until it is gone packets meet what they met before', async () => {
    await using netns = await newNetns();
    using filter = insideSync(netns, () => NftPolicyFilter.open());
    await filter.apply(tableOf(['a']), { signal });
    const before = await netns.exec('nft', 'list', 'table', 'inet', 'wanted');
    await expect(filter.apply(tableOf(NAMES, 'abc'), { signal })).rejects.toMatchObject({
      facts: { owner: 'policy abc', rule: 'abc' },
    });
    expect(await netns.exec('nft', 'list', 'table', 'inet', 'wanted')).toBe(before);
    await filter.apply(tableOf(['a', 'ab', 'abcd']), { signal });
    await using other = await newNetns();
    using fresh = insideSync(other, () => NftPolicyFilter.open());
    await fresh.apply(tableOf(['a', 'ab', 'abcd']), { signal });
    expect(await shown(netns, 'wanted')).toEqual(await shown(other, 'wanted'));
  });
});
