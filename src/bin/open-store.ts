import type { Store } from '../datastore/store.ts';
import { openKvStore } from '../datastore/kv/kv-store.ts';
import { MemoryDatabase } from '../datastore/memory/memory-database.ts';
import { openMemoryStore } from '../datastore/memory/memory-store.ts';
import type { Datastore } from '../netconf/connection.ts';

/** The store of a configuration. Nothing can be recorded through the orchestrator's API yet, so there is nothing to find. */
export function openStore(datastore: Datastore): Store {
  return datastore.type === 'kvv3' ? openKvStore(datastore.connection) : openMemoryStore(new MemoryDatabase());
}
