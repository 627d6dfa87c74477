// What goes on in a cluster while something is done to netplug: pods that talk to each other, and pods that start.
import { expect } from 'vitest';
import type { Cluster } from './cluster.ts';
import type { ClusterNode } from './cluster-node.ts';
import { type Json, until } from './node.ts';
import type { StreamEnd } from './udp-stream.ts';

const WAVE_SECONDS = 180;
const EVENTS = ['FailedCreatePodSandBox', 'FailedKillPod'];

/** Starts a pod on the node, and returns where it is. */
export async function startEnd(cluster: Cluster, { name, machine }: ClusterNode, pod: string): Promise<StreamEnd> {
  await cluster.apply([
    {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: pod, labels: { app: pod } },
      spec: { nodeName: name, containers: [{ name: 'main', image: 'busybox:1.35', command: ['sleep', '10000'] }] },
    },
  ]);
  return findEnd(cluster, { machine }, pod);
}

/** Waits until the pod of that name and label is ready on the machine, and returns where it is. */
export async function findEnd(
  cluster: Cluster,
  { machine }: Pick<ClusterNode, 'machine'>,
  pod: string,
): Promise<StreamEnd> {
  const [started] = await cluster.waitForPodsReady({ selector: `app=${pod}`, count: 1, deadlineMs: 180_000 });
  const address = started.status.podIP;
  const search = `for one in /run/netns/*; do nsenter --net=$one ip -o addr | grep -qF " ${address}/" && echo $one; done`;
  const found = await machine.run(['sh', '-c', search]);
  return { machine, address, netns: found.stdout.trim() };
}

/** Does something after which the pods that are selected start again, such as a reboot, and waits until all of them have. */
export async function startedAgain(
  cluster: Cluster,
  selection: readonly string[],
  act: () => Promise<unknown>,
): Promise<void> {
  const startsOf = async (): Promise<ReadonlyMap<string, string>> => {
    const { items } = await cluster.get('pods', ...selection);
    return new Map(
      items.map((pod: Json) => [
        pod.metadata.name,
        isReady(pod) ? (pod.status.containerStatuses[0].state.running?.startedAt ?? '') : '',
      ]),
    );
  };
  const before = await startsOf();
  await act();
  let now = before;
  await until(
    async () => {
      now = await startsOf();
      return [...before].every(([pod, at]) => (now.get(pod) ?? '') !== '' && now.get(pod) !== at);
    },
    () => `pods run again: ${JSON.stringify([...now])}`,
    300_000,
    500,
  );
}

/** Every pod reaches every other one. */
export async function expectConnected(ends: readonly StreamEnd[]): Promise<void> {
  expect(await unreachable(ends)).toEqual([]);
}

/** Pairs of which the first does not reach the second. */
export async function unreachable(ends: readonly StreamEnd[]): Promise<readonly string[]> {
  const pairs: string[] = [];
  for (const { machine, netns, address } of ends) {
    for (const other of ends) {
      if (other.address === address) continue;
      if ((await pingStatus({ machine, netns }, other.address)) !== 0) pairs.push(`${address} -> ${other.address}`);
    }
  }
  return pairs;
}

/** Sends one ping, and returns its exit status: 0 when it was answered, 1 when it was not. */
export async function pingStatus(
  { machine, netns }: Pick<StreamEnd, 'machine' | 'netns'>,
  address: string,
): Promise<number | undefined> {
  return (await machine.run(['nsenter', `--net=${netns}`, 'ping', '-c', '1', '-W', '2', address])).status;
}

/** Pods that the runtime could not connect or disconnect, as often as it happened. */
export async function sandboxFailures(cluster: Cluster): Promise<readonly string[]> {
  const { items } = await cluster.get('events', '--all-namespaces');
  return items
    .filter(({ reason }: Json) => EVENTS.includes(reason))
    .map(({ reason, message, count, involvedObject: { name } }: Json) => `${name} ${reason} ${count}: ${message}`);
}

/** Starts so many pods at the same time, again and again, each wave after the one before has ended; returns how many have started. */
export async function startWaves(
  cluster: Cluster,
  atOnce: number,
  isOver: (started: number) => boolean,
): Promise<number> {
  const seen = new Set<string>();
  for (let wave = 1; !isOver(seen.size); wave += 1) {
    await cluster.apply([waveOf(wave, atOnce)]);
    await cluster.kubectl('rollout', 'status', 'deployment/wave', `--timeout=${String(WAVE_SECONDS)}s`);
    const { items } = await cluster.get('pods', `--selector=wave=${String(wave)}`);
    for (const pod of items) {
      expect(isReady(pod)).toBe(true);
      seen.add(pod.metadata.uid);
    }
  }
  return seen.size;
}

export function isReady({ status }: Json): boolean {
  return status.conditions?.some(({ type, status: is }: Json) => type === 'Ready' && is === 'True') === true;
}

function waveOf(wave: number, replicas: number): object {
  const labels = { app: 'wave', wave: String(wave) };
  const spread = { maxSkew: 1, topologyKey: 'kubernetes.io/hostname', whenUnsatisfiable: 'ScheduleAnyway' };
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: 'wave' },
    spec: {
      replicas,
      selector: { matchLabels: { app: 'wave' } },
      // All pods of a wave start at the same time, and those of the one before end when they run.
      strategy: { rollingUpdate: { maxSurge: '100%', maxUnavailable: 0 } },
      template: {
        metadata: { labels },
        spec: {
          terminationGracePeriodSeconds: 0,
          topologySpreadConstraints: [{ ...spread, labelSelector: { matchLabels: labels } }],
          containers: [{ name: 'main', image: 'busybox:1.35', command: ['sleep', '10000'] }],
        },
      },
    },
  };
}
