// A real cluster goes from an older release of netplug to this one and back, while pods start and datagrams flow.
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { VERSION } from '../../src/base/version.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { partOf } from '../runs.ts';
import type { Cluster } from '../support/cluster.ts';
import { startClusterDns } from '../support/cluster-dns.ts';
import type { ClusterNode } from '../support/cluster-node.ts';
import { expectConnected, isReady, sandboxFailures, startEnd, startWaves } from '../support/cluster-load.ts';
import { program } from '../support/components.ts';
import { connectByPtp, PTP_PREFIX, routePodCidrs } from '../support/other-plugin.ts';
import { NETPLUGCTL } from '../support/built.ts';
import { administratorOf, mustRunCtl, runCtl, startEmptyCluster } from '../support/install-scenes.ts';
import { type Json, until } from '../support/node.ts';
import { diceOf } from '../support/soak/dice.ts';
import { buildRelease, type Release } from '../support/release.ts';
import { type StreamEnd, startUdpStream } from '../support/udp-stream.ts';

const OLD = 'v3.26.4';
const RATES = { lasting: 200, fresh: 20 };
/** Pods that start at the same time. */
const AT_ONCE = 8;
const LOOK_MS = 250;
const LOSS_MS = 2000;
const SEED = 20261127;
const AGENTS = ['--namespace=netplug-system', '--selector=app.kubernetes.io/name=netplug-node'];

interface Method {
  readonly argv: readonly string[];
  /** Pools of the Installation from which it is installed. */
  readonly pools?: readonly object[];
  readonly env?: (cluster: Cluster) => Readonly<Record<string, string>>;
  /** As the plan names it. */
  readonly shown: string;
  /** What another plugin does before netplug is there. */
  readonly prepare?: (cluster: Cluster) => Promise<unknown>;
  /** Whether pods have addresses of netplug, which are proved then. */
  readonly hasAddresses: boolean;
}

const MANIFEST = ['--method', 'manifest'];
const ETCD = {
  argv: [...MANIFEST, '--datastore', 'kvv3'],
  env: ({ etcdUrl }: Cluster) => ({ KV_ENDPOINTS: etcdUrl }),
};
const METHODS: Readonly<Record<string, Method>> = {
  manifest: { argv: MANIFEST, shown: 'by manifest, policy-and-networking', hasAddresses: true },
  operator: { argv: ['--method', 'operator'], shown: 'by the operator, policy-and-networking', hasAddresses: true },
  chart: {
    argv: ['--method', 'chart'],
    env: () => ({ HELM: program('helm') }),
    shown: 'by the chart, policy-and-networking',
    hasAddresses: true,
  },
  'manifest in etcd': { ...ETCD, shown: 'by manifest, policy-and-networking', hasAddresses: true },
  'manifest with BGP': {
    argv: MANIFEST,
    pools: [{ cidr: '10.87.0.0/16', encapsulation: 'None' }],
    shown: 'by manifest, policy-and-networking',
    hasAddresses: true,
  },
  'manifest with a second plugin': {
    argv: [...MANIFEST, '--variant', 'second-plugin'],
    shown: 'by manifest, second-plugin',
    prepare: routePodCidrs,
    hasAddresses: false,
  },
  'manifest in etcd with a second plugin': {
    ...ETCD,
    argv: [...ETCD.argv, '--variant', 'second-plugin'],
    shown: 'by manifest, second-plugin',
    prepare: routePodCidrs,
    hasAddresses: false,
  },
  'manifest with policy only': {
    argv: [...MANIFEST, '--variant', 'policy-only', '--interface-prefix', PTP_PREFIX],
    shown: 'by manifest, policy-only',
    prepare: connectByPtp,
    hasAddresses: false,
  },
};

describe('an upgrade of a real cluster', () => {
  let older: Release;

  beforeAll(async () => {
    older = await buildRelease({ version: OLD, parts: 'executables-and-images' });
  }, 600_000);
  afterAll(async () => older?.[Symbol.asyncDispose]());

  it.each(partOf(Object.keys(METHODS)))(
    'by the method %s and back loses no packet and fails no start of a pod',
    async (name) => {
      const { argv, pools, env: more, shown, prepare, hasAddresses } = METHODS[name]!;
      await using cluster = await startEmptyCluster({ images: older.images, proxyMode: 'iptables' });
      await prepare?.(cluster);
      const env = { NETPLUG_STATE_DIR: join(cluster.control.dir, 'state'), ...more?.(cluster) };
      const must = async (tool: string, ...args: string[]): Promise<string> => mustRunCtl(cluster, args, { env, tool });
      const upgrade = async (...args: string[]): Promise<string> => must(NETPLUGCTL, 'upgrade', ...args);
      /** Starts a pod on each node. */
      const startPods = async (what: string): Promise<readonly [StreamEnd, StreamEnd]> => [
        await startEnd(cluster, cluster.node(0), `${what}-a`),
        await startEnd(cluster, cluster.node(1), `${what}-b`),
      ];

      const olderTool = join(older.bin, 'netplugctl');
      const written = pools === undefined ? [] : ['--spec', await writeInstallation(cluster, pools)];
      await must(olderTool, 'install', 'cluster', ...argv, ...written, '--yes');
      await cluster.waitForNodesReady();
      await startClusterDns(cluster);
      const before = await startPods('before');
      await expectConnected(before);
      const failed = await sandboxFailures(cluster);
      const agents = watchAgents(cluster);
      const stream = await startUdpStream(before, RATES);
      const state = { isOver: false };
      const waves = startWaves(cluster, AT_ONCE, () => state.isOver);
      // Awaited below; until then another failure may come first.
      waves.catch(() => undefined);
      try {
        expect(await upgrade('plan')).toContain(`Upgrade from ${OLD} to ${VERSION}: installed ${shown},`);
        const { refused, hazards } = JSON.parse(await upgrade('preflight', '-o', 'json'));
        expect({ refused, blocking: hazards.filter(({ severity }: Json) => severity === 'error') }).toEqual({
          refused: false,
          blocking: [],
        });
        const { steps, kills, said } = await applyWhileKilled(cluster, env);
        process.stdout.write(`${JSON.stringify({ name, steps, kills })}\n`);
        expect(kills).toBeGreaterThanOrEqual(steps);
        expect(said).toContain('an interrupted upgrade of this cluster goes on');
        expect(said).toMatch(
          /network proved: 2 nodes, .*, packets of full size, Service .*, DNS, policy(, addresses)?\n/,
        );
        expect(said.includes(', policy, addresses\n')).toBe(hasAddresses);
        expect(said).toContain('packets between pods of 2 nodes: none lost');
        const order = await agents.inOrder(VERSION);
        expect(order).toEqual(['node-a', 'node-b']);
        const upgraded = await startPods('upgraded');
        await expectConnected([...before, ...upgraded]);
        expect(await upgrade('verify')).toContain(`cluster version ${VERSION}`);
        expect(await agentImages(cluster)).toEqual(Array(2).fill(`netplug.io/netplug-node:${VERSION}`));
        expect(await must(NETPLUGCTL, 'version')).toContain(VERSION);

        expect(await upgrade('rollback', '--yes')).toContain(`the cluster has release ${OLD} again`);
        await until(
          async () => (await agentImages(cluster)).every((image) => image.endsWith(`:${OLD}`)),
          `agents have ${OLD}`,
          180_000,
          LOOK_MS,
        );
        await expectConnected([...before, ...upgraded, ...(await startPods('back'))]);
        const version = await must(olderTool, 'version');
        expect(version).toContain(OLD);
        expect(version).not.toContain(VERSION);
      } finally {
        state.isOver = true;
      }
      const started = await waves;
      const { counts, refused, seconds } = await stream.stop();
      const { restarts } = await agents.stop();
      process.stdout.write(`${JSON.stringify({ name, started, seconds, counts })}\n`);
      expect(started).toBeGreaterThan(0);
      expect({ refused, lost: counts.filter(({ sent, arrived }) => sent !== arrived) }).toEqual({
        refused: '',
        lost: [],
      });
      for (const { name: flow, sent } of counts) {
        const rate = flow.endsWith('lasting') ? RATES.lasting : RATES.fresh;
        expect(sent).toBeGreaterThan((rate * seconds) / 4);
      }
      expect(await sandboxFailures(cluster)).toEqual(failed);
      expect(restarts).toEqual([]);
    },
    1_500_000,
  );

  it.each(partOf(['first']))(
    'stops after the %s node when packets are lost, and goes on when it is asked to',
    async () => {
      await using cluster = await startEmptyCluster({ images: older.images, proxyMode: 'iptables' });
      const env = { NETPLUG_STATE_DIR: join(cluster.control.dir, 'state') };
      await mustRunCtl(cluster, ['install', 'cluster', '--method', 'manifest', '--yes'], {
        env,
        tool: join(older.bin, 'netplugctl'),
      });
      await cluster.waitForNodesReady();
      const apply = ['upgrade', 'apply', '--yes'];
      const stopping = runCtl(cluster, apply, { env });
      await until(async () => (await agentImages(cluster)).some(isNew), 'the first agent is new', 300_000, LOOK_MS);
      await dropWatched(cluster.node(1));
      const { status, stderr } = await stopping;
      expect({ status, stderr }).toMatchObject({ status: 1 });
      expect(stderr).toContain('upgrade/packets-lost');
      expect(stderr).toMatch(/node-[ab]: udp:.*: \d+ of \d+ datagrams lost within \d\.\d s from /);
      expect((await agentImages(cluster)).filter(isNew)).toHaveLength(1);
      expect(await mustRunCtl(cluster, apply, { env })).toContain('packets between pods of 2 nodes: none lost');
      expect((await agentImages(cluster)).filter(isNew)).toHaveLength(2);
    },
    600_000,
  );
});

/** Returns the file with an Installation of these pools. */
async function writeInstallation({ control }: Cluster, ipPools: readonly object[]): Promise<string> {
  const path = join(control.dir, 'installation.json');
  const installation = { apiVersion: 'netplug.io/v3', kind: 'Installation', metadata: { name: 'default' } };
  await writeFile(path, JSON.stringify({ ...installation, spec: { calicoNetwork: { ipPools } } }));
  return path;
}

function isNew(image: string): boolean {
  return image.endsWith(`:${VERSION}`);
}

/** Drops the datagrams that `apply` watches, at a node of the cluster, for a while. */
async function dropWatched({ machine }: ClusterNode): Promise<void> {
  await machine.exec('nft', 'add table inet loss; add chain inet loss c { type filter hook forward priority -300; }');
  await machine.exec('nft', 'add rule inet loss c udp dport 8080 drop');
  await sleep(LOSS_MS);
  await machine.exec('nft', 'delete table inet loss');
}

/** Kills the tool in every step, a moment after a record of its progress, until it has nothing left to do. */
async function applyWhileKilled(
  cluster: Cluster,
  env: Readonly<Record<string, string>>,
): Promise<{ readonly steps: number; readonly kills: number; readonly said: string }> {
  const dice = diceOf(SEED);
  const seen = new Set<string>();
  const all = { steps: 0, kills: 0, said: '' };
  const hasNewRecord = async (): Promise<boolean> => {
    const record = await readProgress(join(env['NETPLUG_STATE_DIR']!, 'plans'));
    if (record === undefined || seen.has(record.progress)) return false;
    seen.add(record.progress);
    all.steps = record.steps;
    return true;
  };
  for (;;) {
    const tool = await cluster.control.start([NETPLUGCTL, 'upgrade', 'apply', '--yes'], {
      env: { ...administratorOf(cluster), ...env },
    });
    const state = { hasEnded: false };
    void tool.ended.then(() => (state.hasEnded = true));
    await until(
      async () => state.hasEnded || (await hasNewRecord()),
      () => `a step begins or ends; the tool says:\n${all.said}${tool.log()}`,
      600_000,
      20,
    );
    const isKilled = !state.hasEnded;
    if (isKilled) {
      all.kills += 1;
      await sleep(dice.between(0, 1500));
      await tool.stop('KILL');
    }
    all.said += tool.log();
    if (isKilled) continue;
    expect(all.said).toContain(`the cluster has release ${VERSION}`);
    return all;
  }
}

/** Returns how far the plan in the folder is; undefined without one. */
async function readProgress(
  folder: string,
): Promise<{ readonly progress: string; readonly steps: number } | undefined> {
  const [name] = (await readdir(folder).catch(() => [])).filter((each) => each.endsWith('.json'));
  const text = name === undefined ? '' : await readFile(join(folder, name), 'utf8').catch(() => '');
  if (text === '') return undefined;
  const { plan, steps } = JSON.parse(text);
  return {
    progress: JSON.stringify(steps),
    steps: plan.stages.flatMap((stage: Json) => stage.steps).filter(({ kind }: Json) => kind === 'write').length,
  };
}

async function agentImages(cluster: Cluster): Promise<readonly string[]> {
  const { items } = await cluster.get('pods', ...AGENTS);
  return items.map(({ spec }: Json) => spec.containers[0].image);
}

interface AgentWatch {
  /** Nodes in the order in which a ready agent of the release was first seen; each had to wait for the one before. */
  inOrder(release: string): Promise<readonly string[]>;
  stop(): Promise<{ readonly restarts: readonly string[] }>;
}

/** Looks at the agents all the time. */
function watchAgents(cluster: Cluster): AgentWatch {
  const [seen, ready, restarts] = [new Map<string, string[]>(), new Map<string, string[]>(), new Set<string>()];
  const state = { isOver: false, early: [] as string[] };
  const note = (all: Map<string, string[]>, image: string, node: string): void => {
    const nodes = all.get(image) ?? [];
    if (!nodes.includes(node)) all.set(image, [...nodes, node]);
  };
  const look = async (): Promise<void> => {
    const { items } = await cluster.get('pods', ...AGENTS);
    const agents = items.map((pod: Json) => [pod, pod.spec.containers[0].image, pod.spec.nodeName ?? ''] as const);
    // One look may show that an agent is ready and that the next one was started because of it, in any order.
    for (const [pod, image, node] of agents) if (isReady(pod)) note(ready, image, node);
    for (const [pod, image, node] of agents) {
      const before = seen.get(image) ?? [];
      if (!before.includes(node) && before.some((each) => ready.get(image)?.includes(each) !== true))
        state.early.push(`${image} on ${node} before the node before was ready`);
      note(seen, image, node);
      const { restartCount = 0 } = pod.status.containerStatuses?.[0] ?? {};
      if (restartCount > 0) restarts.add(`${pod.metadata.name} has restarted`);
    }
  };
  const ended = (async (): Promise<void> => {
    for (; !state.isOver; await new Promise((done) => setTimeout(done, LOOK_MS))) await look();
  })();
  ended.catch(() => undefined);
  return {
    inOrder: async (release) => {
      await look();
      expect(state.early).toEqual([]);
      return ready.get(`netplug.io/netplug-node:${release}`) ?? [];
    },
    stop: async () => {
      state.isOver = true;
      await ended;
      return { restarts: [...restarts] };
    },
  };
}
