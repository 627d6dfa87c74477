import type { StoreFixture } from './suites/datastore/bench.ts';
import { storeContract } from './suites/datastore/store.ts';
import { Keys } from '../../src/datastore/kv/keys.ts';
import { openKvStore } from '../../src/datastore/kv/kv-store.ts';
import { startEtcd } from '../support/etcd.ts';

storeContract('kv', async () => storeOnEtcd());

async function storeOnEtcd(): Promise<StoreFixture> {
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
        { pageSize: 2 },
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
