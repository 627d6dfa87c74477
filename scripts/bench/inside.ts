// Work of this process with the sockets of a node.
import { openKvStore, type KvStoreOptions } from '../../src/datastore/kv/kv-store.ts';
import type { Store } from '../../src/datastore/store.ts';
import type { TestNode } from '../../test/support/node.ts';
import { enterNetns } from '../../test/support/netns.ts';

export const ETCD = 'http://127.0.0.1:2379';

/** What is connected, listened on or started during the work is inside the network namespace of the node, and stays there. */
export async function inside<T>(node: Pick<TestNode, 'host'>, work: () => Promise<T>): Promise<T> {
  const visit = enterNetns(node.host);
  try {
    return await work();
  } finally {
    visit.leave();
  }
}

export function openStoreOn(url: string, options: KvStoreOptions = {}): Store {
  const files = { keyFile: undefined, certFile: undefined, caCertFile: undefined };
  return openKvStore({ endpoints: { from: 'list', urls: [url] }, ...files }, options);
}
