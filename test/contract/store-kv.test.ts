import type { StoreFixture } from './suites/datastore/bench.ts';
import { storeContract } from './suites/datastore/store.ts';
import { Keys } from '../../src/datastore/kv/keys.ts';
import { openMinimalHttp2 } from '../../src/datastore/kv/minimal-http2-connection.ts';
import { type KvStoreOptions, openKvStore } from '../../src/datastore/kv/kv-store.ts';
import { startEtcd } from '../support/etcd.ts';

storeContract('kv', async () => storeOnEtcd());
// As programs that serve a single CNI call open it.
storeContract('kv over a minimal HTTP/2 connection', async () => storeOnEtcd({ openUnary: openMinimalHttp2 }));

async function storeOnEtcd(options: KvStoreOptions = {}): Promise<StoreFixture> {
  const etcd = await startEtcd();
  const keys = new Keys();
  return {
    reset: async () => etcd.empty(),
    open: () =>
      openKvStore(
        {
          endpoints: { from: 'list', urls: [etcd.url] },
          keyFile: undefined,
          certFile: undefined,
          caCertFile: undefined,
        },
        { pageSize: 2, ...options },
      ),
    damage: async (which) => {
      const key =
        'block' in which
          ? keys.block(which.block.value.cidr, which.block.value.node)
          : 'endpoint' in which
            ? keys.endpoint(which.endpoint)
            : keys.resource(which);
      await etcd.put(key, '{"format":');
    },
    [Symbol.asyncDispose]: async () => etcd[Symbol.asyncDispose](),
  };
}
