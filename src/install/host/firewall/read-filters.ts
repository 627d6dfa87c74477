import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ownValue } from '../../../base/own-value.ts';
import { exec } from '../../../base/exec.ts';
import type { HostElement, HostTable, PacketTables } from '../../../dataplane/packet-tables.ts';
import { isOwnTable } from '../../packet-tables.ts';
import type { FilterRule, ForwardFilter } from './host-filter.ts';
import { readRule } from './read-rule.ts';

/** Numbers of types of sets. */
const [INTERFACE_TYPE, VERDICT_TYPE] = [41, 0xffff_ff00];

const LEGACY = [
  { family: 'ip', names: 'ip_tables_names', program: 'iptables-legacy' },
  { family: 'ip6', names: 'ip6_tables_names', program: 'ip6tables-legacy' },
] as const;

/** Reads the filter chains of the forward hook of legacy iptables, if its program is there. */
export async function readLegacyFilters(procDir: string, signal: AbortSignal): Promise<readonly ForwardFilter[]> {
  return (await Promise.all(LEGACY.map(async (kind) => readLegacy({ ...kind, procDir }, signal)))).flat();
}

/** Returns the filter chains of the forward hook of all programs but netplug, whose own tables drop what policies deny. */
export async function readForwardFilters(
  tables: readonly HostTable[],
  reader: Pick<PacketTables, 'elements'>,
  signal: AbortSignal,
): Promise<readonly ForwardFilter[]> {
  const filters: ForwardFilter[] = [];
  for (const table of tables) {
    const { family } = table;
    if (!isIpFamily(family) || isOwnTable(table)) continue;
    const bases = table.chains.flatMap(({ name, base }) =>
      base?.type === 'filter' && base.hook === 'forward' ? [{ chain: name, policy: base.policy }] : [],
    );
    if (bases.length === 0) continue;
    const chains = readChains(table, await readMaps(table, reader, signal));
    for (const base of bases)
      filters.push({ family, table: table.name, ...base, isLegacy: false, rules: calledFrom(base.chain, chains) });
  }
  return filters;
}

function isIpFamily(family: string): family is ForwardFilter['family'] {
  return family === 'ip' || family === 'ip6' || family === 'inet';
}

/** Returns the elements of maps from interfaces to verdicts. */
async function readMaps(
  table: HostTable,
  reader: Pick<PacketTables, 'elements'>,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, readonly HostElement[]>> {
  const maps = new Map<string, readonly HostElement[]>();
  for (const set of table.sets) {
    if (set.dataType !== VERDICT_TYPE || set.keyType !== INTERFACE_TYPE) continue;
    const elements = await reader.elements(table, set, signal);
    // Ranges contain beginnings of names.
    if (!elements.some(({ isEnd }) => isEnd === true)) maps.set(set.name, elements);
  }
  return maps;
}

type Chains = ReadonlyMap<string, readonly FilterRule[]>;

function readChains({ family, chains }: HostTable, maps: ReadonlyMap<string, readonly HostElement[]>): Chains {
  const reader = { family, elementsOf: (map: string) => maps.get(map) };
  return new Map(chains.map(({ name, rules }) => [name, rules.flatMap((rule) => readRule(rule, reader))]));
}

/** Returns the chain and those that it calls. */
function calledFrom(first: string, chains: Chains): ForwardFilter['rules'] {
  const called = new Set([first]);
  for (const name of called)
    for (const { action } of chains.get(name) ?? []) if (action?.startsWith('>') === true) called.add(action.slice(1));
  return Object.fromEntries([...called].map((name) => [name, chains.get(name) ?? []]));
}

async function readLegacy(
  { family, names, program, procDir }: (typeof LEGACY)[number] & { readonly procDir: string },
  signal: AbortSignal,
): Promise<readonly ForwardFilter[]> {
  // The program creates a table that it is asked to list, so look in /proc first.
  const tables = await readFile(join(procDir, 'net', names), 'utf8').catch(() => '');
  if (!tables.split('\n').includes('filter')) return [];
  const text = await outputOf(program, ['-S'], signal);
  return text === undefined ? [] : [readLegacyTable(family, text)];
}

/** Parses the output of `iptables -S` for the table `filter`. */
export function readLegacyTable(family: 'ip' | 'ip6', text: string): ForwardFilter {
  const lines = text.split('\n').map((line) => line.split(' '));
  const rules = new Map<string, FilterRule[]>();
  let policy: ForwardFilter['policy'] = 'accept';
  for (const [command, chain = '', ...words] of lines) {
    if (command === '-P' && chain === 'FORWARD' && words[0] === 'DROP') policy = 'drop';
    if (command === '-N') rules.set(chain, rules.get(chain) ?? []);
    if (command === '-A') rules.set(chain, [...(rules.get(chain) ?? []), readLegacyRule(words)]);
  }
  return { family, table: 'filter', chain: 'FORWARD', isLegacy: true, policy, rules: Object.fromEntries(rules) };
}

const LEGACY_FIELDS: Readonly<Record<string, string>> = {
  '-i': 'iifname',
  '-o': 'oifname',
  '-s': 'saddr',
  '-d': 'daddr',
};

function readLegacyRule(words: readonly string[]): FilterRule {
  const text = words.join(' ').replace(/-m comment --comment ("[^"]*"|\S+) ?/, '');
  const [conditions = '', target] = text.split(/ ?-[jg] /);
  const parts = conditions === '' ? [] : conditions.split(' ');
  const matches: string[] = [];
  for (let at = 0; at < parts.length; at += 2) {
    const field = ownValue(LEGACY_FIELDS, parts[at] ?? '');
    matches.push(field === undefined ? '?' : `${field} ${(parts[at + 1] ?? '').replace(/\+$/, '*')}`);
  }
  const [name] = target?.split(' ') ?? [];
  return { matches, action: name === undefined ? undefined : actionNamed(name) };
}

function actionNamed(name: string): FilterRule['action'] {
  if (name === 'ACCEPT') return 'accept';
  if (name === 'RETURN') return 'return';
  if (name === 'DROP' || name === 'REJECT') return 'drop';
  return `>${name}`;
}

/** Returns undefined when the program is missing or fails. */
async function outputOf(program: string, args: readonly string[], signal: AbortSignal): Promise<string | undefined> {
  try {
    const { status, stdout } = await exec(program, args, { signal });
    return status === 0 ? stdout : undefined;
  } catch {
    signal.throwIfAborted();
    return undefined;
  }
}
