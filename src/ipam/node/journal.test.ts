import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { NodeName } from '../../model/names.ts';
import { datastoreIdOf } from './datastore-id.ts';
import { type Entry, idOf } from './entry.ts';
import { decodeSegment } from './entry-codec.ts';
import { Journal, type Segment } from './journal.ts';

const HEADER = { format: 2, datastore: datastoreIdOf('kvv3', 'one'), node: 'node-a' as NodeName, run: 'run' } as const;
/** Four of them fill a segment. */
const LARGE = 300_000;

let folder: string;
/** Whether a new segment can be locked, which stands for everything that may keep it from being made. */
let canBegin: boolean;
let journal: Journal;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'npl-journal-'));
  canBegin = true;
  journal = Journal.open({ folder, tryLock: () => canBegin }, HEADER);
});
afterEach(() => {
  journal.close({ isNeeded: false });
  rmSync(folder, { recursive: true });
});

function entryOf(name: string, padding = 0): Entry {
  const id = { node: HEADER.node, namespace: 'x'.repeat(padding), name };
  return { slots: [], endpoints: [{ kind: 'clear', id, containerId: 'c', network: 'net' }] };
}

async function fill(): Promise<Segment> {
  const segments = await Promise.all(['a', 'b', 'c', 'd'].map(async (name) => journal.add(entryOf(name, LARGE))));
  return segments[0]!;
}

/** Returns the changes that the next agent would find, by the names of the endpoints. */
function found(): string[] {
  const entries = readdirSync(folder).flatMap(
    (name) => decodeSegment(readFileSync(join(folder, name), 'utf8')).entries,
  );
  return entries.flatMap(({ endpoints }) => endpoints.map((change) => idOf(change).name));
}

describe('a journal', () => {
  it('keeps entries that are not completed, and no others', async () => {
    const first = await journal.add(entryOf('one'));
    await journal.add(entryOf('two'));
    journal.complete(first);
    expect(found()).toEqual(['one', 'two']);
    journal.complete(first);
    expect(found()).toEqual([]);
  });

  it('starts another segment when one is large, and removes the first once it is completed', async () => {
    const first = await fill();
    const second = await journal.add(entryOf('e'));
    expect(second.path).not.toBe(first.path);
    for (let left = 4; left > 0; left -= 1) {
      expect(found()).toEqual(['a', 'b', 'c', 'd', 'e']);
      journal.complete(first);
    }
    expect(found()).toEqual(['e']);
  });

  it('loses nothing when no other segment can be made, and goes on as soon as one can', async () => {
    const first = await fill();
    canBegin = false;
    for (let attempt = 0; attempt < 3; attempt += 1)
      await expect(journal.add(entryOf('lost'))).rejects.toMatchObject({ code: 'agent/journal-failed' });
    journal.complete(first);
    journal.complete(first);
    expect(found()).toEqual(['a', 'b', 'c', 'd']);
    expect(readdirSync(folder)).toHaveLength(1);
    canBegin = true;
    await journal.add(entryOf('e'));
    journal.complete(first);
    journal.complete(first);
    expect(found()).toEqual(['e']);
  });

  it('keeps no completed entry after an entry that could not be appended', async () => {
    const syncs = [Promise.resolve(), Promise.reject(new Error('no space left'))];
    const other = Journal.open(
      { folder, tryLock: () => true, syncData: async () => syncs.shift() },
      { ...HEADER, run: 'other' },
    );
    const segment = await other.add(entryOf('written'));
    const refused = other.add(entryOf('refused'));
    other.complete(segment);
    await expect(refused).rejects.toMatchObject({ code: 'agent/journal-failed' });
    expect(found()).toEqual([]);
    other.close({ isNeeded: false });
  });

  it('stays when it is closed while the run has pre-allocated addresses', () => {
    const other = Journal.open({ folder, tryLock: () => true }, { ...HEADER, run: 'other' });
    expect(readdirSync(folder)).toHaveLength(2);
    other.close({ isNeeded: true });
    expect(readdirSync(folder)).toHaveLength(2);
  });
});
