import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { callCtl, type CtlWorld, machineIn, type Ran } from '../../../../../test/support/ctl.ts';
import { nodeOf } from '../../../../../test/support/fixtures.ts';
import { IMAGE, NO_LEASE, type SidecarCluster, sidecarCluster } from '../../../../../test/support/sidecar-cluster.ts';
import { virtualClock } from '../../../../base/clock.ts';
import { MemoryDatabase } from '../../../../datastore/memory/memory-database.ts';
import { openMemoryStore } from '../../../../datastore/memory/memory-store.ts';
import type { PodState } from '../../../../kube/status/pod-state.ts';
import type { Node } from '../../../../model/node.ts';
import { agentReleases } from './upgrade-sidecars.ts';

const OLD = `${IMAGE}:v3.26.4`;
const NEW = `${IMAGE}:v3.27.0`;
const KUBECONFIG = {
  apiVersion: 'v1',
  kind: 'Config',
  'current-context': 'a',
  contexts: [{ name: 'a', context: { cluster: 'a', user: 'a' } }],
  clusters: [{ name: 'a', cluster: { server: 'http://127.0.0.1:1' } }],
  users: [{ name: 'a', user: {} }],
};

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'netplug-sidecars-'));
  await writeFile(join(folder, 'kubeconfig'), JSON.stringify(KUBECONFIG));
});
afterAll(async () => rm(folder, { recursive: true, force: true }));

async function sidecars(cluster: SidecarCluster, ...argv: readonly string[]): Promise<Ran> {
  return sidecarsIn(cluster, {}, ...argv);
}

async function sidecarsIn(cluster: SidecarCluster, world: CtlWorld, ...argv: readonly string[]): Promise<Ran> {
  return callCtl(['upgrade', 'sidecars', '--kubeconfig', join(folder, 'kubeconfig'), ...argv], {
    env: {},
    machine: machineIn(folder),
    openApi: cluster.api,
    openStore: () => openMemoryStore(new MemoryDatabase()),
    openLease: () => NO_LEASE,
    ...world,
  });
}

const shop = (images: readonly string[] = [OLD, OLD]) => ({
  'Deployment shop/api': { images },
  'StatefulSet shop/db': { images },
  'Deployment shop/web': { images: [NEW] },
});

describe('netplugctl upgrade sidecars', () => {
  it('restarts one workload after the other until every pod has the new sidecar, and has nothing to do then', async () => {
    const cluster = sidecarCluster({ workloads: shop(), template: NEW });
    const { status, out, err } = await sidecars(cluster, '--yes');
    expect([status, err]).toEqual([0, expect.stringContaining('Deployment shop/api: 1 of 2 updated')]);
    expect(out).toContain('1. Restart 2 workloads, until their pods are ready');
    expect(out).toContain('the agent knows: "netplugctl node status"');
    expect(cluster.restarted).toEqual(['Deployment shop/api', 'StatefulSet shop/db']);
    expect(cluster.mostAtOnce()).toBe(1);
    const again = await sidecars(cluster, '--yes');
    expect(again).toMatchObject({ status: 0, out: expect.stringContaining('no workload has a netplug-sidecar older') });
    expect(cluster.restarted).toHaveLength(2);
  });

  it('restarts as many workloads at the same time as --at-once says', async () => {
    const names = ['a', 'b', 'c', 'd', 'e'].map((name) => `Deployment shop/${name}`);
    const workloads = Object.fromEntries(names.map((key) => [key, { images: [OLD, OLD] }]));
    const cluster = sidecarCluster({ workloads, template: NEW });
    expect(await sidecars(cluster, '--yes', '--at-once', '3')).toMatchObject({ status: 0 });
    expect([...cluster.restarted].sort()).toEqual(names);
    expect(cluster.mostAtOnce()).toBe(3);
    expect((await sidecars(cluster, '--at-once', '0')).status).toBe(64);
  });

  it('changes nothing in a dry run', async () => {
    const cluster = sidecarCluster({ workloads: shop(), template: NEW });
    const { status, out } = await sidecars(cluster, '--dry-run');
    expect(status).toBe(0);
    expect(out).toMatch(/restart Deployment shop\/api, whose sidecar has release v3\.26\.4\n/);
    expect(cluster.restarted).toEqual([]);
  });

  it('restarts nothing outside the namespace that is named', async () => {
    const cluster = sidecarCluster({
      workloads: { ...shop(), 'Deployment other/a': { images: [OLD] } },
      template: NEW,
    });
    expect(await sidecars(cluster, '--namespace', 'other', '--yes')).toMatchObject({ status: 0 });
    expect(cluster.restarted).toEqual(['Deployment other/a']);
  });

  it.each([
    ['of an earlier release', { template: OLD }, `istio-system/istio-sidecar-injector names "${OLD}", and v3.27.0`],
    ['that is missing', { template: undefined }, 'no control plane of a mesh has the template "netplug"'],
    ['of this release beside an older agent', { template: NEW, agent: 'v3.26.4' }, 'v3.26.4 on node node-1'],
  ])('shows the plan and refuses it with a template %s', async (_, scene, why) => {
    const cluster = sidecarCluster({ workloads: shop(), ...scene });
    for (const mode of ['--dry-run', '--yes']) {
      const { status, out, err } = await sidecars(cluster, mode);
      expect([status, out]).toEqual([69, expect.stringContaining('restart StatefulSet shop/db')]);
      expect(err).toContain(why);
      expect(err).toContain('upgrade/refused');
    }
    expect(cluster.restarted).toEqual([]);
  });

  it.each([
    ['refuses with', { agent: 'yes' }, 69],
    ['goes on beside', {}, 0],
    ['goes on beside', undefined, 0],
  ] as const)('%s the record of an older agent on a node with labels %j', async (_, labels, status) => {
    const nodes = { 'node-1': { agent: 'yes' }, ...(labels === undefined ? {} : { 'node-2': labels }) };
    const cluster = sidecarCluster({ workloads: shop(), template: NEW, nodes });
    const store = openMemoryStore(new MemoryDatabase());
    const record = nodeOf('node-2');
    const { signal } = new AbortController();
    await store.createResource({ ...record, spec: { ...record.spec, netplugVersion: 'v3.26.4' } }, signal);
    expect((await sidecarsIn(cluster, { openStore: () => store }, '--yes')).status).toBe(status);
  });

  it('lists what it does not restart, with the reason, and restarts the rest', async () => {
    const workloads = {
      ...shop(),
      'Job shop/once': { images: [OLD] },
      'Pod shop/bare': { images: [OLD] },
      'Deployment shop/pinned': { images: [`${IMAGE}@sha256:${'0'.repeat(64)}`] },
      'Deployment shop/paused': { images: [OLD], spec: { paused: true } },
      'Deployment shop/a-own': {
        images: [OLD],
        spec: { template: { spec: { initContainers: [{ name: 'netplug-sidecar', image: OLD }] } } },
      },
      'Deployment shop/a-owned': {
        images: [OLD],
        spec: { template: { spec: { containers: [{ name: 'netplug-sidecar', image: OLD }] } } },
      },
      'DaemonSet shop/slow': { images: [OLD], spec: { updateStrategy: { type: 'OnDelete' } } },
    };
    const cluster = sidecarCluster({ workloads, template: NEW });
    const { status, out } = await sidecars(cluster, '--yes');
    expect(status).toBe(0);
    for (const line of [
      'Job shop/once, sidecar v3.26.4: a Job is not restarted',
      'Deployment shop/pinned, sidecar of unknown release: the image of its sidecar, "netplug.io/netplug-sidecar@sha256:',
      '$ kubectl rollout resume deployment/paused -n shop',
      'Deployment shop/a-own, sidecar v3.26.4: its own template names the sidecar',
      '$ kubectl edit deployment/a-owned -n shop',
      'DaemonSet shop/slow, sidecar v3.26.4: its pods are replaced only when they are deleted',
    ])
      expect(out).toContain(line);
    expect(out).toMatch(/Pod shop\/bare-\d+, sidecar v3\.26\.4: no workload makes it again/);
    expect(cluster.restarted).toEqual(['Deployment shop/api', 'StatefulSet shop/db']);
  });

  it('stops at the first workload that fails, and goes on from there without a second restart', async () => {
    const cluster = sidecarCluster({ workloads: shop(), template: NEW });
    cluster.setFailing('Deployment shop/api', 'crash');
    const failed = await sidecars(cluster, '--yes');
    expect(failed.status).toBe(1);
    expect(failed.err).toMatch(
      /Stopped at Deployment shop\/api: .*; pod api-\d+: container web waits: CrashLoopBackOff/,
    );
    expect(failed.err).toContain('upgrade/not-verified');
    expect(cluster.restarted).toEqual(['Deployment shop/api']);
    cluster.setFailing('Deployment shop/api', undefined);
    expect(await sidecars(cluster, '--yes')).toMatchObject({ status: 0 });
    expect(cluster.restarted).toEqual(['Deployment shop/api', 'StatefulSet shop/db']);
  });

  it.each([
    ['a minute for a pod that crashes', 'crash', {}, 60],
    ['ten minutes for a pod that hangs', 'hang', {}, 600],
    [
      'as long as the Deployment says for a pod that hangs',
      'hang',
      { progressDeadlineSeconds: 900, minReadySeconds: 30 },
      930,
    ],
  ] as const)('waits %s', async (_, how, spec, seconds) => {
    const workloads = { 'Deployment shop/web': { images: [OLD, OLD], spec } };
    const cluster = sidecarCluster({ workloads, template: NEW });
    cluster.setFailing('Deployment shop/web', how);
    const clock = virtualClock();
    expect((await sidecarsIn(cluster, { clock }, '--yes')).status).toBe(1);
    expect(clock.monotonic() / 1000).toBeGreaterThan(seconds);
    expect(clock.monotonic() / 1000).toBeLessThan(seconds + 10);
  });

  it('leaves a workload that was broken before, restarts the others, and fails at the end', async () => {
    const workloads = { 'Deployment shop/a': { images: [OLD], isBroken: true }, ...shop() } as const;
    const cluster = sidecarCluster({ workloads, template: NEW });
    const { status, out, err } = await sidecars(cluster, '--yes');
    expect([status, cluster.restarted]).toEqual([1, ['Deployment shop/api', 'StatefulSet shop/db']]);
    expect(err).toMatch(
      /^left as it is: Stopped at Deployment shop\/a: .*pod a-\d+: container web waits: CrashLoopBackOff/m,
    );
    expect(out.match(/restart Deployment shop\/a,/g)).toHaveLength(1);
    expect(out.match(/restart Deployment shop\/api,/g)).toHaveLength(2);
  });

  it('restarts the others when it is called again, although what it has stopped at fails still', async () => {
    const cluster = sidecarCluster({ workloads: shop(), template: NEW });
    cluster.setFailing('Deployment shop/api', 'crash');
    expect((await sidecars(cluster, '--yes')).status).toBe(1);
    const { status, err } = await sidecars(cluster, '--yes');
    expect([status, err]).toEqual([1, expect.stringContaining('left as it is: Stopped at Deployment shop/api: ')]);
    expect(cluster.restarted).toEqual(['Deployment shop/api', 'StatefulSet shop/db']);
  });

  it('says nothing of new pods when it has restarted none', async () => {
    const workloads = { 'Deployment shop/a': { images: [OLD], isBroken: true } } as const;
    const { status, out } = await sidecars(sidecarCluster({ workloads, template: NEW }), '--yes');
    expect([status, out]).toEqual([1, expect.not.stringContaining('the new pods are ready')]);
  });

  it('goes on although one pod or another fails for a while, for longer than one of them may', async () => {
    const cluster = sidecarCluster({
      workloads: { 'Deployment shop/web': { images: Array(8).fill(OLD) } },
      template: NEW,
    });
    cluster.setFailing('Deployment shop/web', 'waver');
    const clock = virtualClock();
    expect(await sidecarsIn(cluster, { clock }, '--yes')).toMatchObject({ status: 0 });
    expect(clock.monotonic()).toBeGreaterThan(90_000);
  });

  it('goes on after an interruption, and waits for the roll-out that is under way', async () => {
    const cluster = sidecarCluster({ workloads: shop([OLD, OLD, OLD]), template: NEW });
    const { status, err } = await sidecarsIn(cluster, { until: /1 of 3 updated/ }, '--yes');
    expect([status === 0, err]).toEqual([false, expect.stringContaining('Stopped at Deployment shop/api: 1 of 3')]);
    expect(await sidecars(cluster, '--yes')).toMatchObject({ status: 0 });
    expect(cluster.restarted).toEqual(['Deployment shop/api', 'StatefulSet shop/db']);
  });

  it.each([
    ['no sidecar', undefined, 'has no netplug-sidecar'],
    ['the older sidecar, as before the injector has read its template', OLD, 'has netplug-sidecar v3.26.4 still'],
  ])('stops at the first new pod that gets %s', async (_, image, why) => {
    const cluster = sidecarCluster({ workloads: shop([OLD, OLD, OLD]), template: NEW });
    cluster.inject(image);
    const { status, err } = await sidecars(cluster, '--yes');
    expect([status, err]).toEqual([
      1,
      expect.stringMatching(`Stopped at Deployment shop/api: its new pod api-\\d+ ${why}`),
    ]);
    expect(cluster.restarted).toEqual(['Deployment shop/api']);
  });

  it('restarts once more what got the older sidecar again', async () => {
    const cluster = sidecarCluster({ workloads: shop([OLD, OLD, OLD]), template: NEW });
    cluster.inject(OLD);
    expect((await sidecars(cluster, '--yes')).status).toBe(1);
    // What was rolled out meanwhile has the older one still, and is restarted once more.
    cluster.inject(NEW);
    expect(await sidecars(cluster, '--yes')).toMatchObject({ status: 0 });
    expect(cluster.restarted).toEqual(['Deployment shop/api', 'Deployment shop/api', 'StatefulSet shop/db']);
  });

  it('stops again when the roll-out has gone on, and has left no pod with a sidecar', async () => {
    const cluster = sidecarCluster({ workloads: shop([OLD, OLD, OLD]), template: NEW });
    cluster.inject(undefined);
    expect((await sidecars(cluster, '--yes')).status).toBe(1);
    const { status, err } = await sidecars(cluster, '--yes');
    expect([status, err]).toEqual([
      1,
      expect.stringMatching(/Stopped at Deployment shop\/api: its new pod api-\d+ has no netplug-sidecar/),
    ]);
    expect(err).toContain('kubectl rollout pause deployment/api -n shop');
    expect(cluster.restarted).toEqual(['Deployment shop/api']);
  });
});

it('takes the release of an agent from its pod, and without one from what its node has published', () => {
  const pod = (node: string, image: string, more: Partial<PodState> = {}): PodState =>
    ({ name: node, component: 'netplug-node', node, images: [image], phase: 'ready', ...more }) as PodState;
  const node = (name: string, netplugVersion?: string): Node =>
    ({ kind: 'Node', metadata: { name }, spec: netplugVersion === undefined ? {} : { netplugVersion } }) as Node;
  const pods = [
    pod('a', 'x/netplug-node:v3.27.0@sha256:0'),
    pod('b', 'x/netplug-node@sha256:0'),
    pod('c', 'x/netplug-node@sha256:0'),
    pod('e', 'x/netplug-node:v3.20.0', { phase: 'failed' }),
  ];
  const records = [node('a', 'v3.26.0'), node('b', 'v3.27.0'), node('c'), node('d', 'v3.26.1'), node('e')];
  const gone = [node('tainted', 'v3.20.0'), node('stale', 'v3.20.0')];
  const nodes = ['a', 'b', 'c', 'd', 'e', 'new'].map((name) => ({ name }));
  expect(agentReleases(pods, [...records, ...gone], nodes)).toEqual([
    { node: 'a', release: 'v3.27.0' },
    { node: 'b', release: 'v3.27.0' },
    { node: 'c', release: undefined },
    { node: 'd', release: 'v3.26.1' },
  ]);
});
