import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { timeLimit } from '../../../base/clock.ts';
import { reasonOf } from '../../../base/errors.ts';
import { exec, type ExecResult } from '../../../base/exec.ts';
import { ownValue } from '../../../base/own-value.ts';
import type { FilterRule, HostFilter } from './host-filter.ts';
import { FILTERED_HOOKS } from './traffic.ts';

const LEGACY = [
  { family: 'ip', names: 'ip_tables_names', program: 'iptables-legacy' },
  { family: 'ip6', names: 'ip6_tables_names', program: 'ip6tables-legacy' },
] as const;
/** Another program may have the lock of iptables for so long. */
const LOCK_WAIT_S = '3';
const LIMIT_MS = 8000;

/** A table of legacy iptables that exists, and is not read. */
export interface UnreadTable {
  readonly family: 'ip' | 'ip6';
  readonly table: string;
  readonly reason: string;
}

export interface LegacyFilters {
  readonly filters: readonly HostFilter[];
  readonly unread: readonly UnreadTable[];
}

export interface LegacyPorts {
  readonly procDir: string;
  /** Runs a program; `exec` unless given. */
  readonly run?: (program: string, args: readonly string[], signal: AbortSignal) => Promise<ExecResult>;
}

/** Reads the filter chains of legacy iptables. A table that its program does not list in time is unread. */
export async function readLegacyFilters(ports: LegacyPorts, signal: AbortSignal): Promise<LegacyFilters> {
  const all = await Promise.all(LEGACY.map(async (kind) => readLegacy(kind, ports, signal)));
  return { filters: all.flatMap(({ filters }) => filters), unread: all.flatMap(({ unread }) => unread) };
}

async function readLegacy(
  { family, names, program }: (typeof LEGACY)[number],
  { procDir, run = async (file, args, over) => exec(file, args, { signal: over }) }: LegacyPorts,
  signal: AbortSignal,
): Promise<LegacyFilters> {
  // The program creates a table that it is asked to list, so look in /proc first.
  const tables = await readFile(join(procDir, 'net', names), 'utf8').catch(() => '');
  if (!tables.split('\n').includes('filter')) return { filters: [], unread: [] };
  const unread = (reason: string): LegacyFilters => ({ filters: [], unread: [{ family, table: 'filter', reason }] });
  using limit = timeLimit(LIMIT_MS);
  try {
    const asked = await run(program, ['-w', LOCK_WAIT_S, '-S'], AbortSignal.any([signal, limit.signal]));
    if (asked.status === 0) return { filters: readLegacyTable(family, asked.stdout), unread: [] };
    return unread(`${program} fails: ${asked.stderr.trim().split('\n')[0] ?? ''}`);
  } catch (cause) {
    signal.throwIfAborted();
    return unread(
      limit.signal.aborted ? `${program} did not answer in time` : `${program} cannot be run: ${reasonOf(cause)}`,
    );
  }
}

/** Parses the output of `iptables -S` for the table `filter`. */
export function readLegacyTable(family: 'ip' | 'ip6', text: string): readonly HostFilter[] {
  const lines = text.split('\n').map((line) => line.split(' '));
  const rules = new Map<string, FilterRule[]>();
  const dropping = new Set<string>();
  for (const [command, chain = '', ...words] of lines) {
    if (command === '-P' && words[0] === 'DROP') dropping.add(chain);
    if (command === '-N') rules.set(chain, rules.get(chain) ?? []);
    if (command === '-A') rules.set(chain, [...(rules.get(chain) ?? []), readLegacyRule(words)]);
  }
  return FILTERED_HOOKS.map((hook) => {
    const chain = hook.toUpperCase();
    const policy = dropping.has(chain) ? 'drop' : 'accept';
    return { family, table: 'filter', chain, hook, isLegacy: true, policy, rules: calledFrom(chain, rules) };
  });
}

function calledFrom(first: string, rules: ReadonlyMap<string, readonly FilterRule[]>): HostFilter['rules'] {
  const called = new Set([first]);
  for (const name of called)
    for (const { action } of rules.get(name) ?? [])
      if (action?.startsWith('>') === true) called.add(action.replace(/^>+/, ''));
  return Object.fromEntries([...called].map((name) => [name, rules.get(name) ?? []]));
}

/** Fields by option. Those of ports name ranges with a colon, several with commas. */
const FIELDS: Readonly<Record<string, string>> = {
  '-i': 'iifname',
  '-o': 'oifname',
  '-s': 'saddr',
  '-d': 'daddr',
  '-p': 'protocol',
  '--dport': 'dport',
  '--dports': 'dport',
  '--sport': 'sport',
  '--sports': 'sport',
  '--dst-type': 'daddrtype',
  '--ctstate': 'state',
  '--ctstatus': 'status',
  '--state': 'state',
};
const PROTOCOLS: Readonly<Record<string, string>> = {
  icmp: '1',
  ipencap: '4',
  tcp: '6',
  udp: '17',
  'ipv6-icmp': '58',
  sctp: '132',
};
/** Modules whose options are read. */
const MODULES: readonly unknown[] = ['addrtype', 'comment', 'conntrack', 'multiport', 'sctp', 'state', 'tcp', 'udp'];

function readLegacyRule(words: readonly string[]): FilterRule {
  const text = words.join(' ').replace(/--comment ("(\\.|[^"\\])*"|\S+) ?/, '');
  const [conditions = '', target] = text.split(/ ?-[jg] /);
  const isGoto = / ?-g /.test(text);
  // An option with its values, and what negates it.
  const options = conditions.match(/(! )?--?[\w-]+( (?!!|-)\S+)*/g) ?? [];
  const [name] = target?.split(' ') ?? [];
  return { matches: options.flatMap(matchOf), action: name === undefined ? undefined : actionNamed(name, isGoto) };
}

function matchOf(option: string): readonly string[] {
  const isNegated = option.startsWith('! ');
  const [name = '', value = ''] = option.slice(isNegated ? 2 : 0).split(' ');
  if (name === '-m') return MODULES.includes(value) ? [] : [value === 'set' ? '? a set of ipset' : '?'];
  if (name === '--match-set') return [];
  const field = ownValue(FIELDS, name);
  return [field === undefined ? '?' : `${isNegated ? '!' : ''}${field} ${valuesOf(field, value)}`];
}

function valuesOf(field: string, value: string): string {
  if (field === 'iifname' || field === 'oifname') return value.replace(/\+$/, '*');
  if (field === 'protocol') return ownValue(PROTOCOLS, value) ?? value;
  if (field === 'state' || field === 'daddrtype') return value.toLowerCase().replaceAll(',', ' ');
  return value.replaceAll(':', field.endsWith('port') ? '-' : ':').replaceAll(',', ' ');
}

function actionNamed(name: string, isGoto: boolean): FilterRule['action'] {
  if (name === 'ACCEPT') return 'accept';
  if (name === 'RETURN') return 'return';
  if (name === 'DROP' || name === 'REJECT') return 'drop';
  return isGoto ? `>>${name}` : `>${name}`;
}
