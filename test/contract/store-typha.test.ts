// A datastore that is followed through a server of netplug-typha; blocks of the own node come from the datastore, as in an agent.
import { MemoryDatabase } from '../../src/datastore/memory/memory-database.ts';
import { openMemoryStore } from '../../src/datastore/memory/memory-store.ts';
import { JoinedFollow } from '../../src/datastore/joined-follow.ts';
import type { Store } from '../../src/datastore/store.ts';
import { topicOf } from '../../src/datastore/typha/topics.ts';
import { followInProcess, serveInProcess } from '../support/typha-in-process.ts';
import { PLAIN } from './suites/datastore/bench.ts';
import { storeContract } from './suites/datastore/store.ts';

storeContract(
  'followed through netplug-typha',
  async () => {
    const database = new MemoryDatabase();
    return Promise.resolve({
      reset: async () => {
        database.clear();
        await Promise.resolve();
      },
      open: () => followedThroughServer(openMemoryStore(database)),
      damage: async (which) => {
        database.damage('block' in which ? { block: which.block.value.cidr } : which);
        await Promise.resolve();
      },
      [Symbol.asyncDispose]: async () => Promise.resolve(),
    });
  },
  { ...PLAIN, resumes: false },
);

function followedThroughServer(store: Store): Store {
  const own = { follow: store.follow.bind(store) };
  const server = serveInProcess('server', own);
  const client = followInProcess(() => [server]);
  const joined = new JoinedFollow({ shared: client, own }, (query) => topicOf(query) !== undefined);
  const close = store[Symbol.asyncDispose].bind(store);
  return Object.assign(store, {
    follow: joined.follow.bind(joined),
    [Symbol.asyncDispose]: async () => {
      await server[Symbol.asyncDispose]();
      await close();
    },
  });
}
