// Hazards that are there at once in a real cluster: the preflight names each, nothing is upgraded, and pods keep their networks.
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { VERSION } from '../../src/base/version.ts';
import type { Cluster } from '../support/cluster.ts';
import { expectConnected, startEnd } from '../support/cluster-load.ts';
import { mustRunCtl, runCtl, startEmptyCluster } from '../support/install-scenes.ts';
import { type Json, until } from '../support/node.ts';
import { buildRelease, type Release } from '../support/release.ts';
import { webhook } from '../support/upgrade-hazards.ts';

const OLD = 'v3.26.4';
const SYSTEM = '--namespace=netplug-system';
const AGENT = ['daemonset', 'netplug-node', SYSTEM];
const CONTROLLERS = ['deployment', 'netplug-orch-controllers', SYSTEM];
const POOL = { cidr: '10.78.0.0/30', blockSize: 30 };
const POOL_PODS = 4;

const SEEDED = [
  'addresses/pool-full',
  'datastore/locked',
  'datastore/unreadable',
  'host-endpoints/all-interfaces',
  'nodes/cordoned',
  'nodes/not-ready',
  'objects/fields-lost',
  'objects/gitops',
  'objects/images-by-other-registry',
  'objects/on-delete',
  'server/webhooks',
];
/** Stays a warning: a field that `kubectl set image` has set once is its own as well from then on, whatever its value. */
const OWNED = 'objects/fields-lost';
/** What a real cluster makes of them: pods of a node that is gone are not ready, and images cannot be pulled from nowhere. */
const CONSEQUENCES = ['nodes/agent-missing', 'objects/rolling'];

describe('an upgrade of a real cluster with hazards', () => {
  let release: Release;

  beforeAll(async () => {
    release = await buildRelease({ version: OLD, parts: 'executables-and-images' });
  }, 600_000);
  afterAll(async () => release?.[Symbol.asyncDispose]());

  it('names each of them, refuses without a change, and goes when they are gone', async () => {
    await using cluster = await startEmptyCluster({ images: release.images, proxyMode: 'iptables' });
    const env = { NETPLUG_STATE_DIR: join(cluster.control.dir, 'state') };
    const older = async (...argv: string[]): Promise<string> =>
      mustRunCtl(cluster, argv, { env, tool: join(release.bin, 'netplugctl') });
    await older('install', 'cluster', '--method', 'manifest', '--yes');
    await cluster.waitForNodesReady();
    const ends = [
      await startEnd(cluster, cluster.node(0), 'a'),
      await startEnd(cluster, cluster.node(1), 'b'),
    ] as const;
    const found = async (): Promise<readonly string[]> => {
      const { stdout, stderr } = await runCtl(cluster, ['upgrade', 'preflight', '-o', 'json'], { env });
      if (stdout === '') throw new Error(stderr);
      return [...new Set<string>(JSON.parse(stdout).hazards.map(({ id }: Json) => id))].sort();
    };
    const sound = await found();
    expect(sound.filter((id) => [...SEEDED, ...CONSEQUENCES].includes(id))).toEqual([]);

    const undo = await seed(cluster);
    await until(async () => !(await isReady(cluster, 'node-b')), 'node-b is not ready', 180_000, 1000);
    const all = await found();
    expect(all.filter((id) => !sound.includes(id) && !CONSEQUENCES.includes(id))).toEqual(SEEDED);
    const before = await stateOf(cluster);
    const refused = await runCtl(cluster, ['upgrade', 'apply', '--yes'], { env });
    expect(refused.stderr).toContain('nothing was changed');
    expect(refused.status).not.toBe(0);
    expect(await stateOf(cluster)).toEqual(before);
    await expectConnected(ends);

    await undo();
    // Without the blocks of a pool, its addresses would be found instead; fields that others have set are theirs until then.
    await older('delete', 'ippool', 'small');
    await older('install', 'cluster', '--method', 'manifest', '--yes');
    await cluster.waitForNodesReady();
    await cluster.kubectl('rollout', 'status', ...CONTROLLERS, '--timeout=180s');
    await cluster.kubectl('rollout', 'status', ...AGENT, '--timeout=180s');
    let left: readonly string[] = [];
    await until(
      async () => (left = (await found()).filter((id) => !sound.includes(id) && id !== OWNED)).length === 0,
      () => `the preflight finds nothing more: ${left.join(', ')}`,
      120_000,
      1000,
    );
    expect(await mustRunCtl(cluster, ['upgrade', 'apply', '--yes'], { env })).toContain(
      `the cluster has release ${VERSION}`,
    );
    await expectConnected(ends);
  }, 900_000);
});

/** Seeds all of them, and returns how to undo it. */
async function seed(cluster: Cluster): Promise<() => Promise<void>> {
  await cluster.apply([pool(), ...poolPods()]);
  await cluster.waitForPodsReady({ selector: 'app=full', count: POOL_PODS });
  const { image, name } = (await cluster.get(...CONTROLLERS)).spec.template.spec.containers[0];
  const { minReadySeconds, updateStrategy } = (await cluster.get(...AGENT)).spec;
  await cluster.kubectl('annotate', ...AGENT, 'argocd.argoproj.io/tracking-id=netplug:apps');
  await patch(cluster, AGENT, { spec: { minReadySeconds: minReadySeconds + 7 } }, '--field-manager=kubectl-edit');
  await patch(cluster, AGENT, { spec: { updateStrategy: { type: 'OnDelete', rollingUpdate: null } } });
  await cluster.kubectl('cordon', 'node-b');
  await cluster.apply([webhook('deny.policy.example'), brokenRelease(), allInterfaces()]);
  await setImage(cluster, `${name}=${image.replace('netplug.io/', 'registry.example:5000/netplug/')}`);
  await lock(cluster, true);
  await cluster.node(1).stopKubelet();
  return async () => {
    await cluster.node(1).startKubelet();
    await lock(cluster, false);
    await cluster.kubectl('delete', 'validatingwebhookconfiguration', 'deny.policy.example');
    await cluster.kubectl('delete', 'secret', 'sh.helm.release.v1.broken.v1', '-n', 'netplug-system');
    await cluster.kubectl('delete', 'hostendpoint', 'all');
    await cluster.kubectl('uncordon', 'node-b');
    await setImage(cluster, `${name}=${image}`);
    await patch(cluster, AGENT, { spec: { updateStrategy, minReadySeconds } }, '--field-manager=kubectl-edit');
    await cluster.kubectl('annotate', ...AGENT, 'argocd.argoproj.io/tracking-id-');
    await cluster.kubectl('delete', 'pods', '--selector=app=full', '--grace-period=1');
  };
}

async function patch(cluster: Cluster, object: readonly string[], by: object, ...flags: string[]): Promise<void> {
  await cluster.kubectl('patch', ...object, '--type=merge', `--patch=${JSON.stringify(by)}`, ...flags);
}

async function setImage(cluster: Cluster, image: string): Promise<void> {
  await cluster.kubectl('set', 'image', ...CONTROLLERS, image);
}

async function lock(cluster: Cluster, isLocked: boolean): Promise<void> {
  await patch(cluster, ['clusterinformation', 'default'], { spec: { datastoreReady: !isLocked } });
}

async function isReady(cluster: Cluster, node: string): Promise<boolean> {
  const { status } = await cluster.get('node', node);
  return status.conditions.some(({ type, status: is }: Json) => type === 'Ready' && is === 'True');
}

/** Versions of what an upgrade would change; of workloads, whose status changes by itself, those of their specs. */
async function stateOf(cluster: Cluster): Promise<readonly string[]> {
  const kinds = 'configmaps,serviceaccounts,clusterroles,clusterrolebindings,customresourcedefinitions';
  const objects: readonly Json[] = (await cluster.get(kinds, SYSTEM)).items;
  const workloads: readonly Json[] = (await cluster.get('daemonsets,deployments', SYSTEM)).items;
  return [
    ...objects.map(({ kind, metadata }) => `${kind} ${metadata.name} ${metadata.resourceVersion}`),
    ...workloads.map(({ kind, metadata }) => `${kind} ${metadata.name} ${metadata.generation}`),
  ];
}

function pool(): object {
  return { apiVersion: 'netplug.io/v3', kind: 'IPPool', metadata: { name: 'small' }, spec: POOL };
}

function poolPods(): readonly object[] {
  return Array.from({ length: POOL_PODS }, (_, index) => ({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name: `full-${String(index)}`,
      labels: { app: 'full' },
      annotations: { 'cni.netplug/ipv4pools': '["small"]' },
    },
    spec: {
      nodeName: 'node-a',
      containers: [{ name: 'main', image: 'busybox:1.35', command: ['sleep', '10000'] }],
    },
  }));
}

function brokenRelease(): object {
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    type: 'helm.sh/release.v1',
    metadata: { name: 'sh.helm.release.v1.broken.v1', namespace: 'netplug-system', labels: { owner: 'helm' } },
    stringData: { release: 'not a release' },
  };
}

function allInterfaces(): object {
  return {
    apiVersion: 'netplug.io/v3',
    kind: 'HostEndpoint',
    metadata: { name: 'all' },
    spec: { node: 'node-b', interfaceName: '*' },
  };
}
