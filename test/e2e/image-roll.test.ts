// Agents get another image while pods start: no start of a pod fails, and pods that run lose no packet.
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { VERSION } from '../../src/base/version.ts';
import { CONF_DIR, CONF_NAME } from '../../src/install/places.ts';
import type { Cluster } from '../support/cluster.ts';
import { isReady, sandboxFailures, startEnd, startWaves } from '../support/cluster-load.ts';
import type { ClusterNode } from '../support/cluster-node.ts';
import { builtAgain } from '../support/images.ts';
import { mustRunCtl, startEmptyCluster } from '../support/install-scenes.ts';
import { removeAtEnd } from '../support/janitor.ts';
import { type Json, until } from '../support/node.ts';
import { startUdpStream } from '../support/udp-stream.ts';

/** Where the images come from before and after. */
const REGISTRIES = ['netplug.io', 'mirror.test/netplug'] as const;
/** So many pods start, so many of them at the same time. */
const [STARTS, AT_ONCE] = [200, 20];
const RATES = { lasting: 500, fresh: 50 };
const LOOK_MS = 10;
const ROLL_MS = 400_000;
const AGENTS = ['--namespace=netplug-system', '--selector=app.kubernetes.io/name=netplug-node'];

describe('agents that get another image', () => {
  let scope: AsyncDisposableStack;
  let cluster: Cluster;

  beforeAll(async () => {
    scope = new AsyncDisposableStack();
    const folder = await mkdtemp(join(tmpdir(), 'netplug-roll-'));
    removeAtEnd('folder', folder);
    scope.defer(async () => rm(folder, { recursive: true, force: true }));
    cluster = scope.use(await startEmptyCluster({ images: await builtAgain(folder, REGISTRIES[1]) }));
    await mustRunCtl(cluster, ['install', 'cluster', '--method', 'operator', '--yes']);
    await cluster.waitForNodesReady();
  }, 400_000);
  afterAll(async () => scope?.disposeAsync());

  /** Since when each node is ready. */
  const readySince = async (): Promise<readonly string[]> => {
    const { items } = await cluster.get('nodes');
    return items.map(({ metadata, status }: Json) => {
      const { status: is, lastTransitionTime } = status.conditions.find(({ type }: Json) => type === 'Ready');
      return `${metadata.name} ${is} ${lastTransitionTime}`;
    });
  };
  const agentPods = async (): Promise<readonly Json[]> => (await cluster.get('pods', ...AGENTS)).items;
  /** Waits until an agent of that registry, and no other one, runs on every node; returns the identity of its image. */
  const roll = async (registry: string): Promise<string> => {
    const patch = JSON.stringify({ spec: { registry } });
    await cluster.kubectl('patch', 'installations.netplug.io/default', '--type=merge', `--patch=${patch}`);
    let pods: readonly Json[] = [];
    await until(
      async () => {
        pods = await agentPods();
        return (
          pods.length === cluster.nodes.length && pods.every((pod) => isReady(pod) && imageOf(pod).startsWith(registry))
        );
      },
      () => `agents of ${registry} run:\n${pods.map(describePod).join('\n')}`,
      ROLL_MS,
      500,
    );
    return imageIdsOf(pods).join();
  };
  it(`fail no start of a pod and lose no packet while ${String(STARTS)} pods start`, async () => {
    const a = await startEnd(cluster, cluster.node(0), 'end-node-a');
    const b = await startEnd(cluster, cluster.node(1), 'end-node-b');
    expect(await a.machine.run(['nsenter', `--net=${a.netns}`, 'ping', '-c', '1', b.address])).toMatchObject({
      status: 0,
    });
    const before = { failures: await sandboxFailures(cluster), ready: await readySince(), agents: await agentPods() };
    expect(before.agents.map(imageOf)).toEqual(Array(2).fill(`${REGISTRIES[0]}/netplug-node:${VERSION}`));
    using conflists = watchConflists(cluster.nodes);
    const stream = await startUdpStream([a, b], RATES);

    const began = performance.now();
    const state = { rolls: 0, areWavesOver: false };
    const imageIds = [imageIdsOf(before.agents).join()];
    const rollOn = async (): Promise<void> => {
      for (; !state.areWavesOver; state.rolls += 1) imageIds.push(await roll(REGISTRIES[(state.rolls + 1) % 2]!));
    };
    const waves = startWaves(cluster, AT_ONCE, (so) => so >= STARTS && state.rolls > 0);
    const [started] = await Promise.all([waves.finally(() => (state.areWavesOver = true)), rollOn()]);
    const { rolls } = state;
    const seconds = (performance.now() - began) / 1000;
    const { counts, refused, seconds: streamed } = await stream.stop();
    const figures = { started, rolls, seconds, counts, looks: conflists.looks() };
    process.stdout.write(`${JSON.stringify(figures)}\n`);

    expect(started).toBeGreaterThanOrEqual(STARTS);
    expect({ refused, lost: counts.filter(({ sent, arrived }) => sent !== arrived) }).toEqual({
      refused: '',
      lost: [],
    });
    for (const { name, sent } of counts) {
      const rate = name.endsWith('lasting') ? RATES.lasting : RATES.fresh;
      expect(sent).toBeGreaterThan((rate * streamed) / 4);
    }
    expect(await sandboxFailures(cluster)).toEqual(before.failures);
    expect(await readySince()).toEqual(before.ready);
    expect(conflists.faults()).toEqual([]);
    const agents = await agentPods();
    expect(imageIds).toEqual(imageIds.map((_, index) => imageIds[index % 2]));
    expect(imageIds[1]).not.toBe(imageIds[0]);
    expect(agents.map(({ status }) => status.containerStatuses[0].restartCount)).toEqual([0, 0]);
  }, 900_000);
});

function describePod({ metadata: { name, deletionTimestamp = '' }, spec, status }: Json): string {
  const states = [...(status.initContainerStatuses ?? []), ...(status.containerStatuses ?? [])];
  const shown = { image: spec.containers[0].image, deletionTimestamp, conditions: status.conditions, states };
  return `${name} on ${spec.nodeName}: ${JSON.stringify(shown)}`;
}

function imageOf({ spec }: Json): string {
  return spec.containers[0].image;
}

/** Those that the pods run. */
function imageIdsOf(pods: readonly Json[]): readonly string[] {
  return [...new Set(pods.map(({ status }) => status.containerStatuses[0].imageID))];
}

/** Reads the configuration of each node all the time, as the runtime does when it changes. */
function watchConflists(nodes: readonly ClusterNode[]): Disposable & { looks(): number; faults(): readonly string[] } {
  const faults = new Set<string>();
  let looks = 0;
  const timer = setInterval(() => {
    for (const { name, machine } of nodes) {
      looks += 1;
      try {
        const { plugins } = JSON.parse(readFileSync(join(machine.dir, CONF_DIR, CONF_NAME), 'utf8'));
        if (plugins[0].type !== 'netplug') faults.add(`${name}: ${JSON.stringify(plugins)}`);
      } catch (cause) {
        faults.add(`${name}: ${String(cause)}`);
      }
    }
  }, LOOK_MS);
  return { looks: () => looks, faults: () => [...faults], [Symbol.dispose]: () => clearInterval(timer) };
}
