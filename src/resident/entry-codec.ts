import { crc32 } from 'node:zlib';
import { formatCidr, parseCidr } from '../net/cidr.ts';
import type { DatastoreId } from './datastore-id.ts';
import type { Entry } from './entry.ts';
import type { SlotChange } from './slot-change.ts';

/** Whose journal it is: the first line of every segment. */
export interface JournalHeader {
  readonly format: 2;
  /** Which datastore the entries belong to. */
  readonly datastore: DatastoreId;
  readonly node: string;
  /** Of the agent that wrote it; its stock ids begin with it. */
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
   * it wrote the line, so nobody was told that it stands.
   */
  readonly damagedLines: number;
}

/** Decodes every line that can be read: each entry is right by itself, because it names what the slot holds before. */
export function decodeSegment(bytes: string): ReadSegment {
  const [first, ...rest] = bytes.split('\n').slice(0, -1).map(readLine);
  const header = isHeader(first) ? first : undefined;
  const entries = rest.flatMap((line) => unpack(line) ?? []);
  return { header, entries, damagedLines: rest.length - entries.length + (header === undefined ? 1 : 0) };
}

function isHeader(line: unknown): line is JournalHeader {
  return typeof line === 'object' && line !== null && (line as Partial<JournalHeader>).format === 2;
}

type PackedSlot = Omit<SlotChange, 'block'> & { readonly block: string };
interface PackedEntry extends Omit<Entry, 'slots'> {
  readonly slots: readonly PackedSlot[];
}

function packSlot(change: SlotChange): PackedSlot {
  return { ...change, block: formatCidr(change.block) };
}

/** The entry of a line; undefined when the line could not be read. */
function unpack(line: unknown): Entry | undefined {
  if (typeof line !== 'object' || line === null || !('slots' in line)) return undefined;
  // Written by encodeLine and confirmed by its checksum.
  const { slots, ...rest } = line as PackedEntry;
  return { ...rest, slots: slots.map((slot) => ({ ...slot, block: parseCidr(slot.block) }) as SlotChange) };
}

function readLine(line: string): unknown {
  const text = line.slice(9);
  return line.slice(0, 9) === `${checksum(text)} ` ? JSON.parse(text) : undefined;
}

function checksum(text: string): string {
  return crc32(text).toString(16).padStart(8, '0');
}
