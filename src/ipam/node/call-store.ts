import type { Store } from '../../datastore/store.ts';
import type { NamedDatastore } from './named-datastore.ts';
import type { TimePhase } from './resident-node.ts';

/** The datastore as one call of the resident node uses it; what the call does when it is done with it changes nothing. */
export function callStore(named: Pick<NamedDatastore, 'inner' | 'resolve'>, time: TimePhase): Store {
  const beneath = sharedStore(named);
  const resolve = async (signal: AbortSignal): ReturnType<typeof named.resolve> => named.resolve(signal);
  return {
    ...beneath,
    beneath,
    readNodeView: async (node, endpoint, signal) => (await resolve(signal)).readNodeView(node, endpoint, signal),
    commit: async (changes, signal) => (await resolve(signal)).commit(changes, { signal, time }),
    listEndpoints: async (node, signal) => (await resolve(signal)).listEndpoints(node, signal),
    listClaims: async (within, signal) =>
      (await resolve(signal)).ask(async (limit) => beneath.listClaims(within, limit), signal),
    getBlocks: async (cidrs, signal) =>
      (await resolve(signal)).ask(async (limit) => beneath.getBlocks(cidrs, limit), signal),
  };
}

/**
 * The datastore itself. What concerns addresses goes over the connection of the resident node, which every configuration
 * of the datastore shares: the address of another one may lead elsewhere by now.
 */
function sharedStore(named: Pick<NamedDatastore, 'inner' | 'resolve'>): Store {
  const { inner } = named;
  const shared = async (signal: AbortSignal): Promise<Store> => (await named.resolve(signal)).inner;
  return {
    ...(inner.endpointsAreNotes === true ? { endpointsAreNotes: true } : {}),
    isOlder: (version, than) => inner.isOlder(version, than),
    readNodeView: async (node, endpoint, signal) => (await shared(signal)).readNodeView(node, endpoint, signal),
    commit: async (changes, signal) => (await shared(signal)).commit(changes, signal),
    listEndpoints: async (node, signal) => (await shared(signal)).listEndpoints(node, signal),
    listClaims: async (within, signal) => (await shared(signal)).listClaims(within, signal),
    getBlocks: async (cidrs, signal) => (await shared(signal)).getBlocks(cidrs, signal),
    watchNode: (node, signal) => inner.watchNode(node, signal),
    watchCluster: (signal) => inner.watchCluster(signal),
    watchResources: (kind, signal) => inner.watchResources(kind, signal),
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
