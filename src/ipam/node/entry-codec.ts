import { crc32 } from 'node:zlib';
import * as v from 'valibot';
import { tryParseJson } from '../../base/try-parse-json.ts';
import { formatCidr } from '../../net/cidr.ts';
import type { DatastoreId } from './datastore-id.ts';
import type { Entry } from './entry.ts';
import { ENTRY, HEADER } from './journal-shapes.ts';
import type { HolderOperation } from '../../model/slot-operation.ts';

/** Whose journal it is: the first line of every segment. */
export interface JournalHeader {
  readonly format: 2;
  /** Which datastore the entries belong to. */
  readonly datastore: DatastoreId;
  readonly node: string;
  /** Of the agent that wrote it; the ids of its pre-allocated addresses begin with it. */
  readonly run: string;
}

/** One line: checksum, blank, JSON. */
export function encodeLine(content: JournalHeader | Entry): string {
  const text = JSON.stringify('slots' in content ? { ...content, slots: content.slots.map(packSlot) } : content);
  return `${checksum(text)} ${text}\n`;
}

/** What can be read of a segment. */
export interface ReadSegment {
  /** Undefined when its line cannot be read. */
  readonly header: JournalHeader | undefined;
  readonly entries: readonly Entry[];
  /**
   * Lines that were written whole and cannot be read. An unfinished last line is none of them: the process ended while
   * it wrote the line, so it has returned nothing to the caller.
   */
  readonly damagedLines: number;
}

/**
 * Decodes every line that can be read: each entry is right by itself, because it names what the slot holds before. A line
 * with a right checksum that is no entry counts as damaged. Never throws.
 */
export function decodeSegment(bytes: string): ReadSegment {
  const lines = bytes.split('\n');
  const tail = lines.pop() ?? '';
  // More than a whole line without its end was never being written: the end itself is damaged.
  if (readLine(tail.slice(0, -1)) !== undefined) lines.push(tail);
  const [first, ...rest] = lines.map(readLine);
  const header = readHeader(first);
  const entries = rest.flatMap((line) => readEntry(line) ?? []);
  return { header, entries, damagedLines: rest.length - entries.length + (header === undefined ? 1 : 0) };
}

function readHeader(line: unknown): JournalHeader | undefined {
  const read = v.safeParse(HEADER, line);
  // The schema checks the fields; the compiler does not see the brands of those that stay as they are.
  return read.success ? (read.output as unknown as JournalHeader) : undefined;
}

function readEntry(line: unknown): Entry | undefined {
  const read = v.safeParse(ENTRY, line);
  // The same.
  return read.success ? (read.output as unknown as Entry) : undefined;
}

function packSlot(operation: HolderOperation): Omit<HolderOperation, 'block'> & { readonly block: string } {
  return { ...operation, block: formatCidr(operation.block) };
}

function readLine(line: string): unknown {
  const text = line.slice(9);
  return line.slice(0, 9) === `${checksum(text)} ` ? tryParseJson(text) : undefined;
}

function checksum(text: string): string {
  return crc32(text).toString(16).padStart(8, '0');
}
