// A real Kubernetes uses netplug: kubelets start and end pods through containerd on two nodes of a cluster.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Cluster, startCluster } from '../support/cluster.ts';
import { releaseOf } from '../support/components.ts';
import { type Json, until } from '../support/node.ts';

let cluster: Cluster;
beforeAll(async () => {
  cluster = await startCluster();
}, 240_000);
afterAll(async () => cluster?.[Symbol.asyncDispose]());

describe('a cluster of two nodes', () => {
  it('has both ready, each with a range for pods in both families', async () => {
    const { items } = await cluster.get('nodes');
    expect(items.map(({ metadata, spec }: Json) => [metadata.name, spec.podCIDRs])).toEqual([
      ['node-a', [expect.stringMatching(/^10\.244\.\d+\.0\/24$/), expect.stringMatching(/^fd00:10:244:.*\/64$/)]],
      ['node-b', [expect.stringMatching(/^10\.244\.\d+\.0\/24$/), expect.stringMatching(/^fd00:10:244:.*\/64$/)]],
    ]);
    for (const { status } of items)
      expect(status.conditions).toContainEqual(expect.objectContaining({ type: 'Ready', status: 'True' }));
  });

  it('has the API server at its service address on every node', async () => {
    const ask = ['curl', '-sk', '--max-time', '2', 'https://10.96.0.1/version'];
    for (const { machine } of cluster.nodes) {
      await until(async () => (await machine.run(ask)).status === 0, 'kube-proxy has made its rules');
      expect((await machine.run(ask)).stdout).toContain(`"gitVersion": "v${releaseOf('kube-apiserver')}"`);
    }
  });

  it('connects the pods of a deployment on a node by addresses of the pools, and releases these', async () => {
    await cluster.apply([deployment('web', 4)]);
    const pods = await cluster.waitForPodsReady({ selector: 'app=web', count: 4 });
    const ips = pods.flatMap((pod) => ipsOf(pod));
    expect(pods.map((pod) => ipsOf(pod))).toEqual(
      pods.map(() => [expect.stringMatching(/^10\.83\./), expect.stringMatching(/^fd00:83::/)]),
    );
    expect(new Set(ips).size).toBe(8);
    expect(new Set(await cluster.control.heldAddresses())).toEqual(new Set(ips));
    const endpoints = await cluster.control.endpoints();
    expect(endpoints.map(({ spec }) => [spec.pod, spec.node]).sort()).toEqual(
      pods.map(({ metadata, spec }) => [metadata.name, spec.nodeName]).sort(),
    );

    for (const { name } of cluster.nodes) {
      const [one, two] = pods.filter(({ spec }) => spec.nodeName === name);
      for (const ip of ipsOf(two)) await cluster.kubectl('exec', one.metadata.name, '--', 'ping', '-c1', '-W2', ip);
    }

    await cluster.kubectl('delete', 'deployment', 'web');
    await expectNothing();
  });
});

/** Two on each node. */
function deployment(name: string, replicas: number): object {
  const labels = { app: name };
  const spread = { maxSkew: 1, topologyKey: 'kubernetes.io/hostname', whenUnsatisfiable: 'DoNotSchedule' };
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name },
    spec: {
      replicas,
      selector: { matchLabels: labels },
      template: {
        metadata: { labels },
        spec: {
          terminationGracePeriodSeconds: 0,
          topologySpreadConstraints: [{ ...spread, labelSelector: { matchLabels: labels } }],
          containers: [{ name: 'main', image: 'busybox:1.35', command: ['sleep', '100000'] }],
        },
      },
    },
  };
}

function ipsOf({ status }: Json): string[] {
  return status.podIPs.map(({ ip }: Json) => ip);
}

/** Pods end some time after they were deleted. */
async function expectNothing(): Promise<void> {
  const left = async (): Promise<unknown[]> => [
    ...(await cluster.control.heldAddresses()),
    ...(await cluster.control.endpoints()),
    ...(await Promise.all(cluster.nodes.map(async ({ machine }) => machine.hostLinks()))).flat(),
  ];
  let last: unknown[] = [];
  await until(
    async () => {
      last = await left();
      return last.length === 0;
    },
    () => `nothing is left: ${JSON.stringify(last)}`,
    60_000,
    250,
  );
  expect(last).toEqual([]);
}
