import { crc32 } from 'node:zlib';
import * as v from 'valibot';
import { tryParseJson } from '../../base/try-parse-json.ts';
import { formatCidr } from '../../net/cidr.ts';
import type { DatastoreId } from './datastore-id.ts';
import type { Entry } from './entry.ts';
import { ENTRY, HEADER, NEWER_HEADER } from './journal-shapes.ts';
import type { HolderOperation } from '../../model/slot-operation.ts';

/** The owner of a journal: the first line of every segment. */
export interface JournalHeader {
  readonly format: 2;
  /** Datastore that the entries belong to. */
  readonly datastore: DatastoreId;
  readonly node: string;
  /** The run of the agent that wrote it; the ids of its pre-allocated addresses begin with it. */
  readonly run: string;
}

/** Encodes one line: checksum, blank, JSON. */
export function encodeLine(content: JournalHeader | Entry): string {
  const text = JSON.stringify('slots' in content ? { ...content, slots: content.slots.map(packSlot) } : content);
  return `${checksum(text)} ${text}\n`;
}

/** The readable part of a segment. */
export interface ReadSegment {
  /** Undefined when the header line is damaged. */
  readonly header: JournalHeader | undefined;
  readonly entries: readonly Entry[];
  /**
   * Complete lines that cannot be read. An unfinished last line does not count: the process exited while it wrote the
   * line, before it returned to the caller.
   */
  readonly damagedLines: number;
  /** Whether a newer release wrote it in a format that this one would misunderstand; then nothing of it is read. */
  readonly isNewer: boolean;
}

const NOTHING_READ = { header: undefined, entries: [], damagedLines: 0, isNewer: true } as const;

/**
 * Decodes every readable line. Each entry is valid on its own, because it names what the slot holds before. A line with a
 * valid checksum that is no entry counts as damaged. Never throws.
 */
export function decodeSegment(bytes: string): ReadSegment {
  const lines = bytes.split('\n');
  const tail = lines.pop() ?? '';
  // A complete line plus one character cannot be an unfinished write: its line end is damaged.
  if (readLine(tail.slice(0, -1)) !== undefined) lines.push(tail);
  const [first, ...rest] = lines.map(readLine);
  if (v.is(NEWER_HEADER, first)) return NOTHING_READ;
  const header = readHeader(first);
  const entries = rest.flatMap((line) => readEntry(line) ?? []);
  const damagedLines = rest.length - entries.length + (header === undefined ? 1 : 0);
  return { header, entries, damagedLines, isNewer: false };
}

function readHeader(line: unknown): JournalHeader | undefined {
  const read = v.safeParse(HEADER, line);
  // The schema checks the fields, and its type lacks their brands.
  return read.success ? (read.output as unknown as JournalHeader) : undefined;
}

function readEntry(line: unknown): Entry | undefined {
  const read = v.safeParse(ENTRY, line);
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
