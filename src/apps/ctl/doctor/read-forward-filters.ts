import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ownValue } from '../../../base/own-value.ts';
import { exec } from '../../../base/exec.ts';
import type { FilterRule, ForwardFilter } from './forward-filter.ts';

type Json = Readonly<Record<string, unknown>>;

interface NftChain {
  readonly family: ForwardFilter['family'];
  readonly table: string;
  readonly name: string;
  readonly type?: string;
  readonly hook?: string;
  readonly policy?: string;
}

const LEGACY = [
  { family: 'ip', names: 'ip_tables_names', program: 'iptables-legacy' },
  { family: 'ip6', names: 'ip6_tables_names', program: 'ip6tables-legacy' },
] as const;

/** Reads the filter chains of the forward hook of the host, except those whose program is missing. */
export async function readForwardFilters(procDir: string, signal: AbortSignal): Promise<readonly ForwardFilter[]> {
  const legacy = LEGACY.map(async (kind) => readLegacy({ ...kind, procDir }, signal));
  return (await Promise.all([readNft(signal), ...legacy])).flat();
}

async function readNft(signal: AbortSignal): Promise<readonly ForwardFilter[]> {
  const chains = (await listNft(['chains'], signal)).flatMap(({ chain }) =>
    chain === undefined ? [] : [chain as NftChain],
  );
  const filtering = chains.filter(
    ({ family, type, hook }) => ['ip', 'ip6', 'inet'].includes(family) && type === 'filter' && hook === 'forward',
  );
  return Promise.all(
    filtering.map(async ({ family, table, name, policy }) => ({
      family,
      table,
      chain: name,
      isLegacy: false,
      policy: policy === 'drop' ? ('drop' as const) : ('accept' as const),
      rules: await readChains([family, table], name, signal),
    })),
  );
}

/** Returns the rules of the chain and of the chains that it calls. */
async function readChains(
  where: readonly [family: string, table: string],
  first: string,
  signal: AbortSignal,
): Promise<ForwardFilter['rules']> {
  const rules = new Map<string, readonly FilterRule[]>();
  for (const due = [first]; due.length > 0;) {
    const chain = due.pop() ?? first;
    if (rules.has(chain)) continue;
    const entries = await listNft(['chain', ...where, chain], signal);
    const read = entries.flatMap(({ rule }) =>
      rule === undefined ? [] : readNftRule(rule as { expr: readonly Json[] }),
    );
    rules.set(chain, read);
    due.push(...read.flatMap(({ action }) => (action?.startsWith('>') === true ? [action.slice(1)] : [])));
  }
  return Object.fromEntries(rules);
}

async function listNft(what: readonly string[], signal: AbortSignal): Promise<readonly Json[]> {
  const text = await outputOf('nft', ['-j', 'list', ...what], signal);
  // The format is described in libnftables-json(5).
  return text === undefined ? [] : (JSON.parse(text) as { nftables: readonly Json[] }).nftables;
}

export function readNftRule({ expr }: { readonly expr: readonly Json[] }): FilterRule {
  const matches: string[] = [];
  let action: FilterRule['action'];
  for (const statement of expr) {
    const [kind = '', value] = Object.entries(statement)[0] ?? [];
    if (kind === 'accept' || kind === 'return') action = kind;
    else if (kind === 'drop' || kind === 'reject') action = 'drop';
    else if (kind === 'jump' || kind === 'goto') action = `>${(value as { target: string }).target}`;
    else if (kind === 'match') matches.push(readMatch(value as Json));
    else if (!isHarmless(kind, value)) matches.push('?');
  }
  return { matches, action };
}

function isHarmless(kind: string, value: unknown): boolean {
  if (kind === 'counter' || kind === 'log') return true;
  return kind === 'xt' && (value as { name?: string }).name === 'comment';
}

function readMatch({ op, left, right }: Json): string {
  const { meta, payload } = left as { meta?: { key: string }; payload?: { field: string } };
  if (op !== '==') return '?';
  if (meta !== undefined && typeof right === 'string') return `${meta.key} ${right}`;
  const { prefix } = right as { prefix?: { addr: string; len: number } };
  return payload?.field === undefined || prefix === undefined
    ? '?'
    : `${payload.field} ${prefix.addr}/${String(prefix.len)}`;
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
