import type { Log } from '../base/log.ts';
import type { Surroundings } from '../cni/run-plugin.ts';
import { openKvStore } from '../datastore/kv/kv-store.ts';
import { MemoryDatabase } from '../datastore/memory/memory-database.ts';
import { openMemoryStore } from '../datastore/memory/memory-store.ts';
import { openOrchStore } from '../datastore/orch/orch-store.ts';
import type { Store } from '../datastore/store.ts';
import type { Datastore } from '../netconf/connection.ts';
import { accessOf } from './open-orch.ts';

type OpenStore = (datastore: Datastore) => Store;

/**
 * The store of a configuration; connects when it is first used. `manager` is whom the orchestrator shall take for the
 * writer, and the log hears of notes on pods that it refuses. @throws netconf/needs-orchestrator
 */
export function openStoreIn(
  env: NodeJS.ProcessEnv,
  options: { readonly manager?: string; readonly log?: Log } = {},
): OpenStore {
  return (datastore) =>
    datastore.type === 'kvv3'
      ? openKvStore(datastore.connection)
      : openOrchStore(accessOf(datastore.orch, env), { env, ...options });
}

/**
 * The same for the plugin, which has to take pods down even where nothing gives access to the API: ADD refuses such a
 * configuration before it writes, so that there is nothing to find.
 */
export function openPluginStoreIn(env: NodeJS.ProcessEnv): Surroundings['openStore'] {
  return (datastore, { log }) =>
    isCutOff(datastore) ? openMemoryStore(new MemoryDatabase()) : openStoreIn(env, { log })(datastore);
}

/** Whether nothing in the configuration gives access to the datastore. */
export function isCutOff(datastore: Datastore): boolean {
  return datastore.type === 'orch' && datastore.orch.orchconfig === undefined && datastore.orch.apiRoot === undefined;
}
