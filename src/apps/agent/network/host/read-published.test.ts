import { expect, it } from 'vitest';
import { nodeName, nodeOf } from '../../../../../test/support/fixtures.ts';
import { MemoryDatabase } from '../../../../datastore/memory/memory-database.ts';
import { openMemoryStore } from '../../../../datastore/memory/memory-store.ts';
import { formatAddress } from '../../../../net/address.ts';
import { readPublished } from './read-published.ts';

const never = new AbortController().signal;

it('reads what every node publishes, and nothing while the datastore does not answer', async () => {
  const database = new MemoryDatabase();
  const store = openMemoryStore(database);
  for (const name of ['a', 'b']) await store.createResource(nodeOf(name), never);
  await store.publishNode(nodeName('a'), { ipv4Address: '192.0.2.1/24' }, never);
  const published = await readPublished(store, never);
  const texts = [...(published ?? [])].map(([name, { addresses }]) => [
    name,
    [...addresses.values()].map(formatAddress),
  ]);
  expect(Object.fromEntries(texts)).toEqual({ a: ['192.0.2.1'], b: [] });
  const down = openMemoryStore(database, { fault: () => ({ kind: 'unavailable-before' }) });
  expect(await readPublished(down, never)).toBeUndefined();
});
