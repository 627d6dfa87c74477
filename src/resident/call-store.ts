import type { Store } from '../datastore/store.ts';
import type { NamedDatastore } from './named-datastore.ts';
import type { TimePhase } from './resident-node.ts';

/** The datastore as one call of the resident node uses it; what the call does when it is done with it changes nothing. */
export function callStore(named: Pick<NamedDatastore, 'inner' | 'resolve'>, time: TimePhase): Store {
  const { inner } = named;
  const ask = async <T>(read: (signal: AbortSignal) => Promise<T>, signal: AbortSignal): Promise<T> =>
    (await named.resolve(signal)).ask(read, signal);
  return {
    beneath: inner,
    ...(inner.endpointsAreNotes === true ? { endpointsAreNotes: true } : {}),
    readNodeView: async (node, endpoint, signal) => (await named.resolve(signal)).readNodeView(node, endpoint, signal),
    commit: async (changes, signal) => (await named.resolve(signal)).commit(changes, { signal, time }),
    listEndpoints: async (node, signal) => (await named.resolve(signal)).listEndpoints(node, signal),
    watchNode: (node, signal) => inner.watchNode(node, signal),
    watchCluster: (signal) => inner.watchCluster(signal),
    watchResources: (kind, signal) => inner.watchResources(kind, signal),
    listClaims: async (within, signal) => ask(async (limit) => inner.listClaims(within, limit), signal),
    getBlocks: async (cidrs, signal) => ask(async (limit) => inner.getBlocks(cidrs, limit), signal),
    listBlocks: async (signal) => inner.listBlocks(signal),
    listResources: async (kind, signal) => inner.listResources(kind, signal),
    findResource: async (which, signal) => inner.findResource(which, signal),
    createResource: async (resource, signal, mode) => inner.createResource(resource, signal, mode),
    updateResource: async (resource, signal, mode) => inner.updateResource(resource, signal, mode),
    deleteResource: async (which, signal, mode) => inner.deleteResource(which, signal, mode),
    publishNode: async (node, facts, signal) => inner.publishNode(node, facts, signal),
    reportNetwork: async (node, report, signal) => inner.reportNetwork(node, report, signal),
    ping: async (signal) => inner.ping(signal),
    [Symbol.asyncDispose]: async () => Promise.resolve(),
  };
}
