// What tests of upgrades have in common: nodes as objects, an installation by hand, and agents that are simulated.
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { accessOf } from '../../src/bin/open-orch.ts';
import { openKvStore } from '../../src/datastore/kv/kv-store.ts';
import { openOrchStore } from '../../src/datastore/orch/orch-store.ts';
import type { Store } from '../../src/datastore/store.ts';
import { type ManifestKind, manifestObjects, RELEASE_MANIFESTS } from '../../src/install/cluster/release-manifests.ts';
import { type ApiServer, POLL_MS, startApiServer } from './kube.ts';
import { type Json, until } from './node.ts';
import { type SimulatedRollout, startSimulatedRollout } from './simulated-rollout.ts';
import { NETPLUGCTL } from './built.ts';

/** The built tool. */
export const [OLD, NEW] = ['v3.26.4', 'v3.27.0'];

export interface Ran {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

export function requireBuild(): void {
  if (!existsSync(NETPLUGCTL)) throw new Error(`${NETPLUGCTL} is missing: run "make build" first`);
}

/** Runs the built tool. */
export async function runTool(argv: readonly string[], env: Readonly<Record<string, string>>): Promise<Ran> {
  return new Promise((done) => {
    execFile(NETPLUGCTL, argv, { env, maxBuffer: 64 * 1024 * 1024 }, (error, stdout, stderr) => {
      done({ status: error === null ? 0 : Number(error.code), stdout, stderr });
    });
  });
}

/** What a kubelet reports of a sound node. */
export function nodeStatus(address: string): Json {
  return {
    addresses: [{ type: 'InternalIP', address }],
    conditions: [{ type: 'Ready', status: 'True', reason: 'KubeletReady' }],
    nodeInfo: {
      kernelVersion: '6.1.0',
      operatingSystem: 'linux',
      architecture: 'amd64',
      machineID: '',
      systemUUID: '',
      bootID: '',
      osImage: '',
      containerRuntimeVersion: 'containerd://2.4.2',
      kubeletVersion: 'v1.37.2',
      kubeProxyVersion: '',
    },
  };
}

export async function addNode(server: ApiServer, name: string, address: string): Promise<void> {
  await server.apply([{ apiVersion: 'v1', kind: 'Node', metadata: { name, labels: { 'kubernetes.io/os': 'linux' } } }]);
  await patchStatus(server, ['node', name], nodeStatus(address));
}

/** Changes the status of an object, as its kubelet or controller does. `object` are its kind, name and namespace flags. */
export async function patchStatus(server: ApiServer, object: readonly string[], status: Json): Promise<void> {
  await server.patch(object, { status }, 'status');
}

/** Applies objects as a person does who follows the documentation: definitions first. */
export async function applyByHand(server: ApiServer, objects: readonly object[]): Promise<void> {
  const isDefinition = (object: Json): boolean => object.kind === 'CustomResourceDefinition';
  await server.apply(objects.filter(isDefinition));
  await server.apply(objects.filter((object) => !isDefinition(object)));
}

/** Opens the datastore of the agents. */
export function openRecords(server: ApiServer, datastore: 'orch' | 'kvv3'): Store {
  if (datastore === 'kvv3') {
    const endpoints = { from: 'list', urls: [server.etcdUrl] } as const;
    return openKvStore({ endpoints, keyFile: undefined, certFile: undefined, caCertFile: undefined });
  }
  return openOrchStore(accessOf({ orchconfig: server.kubeconfig, apiRoot: undefined, nodeName: undefined }, {}));
}

export interface Agent {
  readonly node: string;
  readonly image: string;
  readonly phase: string;
}

export async function agentsOf(server: ApiServer): Promise<readonly Agent[]> {
  const { items } = await server.get('pods', '-n', 'netplug-system', '-l', 'app.kubernetes.io/name=netplug-node');
  return items.map(({ spec, status }: Json) => ({
    node: spec.nodeName,
    image: spec.containers[0].image,
    phase: status.phase,
  }));
}

/** Waits until every node has the agent of the release, and the DaemonSet says so. */
export async function settled(server: ApiServer, release: string, nodes: number): Promise<void> {
  let seen = '';
  await until(
    async () => {
      const agents = (await agentsOf(server)).map(({ image, phase }) => `${image} ${phase}`);
      seen = agents.join(', ');
      const isNew = agents.every((each) => each === `netplug.io/netplug-node:${release} Running`);
      if (!isNew || agents.length !== nodes) return false;
      // The operator may not have made it before.
      const { status } = await server.get('daemonset', 'netplug-node', '-n', 'netplug-system');
      seen = `its DaemonSet has updated ${String(status?.updatedNumberScheduled)}`;
      return status?.updatedNumberScheduled === nodes;
    },
    () => `${String(nodes)} agents have ${release}: ${seen}`,
    60_000,
    POLL_MS,
  );
}

export interface UpgradableCluster extends AsyncDisposable {
  readonly server: ApiServer;
  readonly store: Store;
  readonly rollout: SimulatedRollout;
}

export interface UpgradableOptions {
  readonly nodes: readonly string[];
  readonly kind?: ManifestKind;
  readonly release?: string;
  /** Returns what a probe pod prints before it fails; undefined when it does not fail. */
  readonly failure?: (pod: string) => string | undefined;
}

/** Starts an API server with nodes and an installation by manifest, of an older release unless given. */
export async function startUpgradableCluster({
  nodes,
  kind = RELEASE_MANIFESTS[0],
  release = OLD,
  failure = () => undefined,
}: UpgradableOptions): Promise<UpgradableCluster> {
  await using scope = new AsyncDisposableStack();
  const server = scope.use(await startApiServer());
  for (const [index, name] of nodes.entries()) await addNode(server, name, `172.20.0.${String(11 + index)}`);
  await applyByHand(server, manifestObjects(kind, { release, endpoints: server.etcdUrl }));
  const store = scope.use(openRecords(server, kind.datastore));
  const rollout = scope.use(startSimulatedRollout(server, { store, failure }));
  await settled(server, release, nodes.length);
  const kept = scope.move();
  return { server, store, rollout, [Symbol.asyncDispose]: async () => kept.disposeAsync() };
}
