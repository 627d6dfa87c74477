import type { HostElement, HostRule, HostSet, HostTable, PacketTables } from '../../../dataplane/packet-tables.ts';
import { isOwnTable } from '../../packet-tables.ts';
import type { FilterRule, HostFilter } from './host-filter.ts';
import { readRule } from './read-rule.ts';
import { FILTERED_HOOKS, type FilteredHook } from './traffic.ts';

/** Numbers of types of sets. */
const TYPES = { ipv4: 7, ipv6: 8, protocol: 12, port: 13, state: 26, interface: 41, verdict: 0xffff_ff00 } as const;
/** A program may have as many addresses in a named set as it likes, and links, protocols and ports only as many as there are. */
const BOUNDED: readonly number[] = [TYPES.protocol, TYPES.port, TYPES.state, TYPES.interface];
const NFT_SET_ANONYMOUS = 1;
/** The number of a concatenation has those of its parts, each so much greater. */
const TYPES_PER_PART = 64;

/** What a filter consists of, read where it is needed: other programs may have a hundred thousand rules. */
export interface FilterSource extends Pick<PacketTables, 'elements'> {
  /** Tables with at least their base chains. */
  readonly tables: readonly Pick<HostTable, 'family' | 'name' | 'chains'>[];
  readonly rules: (table: TableName, chain: string, signal: AbortSignal) => Promise<readonly HostRule[]>;
  readonly sets: (table: TableName, signal: AbortSignal) => Promise<readonly HostSet[]>;
}

type TableName = Pick<HostTable, 'family' | 'name'>;

/** Returns a source of tables that have been listed whole. */
export function listedSource(tables: readonly HostTable[], reader: Pick<PacketTables, 'elements'>): FilterSource {
  const find = ({ family, name }: TableName): HostTable | undefined =>
    tables.find((table) => table.family === family && table.name === name);
  return {
    tables,
    rules: async (table, chain) => Promise.resolve(find(table)?.chains.find(({ name }) => name === chain)?.rules ?? []),
    sets: async (table) => Promise.resolve(find(table)?.sets ?? []),
    elements: async (table, set, signal) => reader.elements(table, set, signal),
  };
}

/** Returns a source that asks the kernel for what filters consist of, and for nothing else. */
export async function kernelSource(tables: PacketTables, signal: AbortSignal): Promise<FilterSource> {
  return {
    tables: await tables.listBaseChains(signal),
    rules: async (table, chain, over) => tables.rulesOf(table, chain, over),
    sets: async (table, over) => tables.setsOf(table, over),
    elements: async (table, set, over) => tables.elements(table, set, over),
  };
}

/** Returns the filters of all programs but netplug, whose own tables drop what policies deny. */
export async function readFilters(source: FilterSource, signal: AbortSignal): Promise<readonly HostFilter[]> {
  const filters: HostFilter[] = [];
  for (const table of source.tables) {
    const { family } = table;
    if (!isIpFamily(family) || isOwnTable(table)) continue;
    const bases = table.chains.flatMap(({ name, base }) =>
      base?.type === 'filter' && isFiltered(base.hook) ? [{ chain: name, hook: base.hook, policy: base.policy }] : [],
    );
    if (bases.length === 0) continue;
    const reading = new TableReading(table, await source.sets(table, signal), source);
    for (const base of bases)
      filters.push({
        family,
        table: table.name,
        ...base,
        isLegacy: false,
        rules: await reading.calledFrom(base.chain, signal),
      });
  }
  return filters;
}

function isIpFamily(family: string): family is HostFilter['family'] {
  return family === 'ip' || family === 'ip6' || family === 'inet';
}

function isFiltered(hook: string): hook is FilteredHook {
  return FILTERED_HOOKS.some((each) => each === hook);
}

class TableReading {
  readonly #table: TableName;
  readonly #source: FilterSource;
  readonly #sets: ReadonlyMap<string, HostSet>;
  readonly #elements = new Map<string, readonly HostElement[]>();
  readonly #chains = new Map<string, readonly FilterRule[]>();

  constructor(table: TableName, sets: readonly HostSet[], source: FilterSource) {
    this.#table = table;
    this.#source = source;
    this.#sets = new Map(sets.map((set) => [set.name, set]));
  }

  /** Returns the rules of the chain and of those that it calls. */
  async calledFrom(first: string, signal: AbortSignal): Promise<HostFilter['rules']> {
    const called = new Set([first]);
    for (const name of called)
      for (const { action } of await this.#rulesOf(name, signal))
        if (action?.startsWith('>') === true) called.add(action.replace(/^>+/, ''));
    return Object.fromEntries([...called].map((name) => [name, this.#chains.get(name) ?? []]));
  }

  async #rulesOf(chain: string, signal: AbortSignal): Promise<readonly FilterRule[]> {
    const known = this.#chains.get(chain);
    if (known !== undefined) return known;
    const listed = await this.#source.rules(this.#table, chain, signal);
    for (const { expressions } of listed)
      for (const { kind, set } of expressions) if (kind === 'lookup') await this.#readSet(String(set), signal);
    const reader = {
      family: this.#table.family,
      elementsOf: (set: string) => this.#elements.get(set),
      isConcatenated: (set: string) => (this.#sets.get(set)?.keyType ?? 0) >= TYPES_PER_PART,
    };
    const rules = listed.flatMap((rule) => readRule(rule, reader));
    this.#chains.set(chain, rules);
    return rules;
  }

  async #readSet(name: string, signal: AbortSignal): Promise<void> {
    const set = this.#sets.get(name);
    if (set === undefined || this.#elements.has(name) || !isRead(set)) return;
    const elements = await this.#source.elements(this.#table, set, signal);
    // Ranges of interfaces contain beginnings of names.
    if (set.keyType === TYPES.interface && elements.some(({ isEnd }) => isEnd === true)) return;
    this.#elements.set(name, elements);
  }
}

function isRead({ keyType, dataType = TYPES.verdict, flags }: HostSet): boolean {
  const isSmall = BOUNDED.includes(keyType) || (flags & NFT_SET_ANONYMOUS) !== 0;
  const isKnown = [...BOUNDED, TYPES.ipv4, TYPES.ipv6].includes(keyType);
  return isKnown && isSmall && dataType === TYPES.verdict;
}
