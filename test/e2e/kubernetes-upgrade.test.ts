// Kubernetes goes from the oldest supported release to the newest beneath netplug, and nodes lose their power.
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { partOf } from '../runs.ts';
import type { Cluster } from '../support/cluster.ts';
import {
  expectConnected,
  findEnd,
  pingStatus,
  sandboxFailures,
  startedAgain,
  startEnd,
  startWaves,
  unreachable,
} from '../support/cluster-load.ts';
import { kubernetesProgram } from '../support/components.ts';
import { mustRunCtl, startEmptyCluster } from '../support/install-scenes.ts';
import { type Json, until } from '../support/node.ts';
import { type StreamEnd, startUdpStream } from '../support/udp-stream.ts';

const RATES = { lasting: 200, fresh: 20 };
/** Pods that start at the same time. */
const AT_ONCE = 6;
const LOOK_MS = 500;
const LASTING = '--selector=kind=lasting';

interface Method {
  readonly argv: readonly string[];
  readonly env?: (cluster: Cluster) => Readonly<Record<string, string>>;
}

const METHODS: Readonly<Record<string, Method>> = {
  'the operator': { argv: ['--method', 'operator'] },
  'a manifest in etcd': {
    argv: ['--method', 'manifest', '--datastore', 'kvv3'],
    env: ({ etcdUrl }) => ({ KV_ENDPOINTS: etcdUrl }),
  },
};

const STATE = 'ip -br addr; ip route; ip rule; bridge fdb; ip neigh';

/** Its pods accept no connection. */
const CLOSED = {
  apiVersion: 'networking.k8s.io/v1',
  kind: 'NetworkPolicy',
  metadata: { name: 'closed' },
  spec: { podSelector: { matchLabels: { app: 'closed' } }, policyTypes: ['Ingress'] },
};

describe('Kubernetes beneath netplug', () => {
  it.each(partOf(Object.keys(METHODS)))(
    'installed by %s, goes from 1.34 to the newest release node by node, and every node reboots',
    async (name) => {
      // Both must be there before anything starts.
      for (const release of ['1.34', 'newest'] as const) kubernetesProgram('kubelet', release);
      const { argv, env: more } = METHODS[name]!;
      await using cluster = await startEmptyCluster({ release: '1.34' });
      const env = { NETPLUG_STATE_DIR: join(cluster.control.dir, 'state'), ...more?.(cluster) };
      const must = async (...args: string[]): Promise<string> => mustRunCtl(cluster, args, { env });
      await must('install', 'cluster', ...argv, '--yes');
      await cluster.waitForNodesReady();
      expect(await kubelets(cluster)).toEqual([expect.stringMatching(/^v1\.34\./), expect.stringMatching(/^v1\.34\./)]);

      const [nodeA, nodeB] = [cluster.node(0), cluster.node(1)];
      await cluster.apply([CLOSED]);
      const before = [await startEnd(cluster, nodeA, 'a'), await startEnd(cluster, nodeB, 'b')] as const;
      const closed = await startEnd(cluster, nodeB, 'closed');
      await cluster.kubectl('label', 'pods', 'a', 'b', 'closed', 'kind=lasting');
      await expectConnected(before);
      await expectClosed(before, closed);

      const failed = await sandboxFailures(cluster);
      const stream = await startUdpStream(before, RATES);
      await cluster.changeControlPlane('newest');
      const state = { isOver: false, started: 0 };
      const waves = startWaves(cluster, AT_ONCE, (started) => {
        state.started = started;
        return state.isOver;
      });
      // Awaited below; until then another failure may come first.
      waves.catch(() => undefined);
      const fresh: StreamEnd[] = [];
      for (const [index, node] of cluster.nodes.entries()) {
        const startedBefore = state.started;
        await node.changeKubernetes('newest');
        await until(
          async () => !(await kubelets(cluster))[index]!.startsWith('v1.34.'),
          `${node.name} has the newest kubelet`,
          120_000,
          LOOK_MS,
        );
        await cluster.waitForNodesReady();
        fresh.push(await startEnd(cluster, node, `fresh-${node.name}`));
        await expectConnected([...before, ...fresh]);
        await until(
          () => state.started > startedBefore + AT_ONCE,
          'a whole wave of pods starts meanwhile',
          180_000,
          LOOK_MS,
        );
      }
      await expectClosed(before, closed);
      state.isOver = true;
      const started = await waves;
      const { counts, refused, seconds } = await stream.stop();
      process.stdout.write(`${JSON.stringify({ name, started, seconds, counts })}\n`);
      expect(started).toBeGreaterThan(0);
      expect({ refused, lost: counts.filter(({ sent, arrived }) => sent !== arrived) }).toEqual({
        refused: '',
        lost: [],
      });
      for (const { sent } of counts) expect(sent).toBeGreaterThan(seconds);
      expect(await sandboxFailures(cluster)).toEqual(failed);
      expect(await restarts(cluster)).toEqual([0, 0, 0]);
      await cluster.kubectl('delete', 'deployment/wave', 'pod/fresh-node-a', 'pod/fresh-node-b');

      await startedAgain(cluster, [LASTING, '--field-selector=spec.nodeName=node-b'], async () => nodeB.reboot());
      await cluster.waitForNodesReady();
      expect(await restarts(cluster)).toEqual([0, 1, 1]);
      const afterOne = await Promise.all([findEnd(cluster, nodeA, 'a'), findEnd(cluster, nodeB, 'b')]);
      expect(afterOne[0].address).toBe(before[0].address);
      await untilConnected(cluster, afterOne);
      await expectClosed(afterOne, await findEnd(cluster, nodeB, 'closed'));

      await startedAgain(cluster, [LASTING], async () => Promise.all(cluster.nodes.map((node) => node.reboot())));
      expect(await restarts(cluster)).toEqual([1, 2, 2]);
      const afterAll = await Promise.all([findEnd(cluster, nodeA, 'a'), findEnd(cluster, nodeB, 'b')]);
      await untilConnected(cluster, afterAll);
      await expectClosed(afterAll, await findEnd(cluster, nodeB, 'closed'));
      await expectNothingLeaked(must);
    },
    1_500_000,
  );
});

/** Versions of the kubelets, in the order of the nodes. */
async function kubelets(cluster: Cluster): Promise<readonly string[]> {
  const { items } = await cluster.get('nodes');
  return items.map(({ status }: Json) => status.nodeInfo.kubeletVersion);
}

/** How often each lasting pod was started anew, in the order of their names. */
async function restarts(cluster: Cluster): Promise<readonly number[]> {
  const { items } = await cluster.get('pods', LASTING);
  return items.map(({ status }: Json) => status.containerStatuses[0].restartCount);
}

/** Routes between nodes come with their agents, which start as pods do. */
async function untilConnected(cluster: Cluster, ends: readonly StreamEnd[]): Promise<void> {
  const startMs = performance.now();
  let missing: readonly string[] = [];
  try {
    await until(
      async () => (missing = await unreachable(ends)).length === 0,
      () => missing.join(', '),
      60_000,
      LOOK_MS,
    );
  } catch (cause) {
    const pods = await cluster.kubectl('get', 'pods', '--all-namespaces', '--output=wide');
    const states = await Promise.all(ends.map(async ({ machine }) => (await machine.run(['sh', '-c', STATE])).stdout));
    throw new Error([pods, ...states].join('\n'), { cause });
  }
  process.stdout.write(`connected ${String(Math.round(performance.now() - startMs))} ms after the pods were ready\n`);
}

/** The closed pod reaches the other pods, and none of them reaches it. */
async function expectClosed(from: readonly StreamEnd[], closed: StreamEnd): Promise<void> {
  for (const other of from) {
    const found = { out: await pingStatus(closed, other.address), in: await pingStatus(other, closed.address) };
    expect({ other: other.address, ...found }).toEqual({ other: other.address, out: 0, in: 1 });
  }
}

/** Every address that is given belongs to something that is there. */
async function expectNothingLeaked(must: (...args: string[]) => Promise<string>): Promise<void> {
  expect(await must('ipam', 'check', '--no-kernel')).toContain('nothing wrong');
}
