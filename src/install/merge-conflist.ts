import { isDeepStrictEqual } from 'node:util';
import { sha256Of } from '../base/sha256.ts';
import { tryParseJson } from '../base/try-parse-json.ts';
import { CHAINED_TYPES } from '../config/lint-chain.ts';
import { isFlag, isNetplugEntry, LIST_KEYS, VERB_FLAGS } from '../config/lint-conflist.ts';
import { isRecord } from '../model/read-schema.ts';
import { isProgramName } from './program-name.ts';
import type { RecordedFile } from './record.ts';

type Entry = Readonly<Record<string, unknown>>;

/** An installed conflist, beside the one that netplug renders. */
export interface MergedConflist {
  /** What to install: the entries and keys of netplug as rendered, and what other programs have added. */
  readonly text: string;
  /** Whether the installed list says the same already, in whatever spelling. */
  readonly isInstalled: boolean;
  /** Types of the entries of other programs, in their order. */
  readonly others: readonly string[];
}

/**
 * Returns the conflist to install over the installed text. Programs such as a service mesh add an entry to `plugins`: it
 * stays, in its place where the list can be called like this, else behind the entries of netplug. An entry belongs to netplug
 * when it is rendered, when the record has it, or when its type is one that only netplug puts there. `disableCheck` and
 * `disableGC` stay as well: administrators set them. Of a list without netplug nothing is kept, and nothing of the types of
 * `leftOut`. `rendered` is a list. Pure.
 */
export function mergeConflist(
  rendered: string,
  installed: string | undefined,
  { record, leftOut = [] }: { readonly record: readonly RecordedFile[]; readonly leftOut?: readonly string[] },
): MergedConflist {
  const own = tryParseJson(rendered);
  const found = tryParseJson(installed ?? '');
  if (!isRecord(own) || !isRecord(found) || !entriesOf(found).some(isNetplugEntry))
    return { text: rendered, isInstalled: false, others: [] };
  const ownEntries = entriesOf(own);
  const entries = entriesOf(found);
  const others = othersIn(entries, { ownEntries, recorded: digestsIn(installed ?? '', record) }).filter(
    ({ type }) => !leftOut.includes(String(type)),
  );
  const keys = Object.entries(found).filter(([key, value]) => !Object.hasOwn(own, key) && isOfOthers(key, value));
  const list = { ...own, ...Object.fromEntries(keys), plugins: inPlace(entries, { ownEntries, others }) };
  const isInstalled = isDeepStrictEqual(list, found);
  const isOwnAlone = others.length === 0 && keys.length === 0;
  return {
    text: isOwnAlone ? rendered : `${JSON.stringify(list, undefined, 2)}\n`,
    isInstalled,
    others: others.map(({ type }) => String(type)),
  };
}

/** An installed conflist, beside what the record says about it. */
export interface InspectedConflist {
  /** Whether every entry of netplug is one of the record. */
  readonly isUnchanged: boolean;
  /** Types of the entries of other programs. */
  readonly others: readonly string[];
}

/** Compares an installed conflist with the record; other programs may have added entries to it. Pure. */
export function inspectConflist(installed: string, record: readonly RecordedFile[]): InspectedConflist {
  const recorded = digestsIn(installed, record);
  const entries = entriesOf(tryParseJson(installed));
  const own = entries.filter(isOfOwnType);
  const others = othersIn(entries, { ownEntries: [], recorded });
  return {
    isUnchanged: own.length > 0 && own.every((entry) => recorded.has(digestOf(entry))),
    others: others.map(({ type }) => String(type)),
  };
}

/** Returns the digests of the entries of a conflist, for the record. */
export function entryDigests(conflist: string): readonly string[] {
  const list = tryParseJson(conflist);
  return isRecord(list) ? entriesOf(list).map(digestOf) : [];
}

interface Ownership {
  readonly ownEntries: readonly Entry[];
  /** Digests of the entries that the record has. */
  readonly recorded: ReadonlySet<string>;
}

/** Returns the entries of other programs. What no runtime could call is left out: it would fail the whole list. */
function othersIn(entries: readonly Entry[], { ownEntries, recorded }: Ownership): readonly Entry[] {
  const ownDigests = new Set(ownEntries.map(digestOf));
  const known = recorded.union(ownDigests);
  const present = new Set(entries.map(digestOf));
  // Changed by another program: in the record, and in the list in another form.
  const changed = ownEntries.filter((entry) => recorded.has(digestOf(entry)) && !present.has(digestOf(entry)));
  return entries.filter((entry) => {
    const { type } = entry;
    if (!isProgramName(type) || !hasReadableCapabilities(entry) || isOfOwnType(entry) || known.has(digestOf(entry)))
      return false;
    const form = changed.findIndex((each) => each['type'] === type);
    if (form !== -1) changed.splice(form, 1);
    return form === -1;
  });
}

/** Runtimes read whether the entry wants each capability, and refuse a list in which they cannot. */
function hasReadableCapabilities({ capabilities }: Entry): boolean {
  if (capabilities === undefined || capabilities === null) return true;
  return isRecord(capabilities) && Object.values(capabilities).every((value) => typeof value === 'boolean');
}

/** Keeps the order of the installed list if all entries of netplug are there in theirs, and one of them is the first. */
function inPlace(
  found: readonly Entry[],
  { ownEntries, others }: { readonly ownEntries: readonly Entry[]; readonly others: readonly Entry[] },
): readonly Entry[] {
  const kept = found.filter(
    (entry) => others.includes(entry) || ownEntries.some((own) => isDeepStrictEqual(own, entry)),
  );
  const ownInOrder = kept.filter((entry) => !others.includes(entry));
  const isUsable = isDeepStrictEqual(ownInOrder, ownEntries) && isDeepStrictEqual(kept[0], ownEntries[0]);
  return isUsable ? kept : [...ownEntries, ...others];
}

/** A whole file that is recorded without its entries was written by an earlier release, which put nothing else there. */
function digestsIn(installed: string, record: readonly RecordedFile[]): ReadonlySet<string> {
  const isWhole = record.some(({ sha256, entries }) => entries === undefined && sha256 === sha256Of(installed));
  return new Set([...record.flatMap(({ entries = [] }) => entries), ...(isWhole ? entryDigests(installed) : [])]);
}

/** Another program has no reason to put these into a list of netplug; without an entry, the feature is meant to be off. */
function isOfOwnType(entry: Entry): boolean {
  return isNetplugEntry(entry) || CHAINED_TYPES.includes(String(entry['type']));
}

/** Reports whether a key of the list stays that netplug does not render. A flag that no runtime can read would fail the list. */
function isOfOthers(key: string, value: unknown): boolean {
  return VERB_FLAGS.includes(key) ? isFlag(value) : !LIST_KEYS.includes(key);
}

function entriesOf(list: unknown): readonly Entry[] {
  const plugins = isRecord(list) ? list['plugins'] : undefined;
  return Array.isArray(plugins) ? plugins.filter(isRecord) : [];
}

/** Does not depend on the order of keys, which programs change when they write a file again. */
function digestOf(entry: Entry): string {
  return sha256Of(JSON.stringify(entry, (_, value: unknown) => (isRecord(value) ? sorted(value) : value)));
}

function sorted(value: Entry): Entry {
  return Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}
