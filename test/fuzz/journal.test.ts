import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import * as fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { idOf, type Entry } from '../../src/ipam/node/entry.ts';
import { decodeSegment, encodeLine, type JournalHeader } from '../../src/ipam/node/entry-codec.ts';
import { attachmentsInJournals, readJournal, takeOverJournal } from '../../src/ipam/node/orphaned-journals.ts';
import { datastoreIdOf } from '../../src/ipam/node/datastore-id.ts';
import { segmentName } from '../../src/ipam/node/segment-name.ts';
import { applyOperations, handleIn, type HolderOperation } from '../../src/model/slot-operation.ts';
import { endpointIdOf } from '../../src/model/workload-endpoint.ts';
import { isRecord } from '../../src/model/read-schema.ts';
import { formatCidr, parseCidr, sameCidr } from '../../src/net/cidr.ts';
import { fuzz, HANG_MS, mustEqual } from './driver.ts';
import { applyCut, cuts, jsonMutants } from './mutants.ts';
import { allocationOf, ENDPOINT, sampleBlocks } from './samples.ts';

const HEADER: JournalHeader = { format: 2, datastore: datastoreIdOf('kvv3', 'c1'), node: 'n1', run: 'run-1' };
const BLOCK = sampleBlocks()[1]!;

const change: fc.Arbitrary<HolderOperation> = fc
  .record({
    isTake: fc.boolean(),
    block: fc.constantFrom('10.0.0.0/26', 'fd00::/122').map((cidr) => parseCidr(cidr)),
    ordinal: fc.nat({ max: 63 }),
    id: fc.string({ unit: 'binary', minLength: 1 }).map((id) => id.toWellFormed()),
    from: fc.option(fc.string(), { nil: undefined }),
  })
  .map(({ isTake, block, ordinal, id, from }) => {
    const allocation = allocationOf(id);
    return isTake
      ? { kind: 'take', block, ordinal, from, allocation }
      : { kind: 'free', block, ordinal, id, handle: allocation.handle };
  });
const entry: fc.Arbitrary<Entry> = fc.record({
  slots: fc.array(change, { maxLength: 3 }),
  endpoints: fc.subarray([
    { kind: 'put', endpoint: ENDPOINT } as const,
    { kind: 'clear', id: endpointIdOf(ENDPOINT), containerId: 'c1', network: 'net' } as const,
  ]),
});
const entries = fc.array(entry, { maxLength: 4 });

const folder = mkdtempSync(join(tmpdir(), 'netplug-fuzz-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function segmentOf(each: readonly Entry[]): string {
  return [HEADER, ...each].map(encodeLine).join('');
}

/** The entry as a text that does not depend on the order of its fields. */
function inOrder({ slots, endpoints }: Entry): string {
  const fields = (_: string, value: unknown): unknown =>
    isRecord(value) ? Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1))) : value;
  return JSON.stringify(
    { slots: slots.map((slot) => ({ ...slot, block: formatCidr(slot.block) })), endpoints },
    fields,
  );
}

/** A line whose checksum is right, whatever it says. */
function lineOf(content: unknown): string {
  const text = JSON.stringify(content) ?? '';
  return `${crc32(text).toString(16).padStart(8, '0')} ${text}\n`;
}

describe('journals', () => {
  it(
    'are read as they were written, and damaged ones as far as they are whole',
    () => {
      const count = fuzz(fc.tuple(entries, cuts), 0.4, ([written, changes]) => {
        const whole = segmentOf(written);
        mustEqual(decodeSegment(whole), { header: HEADER, entries: written, damagedLines: 0, isNewer: false });
        const damaged = changes.reduce(applyCut, Buffer.from(whole)).toString('utf8');
        const read = decodeSegment(damaged);
        // A line that is there twice is as good as one: its changes name what they expect.
        const known = new Set(written.map(inOrder));
        for (const each of read.entries) mustEqual(known.has(inOrder(each)), true);
      });
      expect(count).toBeGreaterThan(10);
    },
    HANG_MS,
  );

  it(
    'whose lines say something else with a right checksum are read as far as they make sense',
    () => {
      const lines = fc.tuple(entries, fc.nat()).chain(([written, at]) => {
        const packed = [HEADER, ...written].map((each) => JSON.parse(encodeLine(each).slice(9)) as unknown);
        const index = at % packed.length;
        return jsonMutants([packed[index]]).map((mutant) => packed.with(index, mutant).map(lineOf).join(''));
      });
      const count = fuzz(lines, 0.4, (segment) => {
        for (const each of decodeSegment(segment).entries) {
          mustEqual(decodeSegment(segmentOf([each])).entries, [each]);
          for (const slot of each.slots) {
            handleIn(slot);
            if (sameCidr(slot.block, BLOCK.cidr)) applyOperations(BLOCK, [slot]);
          }
          for (const endpoint of each.endpoints) idOf(endpoint);
        }
      });
      expect(count).toBeGreaterThan(10);
    },
    HANG_MS,
  );

  it(
    'in a folder are listed, read and taken over, whatever is in the files',
    () => {
      const bytes = fc
        .tuple(entries, cuts)
        .map(([written, changes]) => changes.reduce(applyCut, Buffer.from(segmentOf(written))));
      const count = fuzz(fc.array(bytes, { minLength: 1, maxLength: 3 }), 0.2, (files) => {
        for (const [index, content] of files.entries())
          writeFileSync(join(folder, segmentName(HEADER, index)), content);
        attachmentsInJournals(folder);
        readJournal(folder, HEADER.run);
        const taken = takeOverJournal({ folder, tryLock: () => true }, HEADER.run);
        if (typeof taken === 'object') taken.remove('remove');
      });
      expect(count).toBeGreaterThan(10);
    },
    HANG_MS,
  );
});
