// The built tool, and a cluster on a real API server that it upgrades: pods exist as objects.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { watch } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeAll, beforeEach, expect } from 'vitest';
import { type Store } from '../../src/datastore/store.ts';
import { chartFiles } from '../../src/install/cluster/chart/chart-files.ts';
import { type ManifestKind, manifestObjects } from '../../src/install/cluster/release-manifests.ts';
import { crdManifests } from '../../src/install/cluster/definitions/crd-manifests.ts';
import { namespaceObject } from '../../src/install/cluster/cluster-objects.ts';
import { imageNames } from '../../src/install/cluster/names.ts';
import { operatorObjects } from '../../src/install/cluster/operator-deployment.ts';
import { program } from './components.ts';
import { type ApiServer, startApiServer } from './kube.ts';
import { type Json } from './node.ts';
import { type SimulatedRollout, startSimulatedRollout } from './simulated-rollout.ts';
import { NETPLUGCTL } from './built.ts';
import {
  addNode,
  agentsOf,
  applyByHand,
  NEW,
  OLD,
  openRecords,
  type Ran,
  requireBuild,
  runTool,
  settled as clusterSettled,
} from './upgradable-cluster.ts';

export const NODES = ['node-a', 'node-b', 'node-c'];
/** With it, also what another test shows in another way. */

interface UpgradeScene {
  folder: string;
  server: ApiServer;
  store: Store;
  rollout: SimulatedRollout;
  /** Whether no pod of a workload is replaced at the moment. */
  isPaused: boolean;
  /** Variables of the tool. */
  env: Record<string, string>;
}

/** What the present test has. */
export const scene = {} as UpgradeScene;

/** Gives each test of a file a cluster of three nodes, without netplug. */
export function useUpgradeScene(): void {
  beforeAll(() => {
    requireBuild();
  });
  beforeEach(async () => {
    const folder = await mkdtemp(join(tmpdir(), 'netplug-upgrade-'));
    const server = await startApiServer();
    const env = {
      PATH: process.env['PATH'] ?? '',
      HOME: folder,
      KUBECONFIG: server.kubeconfig,
      HELM: program('helm'),
      NETPLUG_STATE_DIR: join(folder, 'state'),
    };
    Object.assign(scene, { folder, server, env, isPaused: false });
    for (const [index, name] of NODES.entries()) await addNode(server, name, `172.20.0.${String(11 + index)}`);
  });
  afterEach(async () => {
    await scene.rollout?.[Symbol.asyncDispose]();
    await scene.store?.[Symbol.asyncDispose]();
    await scene.server[Symbol.asyncDispose]();
    await rm(scene.folder, { recursive: true, force: true });
  });
}

export async function ctl(argv: string): Promise<Ran> {
  return runTool(argv.split(' '), scene.env);
}

/** Runs the tool, which must succeed, and returns what it printed. */
export async function must(argv: string): Promise<string> {
  const { status, stdout, stderr } = await ctl(argv);
  if (status !== 0) throw new Error(`netplugctl ${argv}: status ${String(status)}: ${stderr}`);
  return stdout;
}

/** Brings up the older release by manifest. */
export async function installOld(
  kind: ManifestKind,
  release = OLD,
  failure: (pod: string) => string | undefined = () => undefined,
): Promise<void> {
  const { datastore } = kind;
  if (datastore === 'kvv3') scene.env = { ...scene.env, KV_ENDPOINTS: scene.server.etcdUrl };
  await applyByHand(scene.server, manifestObjects(kind, { release, endpoints: scene.server.etcdUrl }));
  scene.store = openRecords(scene.server, datastore);
  scene.rollout = startSimulatedRollout(scene.server, { store: scene.store, failure, isPaused: () => scene.isPaused });
  await settled(release);
}

/** Names of the pods that prove the network or send packets. */
export async function probePods(): Promise<readonly string[]> {
  const { items } = await scene.server.get('pods', '-n', 'netplug-system');
  return items.map(({ metadata }: Json) => metadata.name).filter((name: string) => /^netplug-(probe|flow)/.test(name));
}

/** Node and release of each agent. */
export async function releases(): Promise<readonly string[]> {
  return (await agentsOf(scene.server)).map(({ node, image }) => `${node} ${image.split(':')[1] ?? ''}`).sort();
}

/** Returns what a pod prints that does not reach another one. */
export function unreached(pod: string): string | undefined {
  return pod.startsWith('netplug-probe-client') ? 'http://10.244.0.7:8080/: timed out' : undefined;
}

export async function settled(release: string): Promise<void> {
  return clusterSettled(scene.server, release, NODES.length);
}

/** What a rollback must restore of the cluster: everything but what the API counts and dates itself. */
export async function stateOfCluster(): Promise<readonly string[]> {
  const kinds = 'serviceaccounts,secrets,configmaps,roles,rolebindings,daemonsets,deployments';
  const [own, wide] = [
    await scene.server.get(kinds, '-n', 'netplug-system'),
    await scene.server.get('namespaces,clusterroles,clusterrolebindings', '-l', 'app.kubernetes.io/part-of=netplug'),
  ];
  return [...own.items, ...wide.items]
    .map(({ kind, metadata, ...whole }: Json) => {
      const { status: _status, ...content } = whole;
      const { 'deprecated.daemonset.template.generation': _generation, ...annotations } = metadata.annotations ?? {};
      return JSON.stringify({ kind, name: metadata.name, labels: metadata.labels, annotations, ...content });
    })
    .sort();
}

export async function installOperator(release: string, failure?: (pod: string) => string | undefined): Promise<void> {
  const images = { ...imageNames(release), pullSecrets: [] };
  await applyByHand(scene.server, [
    ...crdManifests(),
    ...operatorObjects({ release, images, replicas: 1, override: {} }),
  ]);
  await applyByHand(scene.server, [
    { apiVersion: 'netplug.io/v3', kind: 'Installation', metadata: { name: 'default' }, spec: {} },
  ]);
  scene.store = openRecords(scene.server, 'orch');
  scene.rollout = startSimulatedRollout(scene.server, {
    store: scene.store,
    ...(failure === undefined ? {} : { failure }),
  });
  await settled(release);
}

/** Brings up the older release by the chart. */
export async function installChart(release: string): Promise<void> {
  await applyByHand(scene.server, [...crdManifests(), namespaceObject(release)]);
  scene.store = openRecords(scene.server, 'orch');
  await helmInstall(release);
  scene.rollout = startSimulatedRollout(scene.server, { store: scene.store });
  await settled(release);
}

/** Installs the chart as charts before v3.23 were: into the default namespace. */
async function helmInstall(release: string): Promise<void> {
  const chart = join(scene.folder, 'chart');
  for (const [path, text] of Object.entries(chartFiles(release))) {
    await mkdir(dirname(join(chart, path)), { recursive: true });
    await writeFile(
      join(chart, path),
      text.replace('ne .Release.Namespace "netplug-system"', 'ne .Release.Namespace "default"'),
    );
  }
  await promisify(execFile)(
    scene.env['HELM']!,
    ['install', 'calico', chart, '--namespace', 'default', '--set', 'installation.calicoNetwork.mtu=1400'],
    { env: scene.env },
  );
}

export async function chartRecords(): Promise<readonly string[]> {
  const { items } = await scene.server.get('secrets', '-A', '-l', 'owner=helm');
  return items.map(({ metadata }: Json) => `${metadata.namespace}/${metadata.name}`).sort();
}

/** Calls the tool and kills it at the given record of its progress. Returns whether it was killed. */
export async function killAt(records: number, argv: string): Promise<boolean> {
  const plans = join(scene.folder, 'state/plans');
  await mkdir(plans, { recursive: true });
  const child = spawn(NETPLUGCTL, argv.split(' '), { env: scene.env, stdio: 'ignore' });
  let left = records;
  const watcher = watch(plans, (event, name) => {
    if (event !== 'rename' || name?.endsWith('.json') !== true) return;
    left -= 1;
    if (left === 0) child.kill('SIGKILL');
  });
  const [, signal] = (await once(child, 'exit')) as [number | null, string | null];
  watcher.close();
  return signal === 'SIGKILL';
}

/** Applies while no node can prove its network. */
export async function expectStoppedAfterFirst(): Promise<void> {
  expect(await ctl('upgrade apply --yes')).toMatchObject({
    status: 1,
    stderr: expect.stringContaining('Stopped after node "node-a"') as string,
  });
  expect(await releases()).toEqual([`node-a ${NEW}`, `node-b ${OLD}`, `node-c ${OLD}`]);
}
