import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock, virtualClock } from '../../base/clock.ts';
import { silentLog } from '../../base/log.ts';
import { systemRandom } from '../../base/random.ts';
import { MemoryDatabase } from '../../datastore/memory/memory-database.ts';
import { openMemoryStore } from '../../datastore/memory/memory-store.ts';
import { assign } from '../assign.ts';
import { nodeName, poolOf } from '../../../test/support/fixtures.ts';
import { requestOf } from '../../../test/support/ipam-bench.ts';
import { until } from '../../../test/support/until.ts';
import { callStore } from './call-store.ts';
import { datastoreIdOf } from './datastore-id.ts';
import { OwnJournal } from './own-journal.ts';
import { ResidentNode } from './resident-node.ts';

const NODE = nodeName('n1');
const never = new AbortController().signal;
const datastore = datastoreIdOf('kvv3', 'one');
const RETRY_MS = 10_000;

let folder: string;
/** Whether a segment can be locked, which stands for everything that may keep it from being made. */
let canBegin: boolean;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'npl-own-journal-'));
  canBegin = false;
});
afterEach(async () => rm(folder, { recursive: true, force: true }));

const place = (): { folder: string; tryLock: () => boolean } => ({ folder, tryLock: () => canBegin });

describe('the journal of a run', () => {
  it('reports why it cannot be opened, and is opened as soon as it can be', async () => {
    const clock = virtualClock();
    const journal = new OwnJournal(
      { clock, log: silentLog, place: place() },
      { format: 2, datastore, node: NODE, run: 'r' },
    );
    journal.open();
    expect(journal.warnings()).toMatchObject([
      { code: 'agent/journal-failed', remedy: expect.stringContaining('Make room') as string },
    ]);
    await expect(journal.add({ slots: [], endpoints: [] })).rejects.toMatchObject({ code: 'agent/journal-failed' });
    canBegin = true;
    await clock.sleep(RETRY_MS, never);
    journal.open();
    expect(journal.warnings()).toEqual([]);
    await journal.add({ slots: [], endpoints: [] });
    journal.close({ isNeeded: false });
  });
});

it('serves calls through the datastore while the node has no journal', async () => {
  const store = openMemoryStore(new MemoryDatabase());
  await store.createResource(poolOf('v4', '10.0.0.0/24', { blockSize: 26 }), never);
  const node = new ResidentNode(
    store,
    {
      clock: systemClock,
      random: systemRandom,
      log: silentLog,
      place: place(),
      host: { machine: 'm', boot: 'b' },
      listAttached: () => new Set<string>(),
      listAddressesInUse: async () => Promise.resolve([]),
      onJournalWait: () => undefined,
      onWritten: () => undefined,
    },
    { datastore, node: NODE, warmPoolFloor: () => 4 },
  );
  try {
    const calls = callStore({ inner: store, resolve: async () => Promise.resolve(node) }, async (_, work) => work());
    const ports = { store: calls, clock: systemClock, random: systemRandom, log: silentLog };
    const add = async (container: string): Promise<string> => {
      const [assigned] = await assign(ports, requestOf(container, { node: NODE }), {
        signal: never,
        cleanupSignal: never,
      });
      return assigned?.allocation.id ?? '';
    };
    await until(() => node.state.isReady, 'the node is read');
    const ids = [await add('first')];
    await until(() => node.state.blocks.some(({ preallocated }) => preallocated >= 4), 'addresses are pre-allocated');
    ids.push(...(await Promise.all(['a', 'b', 'c'].map(add))));
    // Recorded before each call has returned.
    const { owned } = await store.readNodeView(NODE, undefined, never);
    const held = owned.flatMap(({ value }) => [...value.slots.values()].map(({ id }) => id));
    expect(held.toSorted()).toEqual(ids.toSorted());
    expect(node.state.warnings).toMatchObject([{ code: 'agent/journal-failed' }]);
    expect(await readdir(folder)).toEqual([]);
  } finally {
    await node.end();
  }
});
