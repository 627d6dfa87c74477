import { openKvStore } from '../datastore/kv/kv-store.ts';
import { MemoryDatabase } from '../datastore/memory/memory-database.ts';
import { openMemoryStore } from '../datastore/memory/memory-store.ts';
import { openOrchStore } from '../datastore/orch/orch-store.ts';
import type { Store } from '../datastore/store.ts';
import type { Datastore } from '../netconf/connection.ts';
import { accessOf } from './open-orch.ts';

/** The store of a configuration; connects when it is first used. */
export function openStoreIn(env: NodeJS.ProcessEnv): (datastore: Datastore) => Store {
  return (datastore) => {
    if (datastore.type === 'kvv3') return openKvStore(datastore.connection);
    const { orchconfig, apiRoot } = datastore.orch;
    const isReachable =
      orchconfig !== undefined || apiRoot !== undefined || env['KUBERNETES_SERVICE_HOST'] !== undefined;
    // ADD refuses such a configuration before it writes, so that for DEL there is nothing to find.
    return isReachable ? openOrchStore(accessOf(datastore.orch, env), { env }) : openMemoryStore(new MemoryDatabase());
  };
}
