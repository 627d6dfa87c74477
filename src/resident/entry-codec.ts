import { crc32 } from 'node:zlib';
import { formatCidr, parseCidr } from '../net/cidr.ts';
import type { Datastore } from '../netconf/connection.ts';
import type { Entry } from './entry.ts';
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
 * What a segment says up to the first line that is torn or damaged; nothing after that was ever confirmed to anybody,
 * because lines are synced in their order. Undefined without a header.
 */
export function decodeSegment(
  bytes: string,
): { readonly header: JournalHeader; readonly entries: readonly Entry[]; readonly isTorn: boolean } | undefined {
  const lines = bytes.split('\n');
  const whole = lines.slice(0, -1).map(readLine);
  const end = whole.indexOf(undefined);
  const [header, ...entries] = end === -1 ? whole : whole.slice(0, end);
  if (header === undefined || (header as Partial<JournalHeader>).format !== 1) return undefined;
  return {
    // Written by encodeLine and confirmed by its checksum.
    header: header as JournalHeader,
    entries: entries.map((entry) => unpack(entry as PackedEntry)),
    isTorn: end !== -1 || lines.at(-1) !== '',
  };
}

type PackedSlot = Omit<SlotChange, 'block'> & { readonly block: string };
interface PackedEntry extends Omit<Entry, 'slots'> {
  readonly slots: readonly PackedSlot[];
}

function packSlot(change: SlotChange): PackedSlot {
  return { ...change, block: formatCidr(change.block) };
}

function unpack({ slots, ...rest }: PackedEntry): Entry {
  // The same object with its CIDR as a value again.
  return { ...rest, slots: slots.map((slot) => ({ ...slot, block: parseCidr(slot.block) }) as SlotChange) };
}

function readLine(line: string): unknown {
  const text = line.slice(9);
  if (line.slice(0, 9) !== `${checksum(text)} `) return undefined;
  return JSON.parse(text);
}

function checksum(text: string): string {
  return crc32(text).toString(16).padStart(8, '0');
}
