import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../base/clock.ts';
import { silentLog } from '../../base/log.ts';
import { systemRandom } from '../../base/random.ts';
import type { Datastore } from '../../config/connection.ts';
import { MemoryDatabase } from '../../datastore/memory/memory-database.ts';
import { openMemoryStore, type StoreFault } from '../../datastore/memory/memory-store.ts';
import { assign } from '../../ipam/assign.ts';
import { callStore } from '../../ipam/node/call-store.ts';
import { nodeName, poolOf } from '../../../test/support/fixtures.ts';
import { requestOf } from '../../../test/support/ipam-bench.ts';
import { until } from '../../../test/support/until.ts';
import { ResidentNodes } from './resident-nodes.ts';

const NODE = nodeName('n1');
const never = new AbortController().signal;
const DATASTORE = { type: 'kvv3', connection: {} } as unknown as Datastore;

const ends: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

interface Started {
  readonly nodes: ResidentNodes;
  readonly add: (container: string) => Promise<string>;
}

/** Starts what the agent of a machine serves calls with. */
async function start(
  database: MemoryDatabase,
  machine: string,
  fault: () => StoreFault | undefined = () => undefined,
): Promise<Started> {
  const folder = await mkdtemp(join(tmpdir(), 'npl-nodes-'));
  const base = { clock: systemClock, random: systemRandom, log: silentLog };
  const nodes = new ResidentNodes(
    () => openMemoryStore(database, { fault: (operation) => (operation === 'commit' ? fault() : undefined) }),
    {
      ...base,
      place: { folder, tryLock: () => true },
      host: { machine, boot: 'b' },
      listAttached: () => new Set<string>(),
      listAddressesInUse: async () => Promise.resolve([]),
      onJournalWait: () => undefined,
      onWritten: () => undefined,
    },
    { node: NODE, machine: { id: machine, runs: [machine], hostName: machine }, warmPoolFloor: () => 4 },
  );
  ends.push(async () => {
    await nodes[Symbol.asyncDispose]();
    await rm(folder, { recursive: true, force: true });
  });
  const store = callStore(nodes.get(DATASTORE), async (_, work) => work());
  const add = async (container: string): Promise<string> => {
    const [assigned] = await assign({ ...base, store }, requestOf(container, { node: NODE }), {
      signal: never,
      cleanupSignal: never,
    });
    return assigned?.allocation.id ?? '';
  };
  return { nodes, add };
}

async function newDatabase(): Promise<MemoryDatabase> {
  const database = new MemoryDatabase();
  await openMemoryStore(database).createResource(poolOf('v4', '10.0.0.0/24', { blockSize: 26 }), never);
  return database;
}

describe('agents of two machines with one name', () => {
  it('leave the node to the first one: the other refuses calls, says why and changes nothing', async () => {
    const database = await newDatabase();
    const [store, first] = [openMemoryStore(database), await start(database, 'one')];
    await first.add('a');
    await first.nodes.drain(AbortSignal.timeout(5000));
    const recorded = async (): Promise<unknown> => {
      const { owned } = await store.readNodeView(NODE, undefined, never);
      return [owned, await store.findResource({ kind: 'NodeReport', name: NODE }, never)];
    };
    const before = await recorded();
    const other = await start(database, 'other');
    await expect(other.add('b')).rejects.toMatchObject({ code: 'agent/name-taken' });
    expect(other.nodes.problems()).toMatchObject([
      { code: 'agent/name-taken', severity: 'error', text: expect.stringContaining('host name "one"') as string },
    ]);
    const named = other.nodes.get(DATASTORE).inner;
    await expect(named.publishNode(NODE, {}, never)).rejects.toMatchObject({ code: 'agent/name-taken' });
    await expect(named.publishReport(NODE, { problems: [] }, never)).rejects.toMatchObject({
      code: 'agent/name-taken',
    });
    expect(await recorded()).toEqual(before);
  });
});

it('reports how many writes wait while the datastore takes none', async () => {
  const database = await newDatabase();
  let fault: StoreFault | undefined;
  const { nodes, add } = await start(database, 'one', () => fault);
  await add('a');
  await until(
    () => nodes.standing().addresses.pools.some(({ preallocated }) => preallocated >= 4),
    'addresses are ready',
  );
  expect(nodes.warnings()).toEqual([]);
  fault = { kind: 'unavailable-before' };
  await Promise.all([add('b'), add('c')]);
  await until(() => nodes.warnings().length > 0, 'the node warns');
  expect(nodes.warnings()).toMatchObject([
    {
      code: 'agent/pending-writes',
      severity: 'warning',
      text: expect.stringMatching(/^the datastore is unavailable, and 2 writes wait: /) as string,
    },
  ]);
  expect(nodes.problems()).toEqual([]);
  fault = undefined;
  await until(() => nodes.warnings().length === 0, 'they are written');
});
