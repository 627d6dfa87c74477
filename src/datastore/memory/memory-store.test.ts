import { takeSlot, updateTo } from '../../../test/support/block-edits.ts';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { poolOf } from '../../../test/support/fixtures.ts';
import { type Allocation, emptyBlock } from '../../model/ip-block.ts';
import { handleOf, type NodeName } from '../../model/names.ts';
import { parseCidr } from '../../net/cidr.ts';
import type { Change } from '../allocation-store.ts';
import type { Store } from '../store.ts';
import { MemoryDatabase } from './memory-database.ts';
import { type StoreFault, openMemoryStore } from './memory-store.ts';

const never = new AbortController().signal;
const node = 'n1' as NodeName;
const cidr = parseCidr('10.0.0.0/30');
const pool = poolOf('blue', '10.0.0.0/16', { blockSize: 30, allowedUses: ['Workload'] });
const holder = (id: string): Allocation => {
  const attachment = { network: 'net', containerId: id, ifName: 'eth0' };
  return { id, node, ...attachment, handle: handleOf(attachment), at: '2026-01-01T00:00:00Z', chosenBy: 'request' };
};

async function creation(store: Store): Promise<Change> {
  await store.createResource(pool, never);
  const [read] = (await store.readNodeView(node, undefined, never)).pools;
  if (read === undefined) throw new Error('no pool');
  return { kind: 'create-block', block: emptyBlock(cidr, node), pool: read };
}

/** Adds an address as the address manager does: read, change, and again when another writer was first. */
async function takeOne(store: Store, id: string): Promise<void> {
  for (;;) {
    const [before] = (await store.readNodeView(node, undefined, never)).owned;
    const ordinal = before?.value.queue[0];
    if (before === undefined || ordinal === undefined) throw new Error('nothing free');
    const after = takeSlot(before.value, ordinal, holder(id));
    if ((await store.commit([updateTo(before, after)], never)) === 'committed') return;
  }
}

describe('faults of the datastore in memory', () => {
  it.each([
    [{ kind: 'conflict' }, 'conflict', 0],
    [{ kind: 'unavailable-before' }, 'store/unavailable', 0],
    [{ kind: 'unavailable-after' }, 'store/unavailable', 1],
  ] satisfies [StoreFault, string, number][])(
    'such as %j end a commit with %s and leave %i blocks',
    async (fault, end, left) => {
      const database = new MemoryDatabase();
      const sound = openMemoryStore(database);
      const change = await creation(sound);
      const faulty = openMemoryStore(database, { fault: (operation) => (operation === 'commit' ? fault : undefined) });
      const outcome = await faulty.commit([change], never).catch((error: { code: string }) => error.code);
      expect(outcome).toBe(end);
      expect((await sound.listBlocks(never)).blocks).toHaveLength(left);
    },
  );

  it('show a stale view, on which no commit succeeds', async () => {
    const database = new MemoryDatabase();
    const sound = openMemoryStore(database);
    expect(await sound.commit([await creation(sound)], never)).toBe('committed');
    await takeOne(sound, 'x');
    const stale = openMemoryStore(database, {
      fault: (operation) => (operation === 'readNodeView' ? { kind: 'stale', changesAgo: 1 } : undefined),
    });
    const [before] = (await stale.readNodeView(node, undefined, never)).owned;
    if (before === undefined) throw new Error('no block');
    expect(before.value.slots.size).toBe(0);
    expect(await stale.commit([updateTo(before, before.value)], never)).toBe('conflict');
  });

  it('fail a watch on request', async () => {
    const database = new MemoryDatabase();
    let isLost = false;
    const store = openMemoryStore(database, {
      fault: (operation) => (operation === 'follow' && isLost ? { kind: 'unavailable-before' } : undefined),
    });
    const watch = store.follow([{ kind: 'node-blocks', node }], { signal: never })[Symbol.asyncIterator]();
    expect((await watch.next()).value).toMatchObject({ kind: 'snapshot' });
    isLost = true;
    database.clear();
    await expect(watch.next()).rejects.toMatchObject({ code: 'store/unavailable' });
  });

  it('do not let writers overwrite each other in any order of their steps', async () => {
    await fc.assert(
      fc.asyncProperty(fc.scheduler(), async (scheduler) => {
        const database = new MemoryDatabase();
        const sound = openMemoryStore(database);
        expect(await sound.commit([await creation(sound)], never)).toBe('committed');
        const writers = ['x', 'y', 'z'].map(async (id) => {
          const pause = async (operation: string): Promise<void> =>
            scheduler.schedule(Promise.resolve(), `${id} ${operation}`);
          return takeOne(openMemoryStore(database, { pause }), id);
        });
        await scheduler.waitFor(Promise.all(writers));
        const [block] = (await sound.listBlocks(never)).blocks;
        expect([...(block?.value.slots.values() ?? [])].map(({ id }) => id).sort()).toEqual(['x', 'y', 'z']);
      }),
      { numRuns: 50 },
    );
  });
});
