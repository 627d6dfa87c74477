import { execFileSync } from 'node:child_process';
import type { StoreFixture } from './suites/datastore/bench.ts';
import { storeContract } from './suites/datastore/store.ts';
import { Keys } from '../../src/datastore/kv/keys.ts';
import { openMinimalHttp2 } from '../../src/datastore/kv/minimal-http2-connection.ts';
import { type KvStoreOptions, openKvStore } from '../../src/datastore/kv/kv-store.ts';
import { program } from '../support/components.ts';
import { startEtcd } from '../support/etcd.ts';

storeContract('kv', async () => storeOnEtcd());
// As programs that serve a single CNI call open it.
storeContract('kv over a minimal HTTP/2 connection', async () => storeOnEtcd({ openUnary: openMinimalHttp2 }));

async function storeOnEtcd(options: KvStoreOptions = {}): Promise<StoreFixture> {
  const etcd = await startEtcd();
  const keys = new Keys();
  const etcdctl = (...args: string[]): void => {
    const env = { ...process.env, ETCDCTL_API: '3' };
    execFileSync(program('etcdctl'), [`--endpoints=${etcd.url}`, ...args], { env, stdio: 'ignore' });
  };
  return {
    reset: async () => {
      etcdctl('del', '--prefix', '/netplug/');
      await Promise.resolve();
    },
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
      etcdctl('put', key, '{"format":');
      await Promise.resolve();
    },
    [Symbol.asyncDispose]: async () => etcd[Symbol.asyncDispose](),
  };
}
