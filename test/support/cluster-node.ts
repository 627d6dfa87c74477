// A node that runs pods: containerd, a kubelet and a kube-proxy on a test node.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Agent, launchAgent, MODE } from './agent.ts';
import type { Conflist } from './chain.ts';
import { type Containerd, startContainerd } from './containerd.ts';
import { kubeletUser, PROXY_USER } from './control-plane.ts';
import type { ApiServer } from './kube.ts';
import { CLUSTER_DOMAIN, DNS_ADDRESS } from './cluster-dns.ts';
import { type KubernetesRelease, kubernetesProgram } from './components.ts';
import { addressesOf, type Families, type LanAddresses } from './lan.ts';
import { logged } from './logged.ts';
import type { Service, TestNode } from './node.ts';
import { AGENT_KUBECONFIG } from './orch-access.ts';
import { cutPower } from './power-cut.ts';
import { installNetwork } from './runtime.ts';

export interface ClusterNode {
  readonly name: string;
  readonly addresses: LanAddresses;
  /** Runs programs on the node, and knows its links. It has no etcd: the records are with the control plane. */
  readonly machine: TestNode;
  readonly containerd: Containerd;
  /** Kills the kubelet; pods go on. */
  stopKubelet(): Promise<void>;
  startKubelet(): Promise<void>;
  /** Replaces kubelet and kube-proxy by those of the release; pods go on. */
  changeKubernetes(release: KubernetesRelease): Promise<void>;
  /** Cuts its power, and starts what starts with a node: what was in memory is gone, what is on disk stays. */
  reboot(): Promise<void>;
  /** Starts the agent anew, if there is to be one; without waiting, for it may lack access to its datastore yet. */
  startAgent(): Promise<void>;
  /** The agent that serves the calls of the runtime; undefined in standalone mode and without an agent. */
  agent(): Agent | undefined;
}

export interface ClusterNodeOptions {
  readonly machine: TestNode;
  /** Gives it its link to the others. */
  readonly plugIn: () => Promise<LanAddresses>;
  readonly api: ApiServer;
  /** None for a network that is installed later. */
  readonly conflist: Conflist | undefined;
  /** Adds to the environment of the agent; without it there is an agent in agent mode only. */
  readonly networking: Readonly<Record<string, string>> | undefined;
  /** Text of files by path. */
  readonly files: Readonly<Record<string, string>>;
  /** Archives of images. */
  readonly images: readonly string[];
  readonly logs: string;
  readonly networkWorks: 'at-once' | 'later';
  readonly proxyMode: ProxyMode;
  readonly release: KubernetesRelease | undefined;
  readonly families: Families;
}

/** How kube-proxy makes services reachable. */
export type ProxyMode = 'nftables' | 'iptables';

export async function startClusterNode(options: ClusterNodeOptions): Promise<ClusterNode & AsyncDisposable> {
  const { machine, plugIn, api, conflist, networking, files, images, logs, networkWorks, proxyMode, families } =
    options;
  const { name } = machine;
  await using scope = new AsyncDisposableStack();
  const startNetwork = async (): Promise<LanAddresses> => {
    await machine.exec('sysctl', '-q', '-w', 'net.ipv4.ip_forward=1', 'net.ipv6.conf.all.forwarding=1');
    return plugIn();
  };
  const addresses = await startNetwork();
  // No server answers there, so that look-ups fail at once.
  await machine.exec('rm', '-f', '/etc/resolv.conf');
  await writeOn(
    machine,
    '/etc/resolv.conf',
    `nameserver ${families === 'both' ? addressesOf(1).ipv4 : addressesOf(1).ipv6}\n`,
  );
  for (const [path, text] of Object.entries(files)) await writeOn(machine, path, text);
  if (conflist !== undefined) await installNetwork(machine, conflist);
  let agent: Agent | undefined;
  const startAgent = async (): Promise<void> => {
    if (conflist === undefined || (networking === undefined && MODE === 'standalone')) return;
    const options = { socket: '/run/netplug/cni.sock', env: { ...connectionOf(conflist), ...networking } };
    agent = await launchAgent({ ...logged(machine, logs, `${name}-agent`), name }, options);
  };
  await startAgent();
  const network = conflist === undefined ? 'later' : networkWorks;
  const containerd = scope.use(
    await startContainerd(logged(machine, logs, `${name}-containerd`), {
      images,
      network,
      // The network of a node without any is installed in a container.
      namespaces: conflist === undefined ? 'run-netns' : 'state-dir',
    }),
  );

  const config = join(machine.dir, 'kubelet.json');
  await writeFile(config, JSON.stringify(kubeletConfiguration(api, containerd.socket)));
  const kubeletArgs = [
    `--config=${config}`,
    `--kubeconfig=${await api.kubeconfigFor(api.userToken(kubeletUser(name)))}`,
    `--hostname-override=${name}`,
    `--node-ip=${families === 'both' ? `${addresses.ipv4},` : ''}${addresses.ipv6}`,
    // On a disk: it cannot tell how much room an overlay has.
    `--root-dir=${join(machine.dir, 'kubelet')}`,
  ];
  const proxyArgs = [
    `--kubeconfig=${await api.kubeconfigFor(api.userToken(PROXY_USER))}`,
    `--hostname-override=${name}`,
    `--proxy-mode=${proxyMode}`,
    // The size of the table is the kernel's, not the node's.
    '--conntrack-max-per-core=0',
    '--conntrack-min=0',
  ];
  let { release } = options;
  let kubelet: Service | undefined;
  // It ends with the machine.
  let proxy: Service | undefined;
  const startKubelet = async (): Promise<void> => {
    kubelet = await logged(machine, logs, `${name}-kubelet`).start([
      kubernetesProgram('kubelet', release),
      ...kubeletArgs,
    ]);
  };
  const stopKubelet = async (): Promise<void> => kubelet?.stop('KILL');
  const startProxy = async (): Promise<void> => {
    proxy = await logged(machine, logs, `${name}-kube-proxy`).start([
      kubernetesProgram('kube-proxy', release),
      ...proxyArgs,
    ]);
  };
  scope.defer(stopKubelet);
  await startKubelet();
  await startProxy();
  const kept = scope.move();
  return {
    name,
    addresses,
    machine,
    containerd,
    startKubelet,
    stopKubelet,
    startAgent,
    changeKubernetes: async (next) => {
      release = next;
      await stopKubelet();
      await proxy?.stop('KILL');
      await startKubelet();
      await startProxy();
    },
    reboot: async () => {
      await stopKubelet();
      await cutPower(machine);
      await startNetwork();
      await startAgent();
      await containerd.restart();
      await startKubelet();
      await startProxy();
    },
    agent: () => agent,
    [Symbol.asyncDispose]: async () => kept.disposeAsync(),
  };
}

function kubeletConfiguration(api: ApiServer, runtimeSocket: string): object {
  return {
    apiVersion: 'kubelet.config.k8s.io/v1beta1',
    kind: 'KubeletConfiguration',
    authentication: { anonymous: { enabled: false }, x509: { clientCAFile: api.caFile } },
    authorization: { mode: 'AlwaysAllow' },
    containerRuntimeEndpoint: `unix://${runtimeSocket}`,
    cgroupDriver: 'cgroupfs',
    // Version 1 of control groups is what many machines of tests still have.
    failCgroupV1: false,
    // Whether the cluster has a name server or not.
    clusterDNS: [DNS_ADDRESS],
    clusterDomain: CLUSTER_DOMAIN,
    cgroupsPerQOS: true,
    enforceNodeAllocatable: [],
    failSwapOn: false,
    // Images cannot be fetched again, and a full disk of the machine is not the business of its nodes.
    imageGCHighThresholdPercent: 100,
    imageGCLowThresholdPercent: 99,
    evictionHard: { 'memory.available': '1Mi', 'nodefs.available': '0%', 'imagefs.available': '0%' },
    // A node reports with the next of these that it is ready.
    nodeStatusUpdateFrequency: '2s',
  };
}

/** Leads the agent to the records of the network, and to its own account where the network has to do with the API. */
function connectionOf({ plugins }: Conflist): Record<string, string> {
  const { datastore_type: type, kv_endpoints: endpoints, orch } = plugins.find((each) => each['type'] === 'netplug')!;
  const account = orch === undefined ? {} : { NETPLUG_ORCHCONFIG: AGENT_KUBECONFIG };
  return type === 'orch'
    ? { DATASTORE_TYPE: 'orch', ORCHCONFIG: orch.orchconfig, ...account }
    : { DATASTORE_TYPE: 'kvv3', KV_ENDPOINTS: endpoints, ...account };
}

async function writeOn(machine: TestNode, path: string, text: string): Promise<void> {
  const script = 'mkdir -p "$(dirname "$0")" && cat > "$0"';
  const { status, stderr } = await machine.run(['sh', '-c', script, path], { stdin: text });
  if (status !== 0) throw new Error(stderr);
}
