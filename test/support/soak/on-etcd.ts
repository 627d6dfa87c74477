import { decodeBlock } from '../../../src/model/ip-block-codec.ts';
import type { TestNode } from '../node.ts';
import type { Server, SoakAccess, StartDatastore } from './datastore.ts';

const LOCAL = 'http://127.0.0.1:2379';
const REMOTE = 'http://172.31.0.2:2379';

/** The records are in the etcd of the first node. */
export const onEtcd: StartDatastore = async (nodes, pools) => {
  const [first] = nodes as readonly [TestNode];
  for (const [name, [cidr, spec]] of Object.entries(pools)) await first.seedPool(name, cidr, spec);
  const access = nodes.map((_, index): SoakAccess => {
    const env = { KV_ENDPOINTS: index === 0 ? LOCAL : REMOTE };
    return { conf: { kv_endpoints: env.KV_ENDPOINTS }, env: { call: env, agent: env, tool: env } };
  });
  return {
    servers: [await etcdOf(first)],
    access,
    settled: async () => Promise.resolve(),
    startPod: async () => Promise.resolve(''),
    forgetPod: async () => Promise.resolve(),
    blocks: async () =>
      [...(await first.records('ipam/blocks/')).entries()].map(([key, record]) => {
        const decoded = decodeBlock(record);
        if (!('block' in decoded)) throw new Error(`${key} cannot be read: ${decoded.problems.join('; ')}`);
        return decoded.block;
      }),
    endpoints: async () => (await first.endpoints()).map((endpoint) => JSON.stringify(endpoint)),
    [Symbol.asyncDispose]: async () => Promise.resolve(),
  };
};

/** The etcd that the node was started with; it ends with the node. */
export async function etcdOf(node: TestNode): Promise<Server> {
  let etcd = node.etcd!;
  const command = (await node.exec('cat', `/proc/${String(etcd.pid)}/cmdline`)).split('\0').slice(0, -1);
  return {
    name: 'etcd',
    pause: async () => etcd.pause(),
    resume: async () => etcd.resume(),
    kill: async () => etcd.stop('KILL'),
    start: async () => {
      etcd = await node.start(command);
    },
  };
}
