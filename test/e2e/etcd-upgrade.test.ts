// etcd is upgraded under netplug, member by member, while pods come and go.
import { describe, expect, it } from 'vitest';
import { MODE, startAgent } from '../support/agent.ts';
import { startEtcdMembers } from '../support/etcd-members.ts';
import { type Json, startNode, type TestNode, until } from '../support/node.ts';

const WORKERS = 4;
/** Pods that a worker has at most at the same time. */
const PODS = 3;

describe('a rolling upgrade of etcd', () => {
  it('of three members from 3.6 to 3.7 loses no address and assigns none twice while pods come and go', async () => {
    await using node = await startNode({ etcd: 'nowhere', mode: 'standalone' });
    const etcd = await startEtcdMembers(node, '3.6');
    await node.seedPool('pods', '10.83.0.0/24');
    const env = { KV_ENDPOINTS: etcd.endpoints };
    await using scope = new AsyncDisposableStack();
    const agent = MODE === 'agent' ? scope.use(await startAgent(node, { socket: node.socket, env })) : undefined;
    const conf = node.netconf({ kv_endpoints: etcd.endpoints });
    const load = startLoad(node, conf);
    try {
      for (const index of [0, 1, 2]) {
        await load.goesOn();
        await etcd.replace(index, '3.7');
      }
      await until(async () => (await etcd.clusterVersion()).startsWith('3.7.'), 'the cluster is of the new release');
      await load.goesOn();
    } finally {
      await load.end();
    }
    expect(await etcd.versions()).toEqual([0, 1, 2].map(() => expect.stringMatching(/^3\.7\./)));
    expect(load.refusals).toEqual([]);
    await agent?.settled();
    expect((await node.heldAddresses()).toSorted()).toEqual(load.addresses().toSorted());
    expect(new Set(load.addresses()).size).toBe(load.addresses().length);
    await load.removeAll();
    await agent?.settled();
    expect(await node.heldAddresses()).toEqual([]);
    expect(await node.hostLinks()).toEqual([]);
  }, 240_000);
});

interface Load {
  /** Answers of calls that failed. */
  readonly refusals: readonly string[];
  /** Addresses of the pods that are there. */
  addresses(): string[];
  /** Waits until every worker has made further calls. */
  goesOn(): Promise<void>;
  /** Ends after the calls under way; pods stay. */
  end(): Promise<void>;
  removeAll(): Promise<void>;
}

/** Workers that add and remove pods, one call at a time each, until the end. */
function startLoad(node: TestNode, conf: Json): Load {
  const refusals: string[] = [];
  const held = new Map<string, { readonly address: string; readonly netns: string }>();
  const rounds = Array.from({ length: WORKERS }, () => 0);
  const over = new AbortController();
  const remove = async (containerId: string): Promise<void> => {
    const pod = held.get(containerId)!;
    const { status, stdout } = await node.cni('DEL', { containerId, netns: pod.netns, conf });
    if (status === 0) held.delete(containerId);
    else refusals.push(`DEL ${containerId}: ${stdout}`);
  };
  const add = async (containerId: string, netns: string): Promise<void> => {
    const { status, json, stdout } = await node.cni('ADD', { containerId, netns, conf });
    if (status === 0) held.set(containerId, { address: json.ips[0].address.split('/')[0], netns });
    else refusals.push(`ADD ${containerId}: ${stdout}`);
  };
  const work = async (worker: number): Promise<void> => {
    const namespaces = await Promise.all(Array.from({ length: PODS }, async () => (await node.pod()).path));
    for (let round = 0; !over.signal.aborted; round += 1) {
      const slot = round % PODS;
      const previous = `w${String(worker)}-${String(round - PODS)}`;
      if (held.has(previous)) await remove(previous);
      await add(`w${String(worker)}-${String(round)}`, namespaces[slot]!);
      rounds[worker] = round;
    }
  };
  const workers = Promise.all(Array.from({ length: WORKERS }, async (_, worker) => work(worker)));
  return {
    refusals,
    addresses: () => [...held.values()].map(({ address }) => address),
    goesOn: async () => {
      const before = [...rounds];
      await until(() => rounds.every((round, worker) => round >= before[worker]! + 3), 'every worker goes on');
    },
    end: async () => {
      over.abort();
      await workers;
    },
    removeAll: async () => {
      for (const containerId of held.keys()) await remove(containerId);
    },
  };
}
