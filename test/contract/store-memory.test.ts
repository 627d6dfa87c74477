import { storeContract } from './suites/datastore/store.ts';
import { MemoryDatabase } from '../../src/datastore/memory/memory-database.ts';
import { openMemoryStore } from '../../src/datastore/memory/memory-store.ts';

storeContract('memory', async () => {
  const database = new MemoryDatabase();
  return Promise.resolve({
    reset: async () => {
      database.clear();
      await Promise.resolve();
    },
    open: () => openMemoryStore(database),
    damage: async (which) => {
      database.damage('block' in which ? { block: which.block.value.cidr } : which);
      await Promise.resolve();
    },
    [Symbol.asyncDispose]: async () => Promise.resolve(),
  });
});
