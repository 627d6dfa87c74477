import { crc32 } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { preallocate } from '../../../test/support/block-edits.ts';
import { emptyBlock } from '../../model/ip-block.ts';
import { applyOperations } from '../../model/slot-operation.ts';
import { parseCidr, sameCidr } from '../../net/cidr.ts';
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
    expect(decodeSegment(SEGMENT)).toEqual({ header: HEADER, entries: [ENTRY], damagedLines: 0, isNewer: false });
  });

  it('is read when the first release has written it, and applies to a block', () => {
    const at = { network: 'net', containerId: 'c1', ifName: 'eth0' };
    const handle = 'c1/eth0/net';
    const allocation = {
      id: 'a1',
      handle,
      node: 'n1',
      ...at,
      namespace: 'shop',
      pod: 'web',
      at: '2026-11-22T00:00:00.000Z',
      chosenBy: 'node-selector',
    };
    const text = JSON.stringify(allocation);
    const segment = [
      '13d9b9d4 {"format":2,"datastore":"kvv3:c1","node":"n1","run":"m-b-1"}',
      `ec1d5c1a {"slots":[{"kind":"take","block":"10.0.0.0/26","ordinal":3,"from":"m-b-1#7","allocation":${text}},{"kind":"take","block":"fd00::/122","ordinal":9,"allocation":${text}}],"endpoints":[]}`,
      '7215b4ea {"slots":[{"kind":"free","block":"10.0.0.0/26","ordinal":3,"id":"a1","handle":"c1/eth0/net"}],"endpoints":[{"kind":"clear","id":{"node":"n1","namespace":"shop","name":"web"},"containerId":"c1","network":"net"}]}',
    ];
    const { header, entries, damagedLines } = decodeSegment(`${segment.join('\n')}\n`);
    expect({ header, damagedLines }).toEqual({ header: { ...HEADER, run: 'm-b-1' }, damagedLines: 0 });
    const block = parseCidr('10.0.0.0/26');
    const [first, second] = entries.map(({ slots }) => slots.filter((slot) => sameCidr(slot.block, block)));
    const offered = preallocate(emptyBlock(block, 'n1' as never), new Map([[3, 'm-b-1#7']]));
    const taken = applyOperations(offered, first!);
    expect(taken?.slots.get(3)).toEqual(allocation);
    expect(applyOperations(taken!, second!)?.queue.at(-1)).toBe(3);
    expect(entries[0]!.slots[1]).toEqual({ kind: 'take', block: parseCidr('fd00::/122'), ordinal: 9, allocation });
    expect(entries[1]!.endpoints).toEqual([{ kind: 'clear', id, containerId: 'c1', network: 'net' }]);
  });

  it('is left when a newer release has written it, whatever its entries look like', () => {
    const newer = lineOf('{"format":3,"shards":2}') + encodeLine(ENTRY) + lineOf('{"slots":7}');
    const { header, entries, damagedLines, isNewer } = decodeSegment(newer);
    expect({ header, entries, damagedLines, isNewer }).toEqual({
      header: undefined,
      entries: [],
      damagedLines: 0,
      isNewer: true,
    });
  });

  it.each(['0', '2.5', '"3"', 'null'])('is damaged when its format is %s', (format) => {
    const { damagedLines, isNewer } = decodeSegment(lineOf(`{"format":${format}}`));
    expect({ damagedLines, isNewer }).toEqual({ damagedLines: 1, isNewer: false });
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
    expect(decodeSegment(damaged)).toMatchObject({ header: HEADER, entries: [ENTRY, ENTRY], damagedLines: 1 });
  });

  it.each(['null', '{"format":1}', '{"format":2}', '{"format":2,"node":"n1","run":"r","datastore":{}}'])(
    'has no header where that makes no sense: %s',
    (text) => {
      const read = decodeSegment(lineOf(text) + encodeLine(ENTRY));
      expect(read).toEqual({ header: undefined, entries: [ENTRY], damagedLines: 1, isNewer: false });
    },
  );
});
