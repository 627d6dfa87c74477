import { NftPolicyFilter } from '../../src/dataplane/linux/nft-policy-filter.ts';
import { policyFilterContract } from '../contract/suites/dataplane/policy-filter.ts';
import { type TestNetns, enterNetns, newNetns } from '../support/netns.ts';

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
