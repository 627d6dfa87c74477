import { NetplugError } from '../../../src/base/errors.ts';
import {
  type FilterChange,
  type ExpiringChange,
  type ExpiringElements,
  type FilterCount,
  type FilterHook,
  type FilterSet,
  type FilterTable,
  type LeftElements,
  type PolicyFilter,
  type TableRule,
  type PacketLog,
  PACKET_LOGS,
} from '../../../src/dataplane/policy-filter.ts';
import type { PacketHeaders } from '../../../src/dataplane/packet-headers.ts';
import type { PacketReport, PacketReports } from '../../../src/dataplane/packet-reports.ts';
import { formatAddress } from '../../../src/net/address.ts';
import { digestOfRules } from '../../../src/dataplane/rule-digest.ts';
import { type FilterPacket, type PacketJudgement, judgePacket } from './judge-packet.ts';

/** The tables of one host, which outlive the filters that write them. */
export type MemoryFilterTables = Map<string, FilterTable>;

/** A PolicyFilter in memory, which judges packets, with fault injection. */
export class MemoryPolicyFilter implements PolicyFilter, PacketReports, Disposable {
  readonly #tables: MemoryFilterTables;
  readonly #counts = new Map<string, Map<string, FilterCount>>();
  readonly #listeners = new Map<number, (report: PacketReport) => void>();
  readonly #refused = new Set<string>();
  readonly #refusedOwners = new Set<string>();
  readonly #missingLogs = new Set<PacketLog>();
  #isFailing = false;

  constructor(tables: MemoryFilterTables = new Map()) {
    this.#tables = tables;
  }

  /** Makes the next call that changes something fail. */
  failNext(): void {
    this.#isFailing = true;
  }

  /** Refuses every table with such an action, as a kernel without its module. */
  lackLog(kind: PacketLog): void {
    this.#missingLogs.add(kind);
  }

  async missingLogs(signal: AbortSignal): Promise<ReadonlySet<PacketLog>> {
    signal.throwIfAborted();
    return new Set(this.#missingLogs);
  }

  /** Refuses every table with a rule of the id, as a kernel that lacks something for it. */
  refuseRule(id: string): void {
    this.#refused.add(id);
  }

  /** Refuses every table in which a chain of the owner has several rules, as a kernel for which it is too large. */
  refuseOwner(owner: string): void {
    this.#refusedOwners.add(owner);
  }

  async apply(
    table: FilterTable,
    { signal }: { readonly signal: AbortSignal; readonly reread?: boolean },
  ): Promise<FilterChange> {
    signal.throwIfAborted();
    const rules = [...table.chains.values()].flatMap((chain) => chain.rules);
    const isRefused = ({ id, parts }: TableRule): boolean =>
      this.#refused.has(id) || parts.some(({ kind }) => isPacketLog(kind) && this.#missingLogs.has(kind));
    const rule = rules.find(isRefused)?.id;
    if (rule !== undefined)
      throw new NetplugError('kernel/failed', `Cannot change the nftables table "${table.name}": the rule is refused`, {
        facts: { rule },
      });
    const isLarge = (name: string): boolean => (table.chains.get(name)?.rules.length ?? 0) > 1;
    const [, owner] =
      [...(table.owners ?? [])].find(([name, of]) => this.#refusedOwners.has(of) && isLarge(name)) ?? [];
    if (owner !== undefined)
      throw new NetplugError('kernel/failed', `Cannot change the nftables table "${table.name}": EMSGSIZE`, {
        facts: { owner },
      });
    const before = this.#tables.get(table.name);
    const after = withExpiring(table, before);
    const change = changeBetween(before, after);
    if (change.chains + change.sets + change.elements > 0) this.#fail(table.name);
    this.#tables.set(table.name, after);
    return change;
  }

  async has(table: string, signal: AbortSignal): Promise<boolean> {
    signal.throwIfAborted();
    return this.#tables.has(table);
  }

  async create(table: FilterTable, signal: AbortSignal): Promise<boolean> {
    if (this.#tables.has(table.name)) return false;
    await this.apply(table, { signal });
    return true;
  }

  async extend(table: string, sets: ReadonlyMap<string, FilterSet>, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const present = this.#tables.get(table);
    if (present === undefined) return;
    const extended = [...present.sets].map(([name, set]) => [name, extendedBy(set, sets.get(name))] as const);
    this.#tables.set(table, { ...present, sets: new Map(extended) });
  }

  async expiring(table: string, signal: AbortSignal): Promise<ExpiringElements> {
    signal.throwIfAborted();
    const sets = [...(this.#tables.get(table)?.sets ?? [])].filter(([, { kind }]) => isExpiring(kind));
    return new Map(sets.map(([name, { elements }]) => [name, new Map([...elements.keys()].map((key) => [key, 1e6]))]));
  }

  async renew(table: string, { removed, added }: ExpiringChange, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const present = this.#tables.get(table);
    if (present === undefined) return;
    this.#fail(table);
    const sets = [...present.sets].map(([name, set]): [string, FilterSet] => {
      if (set.kind !== 'flows' && set.kind !== 'cut addresses') return [name, set];
      const gone = removed.get(name) ?? new Set<string>();
      const more = added.get(name) ?? new Map<string, number>();
      if ([...gone].some((text) => !set.elements.has(text)))
        throw new NetplugError('kernel/failed', `Cannot change what expires in the nftables table "${table}": ENOENT`);
      const left = [...set.elements].filter((text) => !gone.has(text));
      return [name, { ...set, elements: new Set([...left, ...more.keys()]) }] as const;
    });
    this.#tables.set(table, { ...present, sets: new Map(sets) });
  }

  async withdraw(table: string, { interfaces, addresses }: LeftElements, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const present = this.#tables.get(table);
    if (present === undefined) return;
    this.#fail(table);
    const isLeft = ({ kind }: FilterSet, text: string): boolean => {
      if (kind === 'interfaces') return interfaces.includes(text);
      const [address = ''] = text.split(' ');
      return ['addresses', 'services'].includes(kind) && addresses.map(formatAddress).includes(address);
    };
    const sets = [...present.sets].map(([name, set]) => [name, without(set, (text) => isLeft(set, text))] as const);
    this.#tables.set(table, { ...present, sets: new Map(sets) });
  }

  async ruleIds(table: string, signal: AbortSignal): Promise<ReadonlySet<string>> {
    signal.throwIfAborted();
    const chains = [...(this.#tables.get(table)?.chains.values() ?? [])];
    return new Set(chains.flatMap(({ rules }) => rules.map(({ id }) => id)));
  }

  async counts(table: string, signal: AbortSignal): Promise<readonly FilterCount[]> {
    signal.throwIfAborted();
    return [...(this.#counts.get(table)?.values() ?? [])];
  }

  async remove(table: string, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    this.#tables.delete(table);
    this.#counts.delete(table);
  }

  [Symbol.dispose](): void {
    // There is nothing to close.
  }

  watch(group: number, onReport: (report: PacketReport) => void): Disposable {
    if (this.#listeners.has(group))
      throw new NetplugError(
        'kernel/failed',
        `Cannot listen to reported packets: group ${String(group)} has a listener`,
      );
    this.#listeners.set(group, onReport);
    return { [Symbol.dispose]: () => void this.#listeners.delete(group) };
  }

  /** Sends a packet of so many bytes through the hook of every table. */
  judge(hook: FilterHook['hook'], packet: FilterPacket, bytes = 84n): PacketJudgement['verdict'] {
    for (const table of this.#tables.values()) {
      const { verdict, counted, reported } = judgePacket(table, hook, packet);
      const counts = this.#counts.get(table.name) ?? new Map<string, FilterCount>();
      this.#counts.set(table.name, counts);
      for (const { chain, id } of counted) {
        const key = `${chain} ${id}`;
        const before = counts.get(key) ?? { packets: 0n, bytes: 0n };
        counts.set(key, { chain, rule: id, packets: before.packets + 1n, bytes: before.bytes + bytes });
      }
      for (const { group, prefix } of reported)
        this.#listeners.get(group)?.({ kind: 'packet', prefix, headers: headersOf(packet) });
      if (verdict === 'drop') return 'drop';
    }
    return 'accept';
  }

  #fail(name: string): void {
    if (!this.#isFailing) return;
    this.#isFailing = false;
    throw new NetplugError('kernel/failed', `Cannot change the nftables table "${name}": a fault was injected`);
  }
}

function isPacketLog(kind: string): kind is PacketLog {
  return PACKET_LOGS.some((each) => each === kind);
}

function headersOf({ source, destination, protocol, ports, icmp }: FilterPacket): PacketHeaders {
  return {
    source,
    destination,
    protocol,
    ...(ports === undefined ? {} : { ports }),
    ...(icmp === undefined ? {} : { icmp }),
  };
}

function changeBetween(before: FilterTable | undefined, after: FilterTable): FilterChange {
  const [oldChains, oldSets] = [before?.chains ?? new Map(), before?.sets ?? new Map()];
  const isNewChain = (name: string): boolean => {
    const [old, chain] = [oldChains.get(name), after.chains.get(name)];
    return old === undefined || chain === undefined || digestOfRules(old.rules) !== digestOfRules(chain.rules);
  };
  const names = (a: ReadonlyMap<string, unknown>, b: ReadonlyMap<string, unknown>): string[] => [
    ...new Set([...a.keys(), ...b.keys()]),
  ];
  let elements = 0;
  for (const [name, set] of after.sets) elements += changedKeys(oldSets.get(name)?.elements ?? new Set(), set.elements);
  return {
    chains: names(oldChains, after.chains).filter(isNewChain).length,
    sets: names(oldSets, after.sets).filter((name) => oldSets.has(name) !== after.sets.has(name)).length,
    elements,
  };
}

/** Returns the table with the elements that a change leaves, because they are none of the desired state. */
function withExpiring(table: FilterTable, before: FilterTable | undefined): FilterTable {
  const sets = [...table.sets].map(([name, set]) => {
    const present = before?.sets.get(name);
    return [name, isExpiring(set.kind) && present?.kind === set.kind ? present : set] as const;
  });
  return { ...table, sets: new Map(sets) };
}

function extendedBy(set: FilterSet, more: FilterSet | undefined): FilterSet {
  if (set.kind === 'interfaces' || set.kind === 'translations')
    return more?.kind === set.kind ? { ...set, elements: new Map([...set.elements, ...more.elements]) } : set;
  return more?.kind === set.kind && 'family' in set && 'family' in more && more.family === set.family
    ? { ...set, elements: new Set([...set.elements, ...more.elements]) }
    : set;
}

function isExpiring(kind: FilterSet['kind']): boolean {
  return kind === 'flows' || kind === 'cut addresses';
}

function without(set: FilterSet, isLeft: (text: string) => boolean): FilterSet {
  if (set.kind === 'translations') return set;
  if (set.kind === 'interfaces')
    return { ...set, elements: new Map([...set.elements].filter(([text]) => !isLeft(text))) };
  return { ...set, elements: new Set([...set.elements].filter((text) => !isLeft(text))) };
}

type Elements = ReadonlySet<string> | ReadonlyMap<string, string>;

function changedKeys(before: Elements, after: Elements): number {
  const valueOf = (elements: Elements, key: string): string | undefined =>
    elements instanceof Map ? elements.get(key) : undefined;
  const added = [...after.keys()].filter((key) => !before.has(key) || valueOf(before, key) !== valueOf(after, key));
  return added.length + [...before.keys()].filter((key) => !after.has(key)).length;
}
