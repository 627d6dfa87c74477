import type { CallStore } from '../../datastore/store.ts';
import type { NamedDatastore } from './named-datastore.ts';
import type { TimePhase } from './time-phase.ts';

/**
 * Returns the datastore for one call. Allocations use the connection of the resident node, which every configuration of
 * the datastore shares: the endpoint of another configuration may point to another datastore by now.
 */
export function callStore(named: Pick<NamedDatastore, 'inner' | 'resolve'>, time: TimePhase): CallStore {
  const { inner } = named;
  const resolve = async (signal: AbortSignal): ReturnType<typeof named.resolve> => named.resolve(signal);
  return {
    isOlder: (version, than) => inner.isOlder(version, than),
    readNodeView: async (node, endpoint, signal) => (await resolve(signal)).readNodeView(node, endpoint, signal),
    commit: async (changes, signal, onDecided) => (await resolve(signal)).commit(changes, { signal, time, onDecided }),
    listEndpoints: async (node, signal) => (await resolve(signal)).listEndpoints(node, signal),
    listClaims: async (within, signal) => {
      const resident = await resolve(signal);
      return resident.ask(async (limit) => resident.inner.listClaims(within, limit), signal);
    },
    getBlocks: async (cidrs, signal) => {
      const resident = await resolve(signal);
      return resident.ask(async (limit) => resident.inner.getBlocks(cidrs, limit), signal);
    },
    listBlocks: async (signal) => (await resolve(signal)).inner.listBlocks(signal),
    findResource: async (which, signal) => inner.findResource(which, signal),
    listResources: async (kind, signal) => inner.listResources(kind, signal),
    ping: async (signal) => inner.ping(signal),
    [Symbol.asyncDispose]: async () => Promise.resolve(),
  };
}
