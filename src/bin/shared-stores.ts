import { systemClock } from '../base/clock.ts';
import type { PluginDependencies } from '../cni/run-plugin.ts';
import type { CallStore } from '../datastore/store.ts';
import { openKvStore } from '../datastore/kv/kv-store.ts';
import { Http2Transport } from '../kube/http2-transport.ts';
import type { Datastore } from '../config/connection.ts';
import { BoundedMutex } from '../runtime/bounded-mutex.ts';
import { isCutOff, openPluginStoreIn, openStoreIn } from './open-store.ts';

/** Time that a call waits at most for others that use the same blocks. */
const TURN_MS = 1000;

/** A connection that calls share. */
interface Shared {
  readonly store: CallStore | undefined;
  readonly mutex: BoundedMutex;
}

/** Opens the stores of calls that share connections. The environment of a call must not change how a datastore is reached. */
export class SharedStores implements AsyncDisposable {
  readonly transport = new Http2Transport();
  /** By the datastore as JSON. */
  readonly #shared = new Map<string, Shared>();

  /** Returns the function that opens the store of a call with that environment. */
  openIn(env: NodeJS.ProcessEnv): PluginDependencies['openStore'] {
    return (datastore, call) => {
      if (isCutOff(datastore)) return openPluginStoreIn(env)(datastore, call);
      const { store, mutex } = this.#sharedOf(datastore);
      if (store !== undefined) return sharedBy(store, mutex, async () => Promise.resolve());
      const own = openStoreIn(env, { log: call.log, transport: this.transport })(datastore);
      return sharedBy(own, mutex, async () => own[Symbol.asyncDispose]());
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { store } of this.#shared.values()) await store?.[Symbol.asyncDispose]();
    this.transport.close();
  }

  /** A store on etcd is shared, of one on the API only the connection, because the store logs to the call. */
  #sharedOf(datastore: Datastore): Shared {
    const key = JSON.stringify(datastore);
    const known = this.#shared.get(key);
    if (known !== undefined) return known;
    const store = datastore.type === 'kvv3' ? openKvStore(datastore.connection) : undefined;
    const shared = { store, mutex: new BoundedMutex(systemClock, TURN_MS) };
    this.#shared.set(key, shared);
    return shared;
  }
}

function sharedBy(store: CallStore, mutex: BoundedMutex, close: () => Promise<void>): CallStore {
  return {
    takeTurn: async (signal) => mutex.take(signal),
    isOlder: (version, than) => store.isOlder(version, than),
    readNodeView: async (node, endpoint, signal) => store.readNodeView(node, endpoint, signal),
    commit: async (changes, signal) => store.commit(changes, signal),
    listEndpoints: async (node, signal) => store.listEndpoints(node, signal),
    listClaims: async (within, signal) => store.listClaims(within, signal),
    getBlocks: async (cidrs, signal) => store.getBlocks(cidrs, signal),
    listBlocks: async (signal) => store.listBlocks(signal),
    findResource: async (which, signal) => store.findResource(which, signal),
    listResources: async (kind, signal) => store.listResources(kind, signal),
    ping: async (signal) => store.ping(signal),
    [Symbol.asyncDispose]: close,
  };
}
