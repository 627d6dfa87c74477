// The built tool upgrades a fleet of clusters, each with an API server of its own, in waves.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { watch } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Json } from '../support/node.ts';
import { NETPLUGCTL } from '../support/built.ts';
import {
  agentsOf,
  NEW,
  nodeStatus,
  OLD,
  patchStatus,
  type Ran,
  requireBuild,
  runTool,
  settled,
  startUpgradableCluster,
  type UpgradableCluster,
} from '../support/upgradable-cluster.ts';

const NAMES = ['pilot', 'north', 'south'] as const;
type Name = (typeof NAMES)[number];
const NODES = ['node-a', 'node-b'];

let scope: AsyncDisposableStack;
let folder: string;
let clusters: Readonly<Record<Name, UpgradableCluster>>;
/** Clusters whose probe pods fail. */
const broken = new Set<Name>();
let env: Record<string, string>;

beforeAll(async () => {
  requireBuild();
  await using starting = new AsyncDisposableStack();
  folder = await mkdtemp(join(tmpdir(), 'netplug-fleet-'));
  starting.defer(async () => rm(folder, { recursive: true, force: true }));
  const started: Partial<Record<Name, UpgradableCluster>> = {};
  for (const name of NAMES) {
    const failure = (pod: string): string | undefined =>
      broken.has(name) && pod.startsWith('netplug-probe-client') ? 'http://10.244.0.7:8080/: timed out' : undefined;
    started[name] = starting.use(await startUpgradableCluster({ nodes: NODES, failure }));
  }
  clusters = started as Record<Name, UpgradableCluster>;
  // A variable of one cluster must not lead to it.
  env = {
    PATH: process.env['PATH'] ?? '',
    HOME: folder,
    KV_ENDPOINTS: 'http://127.0.0.1:1',
    NETPLUG_STATE_DIR: join(folder, 'state'),
  };
  scope = starting.move();
}, 240_000);
beforeEach(async () => {
  broken.clear();
  await writeFleet({ proof: false });
});
afterAll(async () => scope?.disposeAsync());

/** With `proof`, each upgrade tries the network and watches packets. */
async function writeFleet({ proof }: { readonly proof: boolean }): Promise<void> {
  const { pilot, north, south } = clusters;
  const waves = [
    { name: 'first', clusters: [{ name: 'pilot', kubeconfig: pilot.server.kubeconfig, proof }] },
    {
      name: 'second',
      atOnce: 2,
      clusters: [
        { name: 'north', kubeconfig: north.server.kubeconfig, context: 'netplug', proof },
        { name: 'south', kubeconfig: south.server.kubeconfig, proof },
      ],
    },
  ];
  await writeFile(join(folder, 'fleet.yaml'), JSON.stringify({ waves }));
}

async function fleet(action: string, ...more: readonly string[]): Promise<Ran> {
  return runTool(['upgrade', 'fleet', action, '-f', join(folder, 'fleet.yaml'), ...more], env);
}

/** Applies, and returns the result of each cluster. */
async function apply(...more: readonly string[]): Promise<{ results: Json; reasons: Json; ran: Ran }> {
  const ran = await fleet('apply', '--yes', '-o', 'json', ...more);
  const summary = JSON.parse(ran.stdout);
  const pick = (key: string): Json =>
    Object.fromEntries(summary.clusters.map((each: Json) => [each.cluster, each[key]]));
  return { results: pick('result'), reasons: pick('reason'), ran };
}

async function releases(name: Name): Promise<readonly string[]> {
  return (await agentsOf(clusters[name].server))
    .map(({ node, image }) => `${node} ${image.split(':')[1] ?? ''}`)
    .sort();
}

const at = (release: string): readonly string[] => NODES.map((node) => `${node} ${release}`);

async function backTo(release: string): Promise<void> {
  for (const name of NAMES) {
    const { server } = clusters[name];
    if ((await releases(name)).every((each) => each.endsWith(release))) continue;
    const own = { ...env, KV_ENDPOINTS: '', KUBECONFIG: server.kubeconfig };
    const { status, stderr } = await runTool(['upgrade', 'rollback', '--yes'], own);
    if (status !== 0) throw new Error(stderr);
    await settled(server, release, NODES.length);
  }
}

/** Whether the node of a cluster is ready. */
async function setReady(name: Name, isReady: boolean): Promise<void> {
  const conditions = [{ type: 'Ready', status: isReady ? 'True' : 'False', reason: 'Kubelet' }];
  await patchStatus(clusters[name].server, ['node', 'node-b'], { ...nodeStatus('172.20.0.12'), conditions });
}

describe('netplugctl upgrade fleet', () => {
  it('shows plan and hazards of every cluster, and stops before a wave with a blocking hazard', async () => {
    await setReady('south', false);
    expect(await fleet('apply', '--yes', '--cluster-timeout', '9999999')).toMatchObject({
      status: 64,
      stderr: expect.stringContaining('from 1 to 604800') as string,
    });
    const plan = await fleet('plan');
    expect(plan.stdout).toMatch(new RegExp(`first +pilot +to upgrade +${OLD} +manifest +orch +2 +none`));
    expect(plan.stdout).toMatch(new RegExp(`second +south +blocked +${OLD} +manifest +orch +2 +1 error`));
    expect(plan.stdout).toContain('second / north\nUpgrade from');
    expect(plan.status).toBe(0);
    const preflight = await fleet('preflight', '-o', 'json');
    expect(preflight.status).toBe(1);
    const { refused, clusters: found } = JSON.parse(preflight.stdout);
    expect({ refused, found: found.map(({ cluster, state }: Json) => `${cluster}: ${state}`) }).toEqual({
      refused: true,
      found: ['pilot: to upgrade', 'north: to upgrade', 'south: blocked'],
    });
    expect(found[2].hazards).toMatchObject([{ id: 'nodes/not-ready', objects: ['Node node-b'] }]);

    const { results, reasons, ran } = await apply();
    expect(ran.status).toBe(1);
    expect(results).toEqual({ pilot: 'upgraded', north: 'not begun', south: 'refused' });
    expect(reasons.south).toBe('the preflight found nodes/not-ready');
    expect(ran.stderr).toContain('wave second: does not begin');
    expect(await releases('pilot')).toEqual(at(NEW));
    expect(await releases('north')).toEqual(at(OLD));

    await setReady('south', true);
    const starts = clusters.pilot.rollout.started.length;
    expect((await apply()).results).toEqual({ pilot: 'at target', north: 'upgraded', south: 'upgraded' });
    expect(clusters.pilot.rollout.started.length).toBe(starts);
    for (const name of NAMES) expect(await releases(name)).toEqual(at(NEW));
    expect(await apply()).toMatchObject({
      results: { pilot: 'at target', north: 'at target', south: 'at target' },
      ran: { status: 0 },
    });
    await backTo(OLD);
  }, 600_000);

  it('goes on where it was when it is killed in the middle, and upgrades no cluster twice', async () => {
    expect(await killAt(16 + 9)).toBe(true);
    expect(await releases('pilot')).toEqual(at(NEW));
    const before = clusters.pilot.rollout.started.length;
    const { results, ran } = await apply();
    expect(ran.status).toBe(0);
    expect(results.pilot).toBe('at target');
    expect(ran.stderr).toContain('an interrupted upgrade of this cluster goes on');
    expect(clusters.pilot.rollout.started.length).toBe(before);
    for (const name of NAMES) {
      expect(await releases(name)).toEqual(at(NEW));
      expect(clusters[name].rollout.gaps()).toBe(0);
    }
    await backTo(OLD);
  }, 600_000);

  it('carries the others of a wave to their end when one fails, and ends after the wave that is asked for', async () => {
    await writeFleet({ proof: true });
    broken.add('pilot');
    const first = await apply('--through', 'first');
    expect(first).toMatchObject({ results: { pilot: 'failed' }, ran: { status: 1 } });
    expect(first.reasons.pilot).toContain('Stopped after node "node-a"');
    expect((await apply()).results).toEqual({ pilot: 'failed', north: 'not begun', south: 'not begun' });
    broken.clear();
    expect(await apply('--through', 'first')).toMatchObject({ results: { pilot: 'upgraded' }, ran: { status: 0 } });
    broken.add('north');
    const second = await apply();
    expect(second.results).toEqual({ pilot: 'at target', north: 'failed', south: 'upgraded' });
    expect(await releases('north')).toEqual([`node-a ${NEW}`, `node-b ${OLD}`]);
    broken.clear();
    expect((await apply()).results).toEqual({ pilot: 'at target', north: 'upgraded', south: 'at target' });
    await backTo(OLD);
  }, 600_000);

  it('says which cluster lost its API server in the middle, and goes on when it serves again', async () => {
    const { server } = clusters.pilot;
    let ended: Ran | undefined;
    try {
      // Backed up and applied, its first node is being tried.
      ended = await applyUntil(13, async () => server.stop());
    } finally {
      await server.start();
    }
    expect(ended.status).toBe(1);
    const { clusters: ends } = JSON.parse(ended.stdout);
    expect(ends.map(({ cluster, result }: Json) => `${cluster}: ${result}`)).toEqual([
      'pilot: failed',
      'north: not begun',
      'south: not begun',
    ]);
    expect(ends[0].reason).toContain(server.url);
    expect(ended.stderr).toContain(
      'pilot: the upgrade is not finished: correct the cause and run the same command again',
    );
    expect(await releases('north')).toEqual(at(OLD));

    const { results, ran } = await apply();
    expect(ran.stderr).toContain('pilot: an interrupted upgrade of this cluster goes on');
    expect(results).toEqual({ pilot: 'upgraded', north: 'upgraded', south: 'upgraded' });
    for (const name of NAMES) {
      expect(await releases(name)).toEqual(at(NEW));
      expect(clusters[name].rollout.gaps()).toBe(0);
    }
    await backTo(OLD);
  }, 600_000);

  it('does not begin a wave while a cluster before it does not answer', async () => {
    await apply('--through', 'first');
    const { server } = clusters.pilot;
    await server.stop();
    try {
      const { results, reasons } = await apply();
      expect(results).toEqual({ pilot: 'refused', north: 'not begun', south: 'not begun' });
      expect(reasons.pilot).toMatch(/does not answer|ECONNREFUSED|Cannot/);
    } finally {
      await server.start();
    }
    await backTo(OLD);
  }, 600_000);
});

/** Calls the tool and kills it at the given record of its progress. Returns whether it was killed. */
async function killAt(records: number): Promise<boolean> {
  const { signal } = await atRecord(records, (child) => child.kill('SIGKILL'));
  return signal === 'SIGKILL';
}

/** Lets the tool run to its end, with something done at the given record of its progress. */
async function applyUntil(records: number, act: () => Promise<void>): Promise<Ran> {
  const { status, stdout, stderr } = await atRecord(records, () => void act());
  return { status: status ?? 0, stdout, stderr };
}

async function atRecord(
  records: number,
  act: (child: ChildProcess) => void,
): Promise<{ status: number | null; signal: string | null; stdout: string; stderr: string }> {
  const plans = join(folder, 'state/plans');
  await mkdir(plans, { recursive: true });
  // The folder goes with the last record in it.
  await writeFile(join(plans, 'kept'), '');
  const argv = ['upgrade', 'fleet', 'apply', '-f', join(folder, 'fleet.yaml'), '--yes', '-o', 'json'];
  const child = spawn(NETPLUGCTL, argv, { env, stdio: ['ignore', 'pipe', 'pipe'] });
  const printed = [text(child.stdout), text(child.stderr)] as const;
  let left = records;
  const watcher = watch(plans, (event, name) => {
    if (event !== 'rename' || name?.endsWith('.json') !== true) return;
    left -= 1;
    if (left === 0) act(child);
  });
  const [status, signal] = (await once(child, 'exit')) as [number | null, string | null];
  watcher.close();
  const [stdout, stderr] = await Promise.all(printed);
  return { status, signal, stdout, stderr };
}
