import type { Log } from '../base/log.ts';
import type { PluginDependencies } from '../cni/run-plugin.ts';
import { openKvStore } from '../datastore/kv/kv-store.ts';
import { MemoryDatabase } from '../datastore/memory/memory-database.ts';
import { openMemoryStore } from '../datastore/memory/memory-store.ts';
import type { WatchedBlocks } from '../datastore/orch/node-blocks.ts';
import { openOrchStore } from '../datastore/orch/orch-store.ts';
import type { Store } from '../datastore/store.ts';
import type { Datastore } from '../config/connection.ts';
import type { SharedWatches } from '../kube/shared-watches.ts';
import type { Transport } from '../kube/transport.ts';
import { accessOf, type FindAccess } from './open-orch.ts';

type OpenStore = (datastore: Datastore) => Store;

export interface OpenStoreOptions {
  /** The field manager of writes to the orchestrator; `netplug` unless given. */
  readonly manager?: string;
  /** Receives warnings about pod annotations that the orchestrator refuses. */
  readonly log?: Log;
  /** Returns the access in the settings unless given. */
  readonly findAccess?: FindAccess;
  /** Shared with other clients of the orchestrator's API in this process. */
  readonly transport?: Transport;
  readonly watches?: SharedWatches;
  /** Followers ask the API whether it serves when its watches have been silent for so long: 5 s unless given, never for `Infinity`. */
  readonly probeAfterMs?: number | undefined;
  /** What is watched at the API for the blocks of a node; these blocks alone unless something else is followed or sent anyway. */
  readonly watchedBlocks?: WatchedBlocks;
}

/** Returns a function that opens the store of a configuration, which connects on first use. @throws netconf/needs-orchestrator */
export function openStoreIn(env: NodeJS.ProcessEnv, options: OpenStoreOptions = {}): OpenStore {
  const { findAccess = (settings) => accessOf(settings, env), ...more } = options;
  return (datastore) =>
    datastore.type === 'kvv3'
      ? openKvStore(datastore.connection)
      : openOrchStore(findAccess(datastore.orch), { env, ...more });
}

/**
 * Like `openStoreIn`, for the plugin, which must serve DEL even without access to the API. Then it opens an empty store:
 * ADD refuses such a configuration before it writes, so that there is nothing to release.
 */
export function openPluginStoreIn(env: NodeJS.ProcessEnv): PluginDependencies['openStore'] {
  return (datastore, { log }) =>
    isCutOff(datastore) ? openMemoryStore(new MemoryDatabase()) : openStoreIn(env, { log })(datastore);
}

/** Reports whether the configuration contains no access to the datastore. */
export function isCutOff(datastore: Datastore): boolean {
  return datastore.type === 'orch' && datastore.orch.orchconfig === undefined && datastore.orch.apiRoot === undefined;
}
