// A whole Kubernetes cluster on this machine: a control plane and nodes, each a box of namespaces, on a segment of their own.
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Conflist } from './chain.ts';
import { type ClusterNode, type ProxyMode, startClusterNode } from './cluster-node.ts';
import type { KubernetesRelease } from './components.ts';
import { startControlPlane } from './control-plane.ts';
import { makeImage } from './image.ts';
import { removeAtEnd } from './janitor.ts';
import { type ApiServer, POLL_MS } from './kube.ts';
import { type Families, newLan, type Lan } from './lan.ts';
import { tailOf } from './logged.ts';
import { type Json, startNode, type TestNode, until } from './node.ts';

export interface ClusterOptions {
  /** How many run pods; 2 unless given. They are named `node-a`, `node-b` … */
  readonly nodes?: number;
  /**
   * What a node finds in /etc/cni/net.d; `defaultConflist` unless given. A node that gets `undefined` comes without a
   * network, and so not ready.
   */
  readonly conflist?: (node: ConflistNode) => Conflist | undefined;
  /** Of the addresses of nodes and services. With IPv6 alone there are no records in etcd, which is reached over IPv4. */
  readonly families?: Families;
  /** IP pools by name; one for each family unless given. */
  readonly pools?: Readonly<Record<string, string>>;
  /** Adds to the spec of each of these pools. */
  readonly poolSpec?: object;
  /**
   * Runs agents in whichever mode the tests run, with this added to their environment. Unless given, there are agents in
   * agent mode only; without them a pod reaches those of its own node.
   */
  readonly networking?: Readonly<Record<string, string>>;
  /** Text of files on every node, by path. */
  readonly files?: Readonly<Record<string, string>>;
  /** Archives of further images on every node. */
  readonly images?: readonly string[];
  /** Further addresses the API server is reached at. */
  readonly names?: readonly string[];
  /** Where programs write what they print; a folder that goes with the cluster unless given. */
  readonly logs?: string;
  /** Whether the network works at once, or only after something that the caller does; `at-once` unless given. */
  readonly networkWorks?: 'at-once' | 'later';
  /** nftables unless given. */
  readonly proxyMode?: ProxyMode;
  /** Of Kubernetes, on the control plane and on every node; that of the run of the tests unless given. */
  readonly release?: KubernetesRelease;
  /** Called with each step before it begins. */
  readonly onProgress?: (text: string) => void;
}

export interface ConflistNode {
  readonly name: string;
  /** A configuration of netplug with the etcd of the control plane; `more` adds or replaces fields. */
  netconf(more?: object): Record<string, Json>;
}

/** `await using` ends and removes everything, and so does the end of the process by Ctrl-C or otherwise. */
export interface Cluster extends AsyncDisposable, Pick<ApiServer, 'kubectl' | 'get' | 'apply'> {
  readonly api: ApiServer;
  /** Where etcd, API server, controller manager and scheduler run; netplug's records are in its etcd. */
  readonly control: TestNode;
  readonly nodes: readonly ClusterNode[];
  readonly lan: Lan;
  /** Of the etcd of the control plane. */
  readonly etcdUrl: string;
  node(index: number): ClusterNode;
  /** Replaces the programs of the control plane by those of the release of Kubernetes. */
  changeControlPlane(release: KubernetesRelease): Promise<void>;
  /** Waits until every node is ready. */
  waitForNodesReady(): Promise<void>;
  /** Waits until so many pods of the selection are ready, and returns them in order of their names. */
  waitForPodsReady(
    selection: PodSelection & { readonly count: number; readonly deadlineMs?: number },
  ): Promise<readonly Json[]>;
  /** The end of what each program has printed, by its name. */
  logs(): Promise<Readonly<Record<string, string>>>;
}

export interface PodSelection {
  readonly namespace?: string;
  /** As `kubectl get --selector` takes it. */
  readonly selector: string;
}

const CONTROL = 2;
const FIRST_NODE = 11;
const POOLS = { 'default-ipv4': '10.83.0.0/16', 'default-ipv6': 'fd00:83::/64' };
/** `latest` is pulled anew for each pod unless the pod says otherwise, and there is nowhere to pull from. */
const BUSYBOX = [
  'docker.io/library/busybox:1.35',
  'docker.io/library/busybox:latest',
  'registry.k8s.io/e2e-test-images/busybox:1.37.0-2',
];

/** For a cluster that gets its network later: nodes have none of netplug, and are not ready. */
export const NO_NETWORK = (): undefined => undefined;

/** netplug in both families with host ports and bandwidth limits. */
export function defaultConflist(node: ConflistNode): Conflist {
  return {
    cniVersion: '1.0.0',
    name: 'k8s-pod-network',
    plugins: [
      node.netconf({ ipam: { type: 'netplug-ipam', assign_ipv4: 'true', assign_ipv6: 'true' } }),
      { type: 'portmap', snat: true, capabilities: { portMappings: true } },
      { type: 'bandwidth', capabilities: { bandwidth: true } },
    ],
  };
}

/** Starts it, and returns when every node is registered, and ready unless its network works later. */
export async function startCluster(options: ClusterOptions = {}): Promise<Cluster> {
  const { onProgress = () => undefined } = options;
  await using scope = new AsyncDisposableStack();
  const dir = await mkdtemp(join(tmpdir(), 'netplug-cluster-'));
  removeAtEnd('folder', dir);
  scope.defer(async () => rm(dir, { recursive: true, force: true }));
  const logs = options.logs ?? join(dir, 'logs');
  await mkdir(logs, { recursive: true });
  const allLogs = async (): Promise<Record<string, string>> =>
    Object.fromEntries((await readdir(logs)).map((file) => [file.replace('.log', ''), tailOf(join(logs, file))]));
  try {
    const parts = await startParts(options, { scope, dir, logs, onProgress });
    onProgress('control plane and nodes run');
    const kept = scope.move();
    return { ...parts, logs: allLogs, [Symbol.asyncDispose]: async () => kept.disposeAsync() };
  } catch (cause) {
    const texts = Object.entries(await allLogs()).map(([name, text]) => `--- ${name}\n${text.slice(-1500)}`);
    throw new Error(`the cluster does not start\n${texts.join('\n')}`, { cause });
  }
}

interface Making {
  readonly scope: AsyncDisposableStack;
  readonly dir: string;
  readonly logs: string;
  readonly onProgress: (text: string) => void;
}

async function startParts(
  options: ClusterOptions,
  { scope, dir, logs, onProgress }: Making,
): Promise<Omit<Cluster, 'logs' | typeof Symbol.asyncDispose>> {
  const { nodes: count = 2, conflist = defaultConflist, files = {}, images = [], names = [], release } = options;
  const { pools = POOLS, poolSpec = {}, networking, proxyMode = 'nftables', networkWorks = 'at-once' } = options;
  const { families = 'both' } = options;
  onProgress('making the control plane');
  const nodeNames = Array.from({ length: count }, (_, index) => `node-${String.fromCharCode(97 + index)}`);
  const lan = scope.use(await newLan());
  const nodes: ClusterNode[] = [];
  const settled = async (): Promise<void> => {
    for (const node of nodes) await node.agent()?.settled();
  };
  const control = scope.use(
    await startNode({ name: 'control', asMachine: true, etcd: 'every-address', mode: 'standalone', settled }),
  );
  const addresses = await lan.plugIn(control.host, CONTROL, families);
  const etcdUrl = `http://${addresses.ipv4}:2379`;
  const plane = scope.use(
    await startControlPlane({ node: control, addresses, families, nodeNames, names, logs, release }),
  );
  const { api } = plane;
  for (const [name, cidr] of Object.entries(pools)) await control.seedPool(name, cidr, poolSpec);
  // For HTTPS, which the wget of busybox does without checking certificates.
  const client = { '/bin/curl': '/usr/bin/curl' };
  const busybox = await makeImage(join(dir, 'busybox'), { names: BUSYBOX, config: { Cmd: ['sh'] }, files: client });

  const awaited: string[] = [];
  for (const [index, name] of nodeNames.entries()) {
    onProgress(`making ${name}`);
    const plugins = options.conflist === NO_NETWORK ? 'standard' : 'all';
    const machine = scope.use(await startNode({ name, asMachine: true, etcd: 'nowhere', plugins }));
    const netconf = (more = {}): Json => machine.netconf({ kv_endpoints: etcdUrl, ...more });
    const list = conflist({ name, netconf });
    if (list !== undefined && networkWorks === 'at-once') awaited.push(name);
    const common = {
      machine,
      api,
      files,
      logs,
      images: [busybox, ...images],
      conflist: list,
      networking,
      networkWorks,
      proxyMode,
      release,
      families,
      plugIn: async () => lan.plugIn(machine.host, FIRST_NODE + index, families),
    };
    nodes.push(scope.use(await startClusterNode(common)));
  }
  onProgress('waiting for the nodes');
  await waitForNodes(api, { count, ready: awaited });
  return {
    api,
    control,
    nodes,
    lan,
    etcdUrl,
    kubectl: async (...args) => api.kubectl(...args),
    get: async (...args) => api.get(...args),
    apply: async (manifest) => api.apply(manifest),
    node: (index) => {
      const node = nodes[index];
      if (node === undefined) throw new Error(`the cluster has ${String(nodes.length)} nodes`);
      return node;
    },
    changeControlPlane: async (next) => plane.changeKubernetes(next),
    waitForNodesReady: async () => waitForNodes(api, { count, ready: nodeNames }),
    waitForPodsReady: async (selection) => waitForPodsReady(api, selection),
  };
}

/** Waits until so many nodes are registered, and those named are ready. */
async function waitForNodes(
  api: ApiServer,
  { count, ready }: { readonly count: number; readonly ready: readonly string[] },
): Promise<void> {
  let shown = '';
  await until(
    async () => {
      const items: readonly Json[] = (await api.get('nodes')).items;
      const isComplete =
        items.length === count && items.every((node) => isReady(node) || !ready.includes(node.metadata.name));
      shown = items
        .flatMap(({ status }) => status.conditions)
        .map(({ message }) => message)
        .join('\n');
      // Without it there can be no pods.
      const accounts: readonly Json[] = (await api.get('serviceaccounts')).items;
      return isComplete && accounts.some(({ metadata }) => metadata.name === 'default');
    },
    () => `all nodes are there; they say:\n${shown}`,
    120_000,
    POLL_MS,
  );
}

async function waitForPodsReady(
  api: ApiServer,
  {
    namespace = 'default',
    selector,
    count,
    deadlineMs = 90_000,
  }: PodSelection & { readonly count: number; readonly deadlineMs?: number },
): Promise<readonly Json[]> {
  const selected = [`--namespace=${namespace}`, `--selector=${selector}`];
  let pods: Json[] = [];
  try {
    await until(
      async () => {
        const { items } = await api.get('pods', ...selected);
        pods = items;
        return pods.length === count && pods.every((pod) => isReady(pod));
      },
      `${String(count)} pods with ${selector} are ready`,
      deadlineMs,
      POLL_MS,
    );
  } catch (cause) {
    const shown = [
      await api.kubectl('get', 'pods', '--output=wide', ...selected),
      (await api.kubectl('get', 'events', `--namespace=${namespace}`, '--sort-by=.lastTimestamp')).slice(-5000),
    ];
    throw new Error(`${String(cause)}\n${shown.join('\n')}`, { cause });
  }
  return pods.toSorted((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
}

function isReady({ status }: Json): boolean {
  return (
    status.conditions?.some((condition: Json) => condition.type === 'Ready' && condition.status === 'True') === true
  );
}
