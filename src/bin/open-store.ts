import type { Log } from '../base/log.ts';
import type { PluginDependencies } from '../cni/run-plugin.ts';
import { openKvStore } from '../datastore/kv/kv-store.ts';
import { MemoryDatabase } from '../datastore/memory/memory-database.ts';
import { openMemoryStore } from '../datastore/memory/memory-store.ts';
import { openOrchStore } from '../datastore/orch/orch-store.ts';
import type { Store } from '../datastore/store.ts';
import type { Datastore } from '../config/connection.ts';
import type { Transport } from '../kube/transport.ts';
import { accessOf, type FindAccess } from './open-orch.ts';

type OpenStore = (datastore: Datastore) => Store;

export interface OpenStoreOptions {
  /** Under which name the orchestrator notes that a field was written; `netplug` unless given. */
  readonly manager?: string;
  /** Told of notes on pods that the orchestrator refuses. */
  readonly log?: Log;
  /** As the settings say unless given. */
  readonly findAccess?: FindAccess;
  /** Shared with other clients of the orchestrator's API in this process. */
  readonly transport?: Transport;
}

/** Opens the store of a configuration, which connects when it is first used. @throws netconf/needs-orchestrator */
export function openStoreIn(env: NodeJS.ProcessEnv, options: OpenStoreOptions = {}): OpenStore {
  const { findAccess = (settings) => accessOf(settings, env), ...more } = options;
  return (datastore) =>
    datastore.type === 'kvv3'
      ? openKvStore(datastore.connection)
      : openOrchStore(findAccess(datastore.orch), { env, ...more });
}

/**
 * The same for the plugin, which has to take pods down even where nothing gives access to the API: ADD refuses such a
 * configuration before it writes, so that there is nothing to find.
 */
export function openPluginStoreIn(env: NodeJS.ProcessEnv): PluginDependencies['openStore'] {
  return (datastore, { log }) =>
    isCutOff(datastore) ? openMemoryStore(new MemoryDatabase()) : openStoreIn(env, { log })(datastore);
}

/** Whether nothing in the configuration gives access to the datastore. */
export function isCutOff(datastore: Datastore): boolean {
  return datastore.type === 'orch' && datastore.orch.orchconfig === undefined && datastore.orch.apiRoot === undefined;
}
