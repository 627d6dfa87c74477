import { crc32 } from 'node:zlib';
import * as v from 'valibot';
import { tryParseJson } from '../base/try-parse-json.ts';
import { formatCidr } from '../net/cidr.ts';
import type { Datastore } from '../netconf/connection.ts';
import type { Entry } from './entry.ts';
import { ENTRY, HEADER } from './journal-shapes.ts';
import type { SlotChange } from './slot-change.ts';

/** Whose journal it is: the first line of every segment. */
export interface JournalHeader {
  readonly format: 1;
  /** How to reach the datastore that the entries belong to. */
  readonly datastore: Datastore;
  readonly node: string;
  /** Of the agent that wrote it; its stock ids begin with it. */
  readonly run: string;
}

/** One line: checksum, blank, JSON. */
export function encodeLine(content: JournalHeader | Entry): string {
  const text = JSON.stringify('slots' in content ? { ...content, slots: content.slots.map(packSlot) } : content);
  return `${checksum(text)} ${text}\n`;
}

/**
 * What a segment says up to the first line that is torn, damaged or no entry; nothing after a torn line was ever
 * confirmed to anybody, because lines are synced in their order. Undefined without a header. Never throws.
 */
export function decodeSegment(
  bytes: string,
): { readonly header: JournalHeader; readonly entries: readonly Entry[]; readonly isTorn: boolean } | undefined {
  const lines = bytes.split('\n');
  const [first, ...rest] = lines.slice(0, -1);
  const header = v.safeParse(HEADER, first === undefined ? undefined : readLine(first));
  if (!header.success) return undefined;
  const entries: Entry[] = [];
  for (const line of rest) {
    const entry = v.safeParse(ENTRY, readLine(line));
    if (!entry.success) break;
    // The schema checks the fields of an entry; the compiler does not see those that stay although they are not known.
    entries.push(entry.output as unknown as Entry);
  }
  const isTorn = entries.length < rest.length || lines.at(-1) !== '';
  // The same for the header.
  return { header: header.output as unknown as JournalHeader, entries, isTorn };
}

function packSlot(change: SlotChange): Omit<SlotChange, 'block'> & { readonly block: string } {
  return { ...change, block: formatCidr(change.block) };
}

function readLine(line: string): unknown {
  const text = line.slice(9);
  if (line.slice(0, 9) !== `${checksum(text)} `) return undefined;
  return tryParseJson(text);
}

function checksum(text: string): string {
  return crc32(text).toString(16).padStart(8, '0');
}
