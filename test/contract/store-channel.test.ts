// A datastore that is followed in another isolate: every event crosses a channel as a structured clone.
import { MessageChannel } from 'node:worker_threads';
import { FollowClient } from '../../src/datastore/follow-client.ts';
import type { FollowAnswer, FollowRequest } from '../../src/datastore/follow-messages.ts';
import { FollowServer } from '../../src/datastore/follow-server.ts';
import { MemoryDatabase } from '../../src/datastore/memory/memory-database.ts';
import { openMemoryStore } from '../../src/datastore/memory/memory-store.ts';
import type { Store } from '../../src/datastore/store.ts';
import { storeContract } from './suites/datastore/store.ts';

storeContract('channel to the memory', async () => {
  const database = new MemoryDatabase();
  return Promise.resolve({
    reset: async () => {
      database.clear();
      await Promise.resolve();
    },
    open: () => followedThroughChannel(openMemoryStore(database)),
    damage: async (which) => {
      database.damage('block' in which ? { block: which.block.value.cidr } : which);
      await Promise.resolve();
    },
    [Symbol.asyncDispose]: async () => Promise.resolve(),
  });
});

function followedThroughChannel(store: Store): Store {
  const { port1: near, port2: far } = new MessageChannel();
  const server = new FollowServer({ follow: store.follow.bind(store) }, (answer) => far.postMessage(answer, []));
  const client = new FollowClient((request) => near.postMessage(request, []));
  far.on('message', (request: FollowRequest) => server.receive(request));
  near.on('message', (answer: FollowAnswer) => client.receive(answer));
  const close = store[Symbol.asyncDispose].bind(store);
  return Object.assign(store, {
    follow: client.follow.bind(client),
    [Symbol.asyncDispose]: async () => {
      server.close();
      near.close();
      await close();
    },
  });
}
