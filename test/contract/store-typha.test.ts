// A datastore that is followed through a server of netplug-typha, over TLS; blocks of the own node come from the datastore, as in an agent.
import { MemoryDatabase } from '../../src/datastore/memory/memory-database.ts';
import { openMemoryStore } from '../../src/datastore/memory/memory-store.ts';
import { JoinedFollow } from '../../src/datastore/joined-follow.ts';
import { topicOf } from '../../src/datastore/typha/topics.ts';
import { ALL_TOPICS } from '../support/typha-in-process.ts';
import { connectedStore, typhaOverTls } from '../support/typha-over-tls.ts';
import { PLAIN } from './suites/datastore/bench.ts';
import { storeContract } from './suites/datastore/store.ts';

storeContract(
  'followed through netplug-typha',
  async () => {
    const database = new MemoryDatabase();
    // The stores of one datastore are followed through one server, as the agents of a cluster are.
    const server = await typhaOverTls(openMemoryStore(database), { topics: ALL_TOPICS });
    let opened = 0;
    return {
      reset: async () => {
        database.clear();
        await Promise.resolve();
      },
      open: () => {
        opened += 1;
        const store = openMemoryStore(database);
        const own = { follow: store.follow.bind(store) };
        const shared = connectedStore(server, { node: `node-${String(opened)}` });
        const joined = new JoinedFollow({ shared, own }, (query) => topicOf(query) !== undefined);
        return Object.assign(store, { follow: joined.follow.bind(joined) });
      },
      damage: async (which) => {
        database.damage('block' in which ? { block: which.block.value.cidr } : which);
        await Promise.resolve();
      },
      [Symbol.asyncDispose]: async () => server[Symbol.asyncDispose](),
    };
  },
  { ...PLAIN, resumes: false },
);
