import { crc32 } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { datastoreIdOf } from './datastore-id.ts';
import type { Entry } from './entry.ts';
import { decodeSegment, encodeLine, type JournalHeader } from './entry-codec.ts';

const HEADER: JournalHeader = { format: 2, datastore: datastoreIdOf('kvv3', 'c1'), node: 'n1', run: 'run' };
const id = { node: 'n1' as never, namespace: 'shop', name: 'web' };
const ENTRY: Entry = { slots: [], endpoints: [{ kind: 'clear', id, containerId: 'c', network: 'net' }] };
const SEGMENT = encodeLine(HEADER) + encodeLine(ENTRY);

/** A line with a right checksum. */
function lineOf(text: string): string {
  return `${crc32(text).toString(16).padStart(8, '0')} ${text}\n`;
}

describe('a segment of a journal', () => {
  it('is read as it was written', () => {
    expect(decodeSegment(SEGMENT)).toEqual({ header: HEADER, entries: [ENTRY], damagedLines: 0 });
  });

  it('shows the damage of any single byte', () => {
    const whole = Buffer.from(SEGMENT + encodeLine(ENTRY));
    const unnoticed = [...whole.keys()].filter((at) =>
      [0x01, 0x20, 0x80].some((bits) => {
        const damaged = Buffer.from(whole);
        damaged.writeUInt8(whole.readUInt8(at) ^ bits, at);
        const { entries, damagedLines } = decodeSegment(damaged.toString('utf8'));
        return entries.length < 2 && damagedLines === 0;
      }),
    );
    expect(unnoticed).toEqual([]);
  });

  it('may end in a line that was not finished', () => {
    for (let length = 1; length < encodeLine(ENTRY).length; length += 1) {
      const { entries, damagedLines } = decodeSegment(SEGMENT + encodeLine(ENTRY).slice(0, length));
      expect([entries.length, damagedLines]).toEqual([1, 0]);
    }
  });

  it.each([
    ['no JSON', 'slots'],
    ['null', 'null'],
    ['an entry without slots', '{"endpoints":[]}'],
    [
      'a slot of no block',
      '{"slots":[{"kind":"free","block":"10.0.0.1/26","ordinal":0,"id":"a","handle":"h"}],"endpoints":[]}',
    ],
    ['a change of a kind that is not known', '{"slots":[{"kind":"lend"}],"endpoints":[]}'],
  ])('counts a line as damaged that has a right checksum and is %s, and reads the others', (_, text) => {
    const damaged = SEGMENT + lineOf(text) + encodeLine(ENTRY);
    expect(decodeSegment(damaged)).toEqual({ header: HEADER, entries: [ENTRY, ENTRY], damagedLines: 1 });
  });

  it.each(['null', '{"format":1}', '{"format":2}', '{"format":2,"node":"n1","run":"r","datastore":{}}'])(
    'has no header where that makes no sense: %s',
    (text) => {
      const read = decodeSegment(lineOf(text) + encodeLine(ENTRY));
      expect(read).toEqual({ header: undefined, entries: [ENTRY], damagedLines: 1 });
    },
  );
});
