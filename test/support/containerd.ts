// A containerd of its own for a test node, with the CRI plugin and an image for sandboxes.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { newCgroup } from './cgroup.ts';
import { type Cri, openCri } from './cri.ts';
import { makeImage } from './image.ts';
import { type Json, type Service, type TestNode, until } from './node.ts';
import { makeRootfs } from './runtime.ts';

const SANDBOX_IMAGE = 'netplug.test/pause:1';
/** NamespaceMode of the CRI. */
const NAMESPACE_OF_POD = 0;
const NAMESPACE_OF_NODE = 2;

/** A container that `ctr run` started. */
export interface CtrContainer {
  /** Process id, as seen on the node. */
  readonly pid: number;
  /** Runs a busybox applet inside. */
  exec(...command: [string, ...string[]]): Promise<string>;
  /** Ends its process, and waits until `ctr` has taken it off the network and removed it. */
  stop(): Promise<void>;
}

export interface PodSandbox {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** Counts the sandboxes of one pod. */
  readonly attempt?: number;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly portMappings?: readonly object[];
  /** Leaves it in the network of the node. */
  readonly hostNetwork?: boolean;
}

export interface Containerd extends AsyncDisposable {
  readonly cri: Cri;
  readonly socket: string;
  /** Makes the images of the archive available to pods. */
  importImage(archive: string): Promise<void>;
  /** Runs a container of busybox with `ctr run --cni`. */
  run(name: string): Promise<CtrContainer>;
  /** RunPodSandbox; returns the id of the sandbox. */
  runSandbox(sandbox: PodSandbox): Promise<string>;
  /** StopPodSandbox and RemovePodSandbox, as a kubelet does. */
  removeSandbox(id: string): Promise<void>;
  /** Kills containerd, not its containers, and starts it again. */
  restart(): Promise<void>;
  /** The addresses containerd reports for the sandbox. */
  sandboxIps(id: string): Promise<string[]>;
}

export interface ContainerdOptions {
  /** Archives of images that pods can be made from. */
  readonly images?: readonly string[];
  /** Whether it is waited for until its network works; `at-once` unless given. */
  readonly network?: 'at-once' | 'later';
  /**
   * Where network namespaces of pods are mounted: in the folder of the state of containerd unless given, or as on real nodes
   * in /run/netns, where containers see those that are made later.
   */
  readonly namespaces?: 'state-dir' | 'run-netns';
}

/** Starts containerd on a node with `ownRun`; its network is installed before, unless it comes later. */
export async function startContainerd(
  node: Pick<TestNode, 'dir' | 'run' | 'exec' | 'start'>,
  { images = [], network = 'at-once', namespaces = 'state-dir' }: ContainerdOptions = {},
): Promise<Containerd> {
  await using scope = new AsyncDisposableStack();
  const cgroup = scope.use(newCgroup());
  const socket = join(node.dir, 'containerd.sock');
  const config = join(node.dir, 'containerd.toml');
  if (namespaces === 'run-netns') {
    // As systemd has it: mounts in /run reach the mount namespaces of containers.
    await node.exec('mount', '--make-rshared', '/run');
  }
  await writeFile(config, configOf(node.dir, { socket, namespaces }));
  const ctr = ['ctr', '--address', socket];
  const serve = async (): Promise<Service> => {
    const daemon = await node.start(['containerd', '--config', config]);
    await until(
      async () => (await node.run([...ctr, 'version'])).status === 0,
      () => `containerd serves:\n${daemon.log()}`,
    );
    return daemon;
  };
  let daemon = await serve();
  scope.defer(async () => daemon.stop('KILL'));
  const pause = await makeImage(join(node.dir, 'pause'), {
    names: [SANDBOX_IMAGE],
    config: { Entrypoint: ['/bin/sleep', '100000'] },
  });
  const importImage = async (archive: string): Promise<void> => {
    await node.exec('ctr', '--address', socket, '--namespace', 'k8s.io', 'images', 'import', archive);
  };
  for (const archive of [pause, ...images]) await importImage(archive);
  const cri = scope.use(await openCri(socket));
  const becomeReady = async (): Promise<void> =>
    until(
      async () => isNetworkReady(cri),
      () => `containerd has read its network:\n${daemon.log()}`,
    );
  if (network === 'at-once') await becomeReady();
  const rootfs = await makeRootfs(join(node.dir, 'rootfs'));

  const kept = scope.move();
  return {
    cri,
    socket,
    importImage,
    run: async (name) => {
      const options = ['--rm', '--cni', '--cgroup', `/${cgroup.name}/${name}`, '--rootfs', rootfs];
      const run = await node.start([...ctr, 'run', ...options, name, '/bin/sleep', '1000']);
      let pid = 0;
      await until(
        async () => {
          const line = (await node.exec('ctr', '--address', socket, 'tasks', 'list'))
            .split('\n')
            .find((text) => text.startsWith(`${name} `));
          pid = Number(line?.split(/\s+/)[1] ?? 0);
          return pid > 0 && line!.includes('RUNNING') && (await hasNetwork(node, pid));
        },
        () => `container ${name} runs with a network:\n${run.log()}`,
      );
      let execs = 0;
      return {
        pid,
        exec: async (...command) => {
          execs += 1;
          const id = `exec-${String(execs)}`;
          return node.exec(
            'ctr',
            '--address',
            socket,
            'tasks',
            'exec',
            '--exec-id',
            id,
            name,
            '/bin/busybox',
            ...command,
          );
        },
        stop: async () => {
          await node.exec('ctr', '--address', socket, 'tasks', 'kill', '--signal', 'KILL', name);
          await run.ended;
        },
      };
    },
    runSandbox: async ({
      namespace,
      name,
      uid,
      attempt = 0,
      annotations = {},
      portMappings = [],
      hostNetwork = false,
    }) => {
      const metadata = { namespace, name, uid, attempt };
      const securityContext = { namespaceOptions: { network: hostNetwork ? NAMESPACE_OF_NODE : NAMESPACE_OF_POD } };
      const linux = { cgroupParent: `/${cgroup.name}`, securityContext };
      const config = { metadata, hostname: hostNetwork ? '' : name, annotations, portMappings, linux, labels: {} };
      return (await cri.call('runPodSandbox', { config })).podSandboxId;
    },
    removeSandbox: async (podSandboxId) => {
      await cri.call('stopPodSandbox', { podSandboxId });
      await cri.call('removePodSandbox', { podSandboxId });
    },
    restart: async () => {
      const hadNetwork = await isNetworkReady(cri);
      await daemon.stop('KILL');
      daemon = await serve();
      if (hadNetwork) await becomeReady();
    },
    sandboxIps: async (id) => {
      const { status } = await cri.call('podSandboxStatus', { podSandboxId: id });
      return [status.network.ip, ...status.network.additionalIps.map(({ ip }: Json) => ip)];
    },
    [Symbol.asyncDispose]: async () => kept.disposeAsync(),
  };
}

/** Returns where containerd looks for hosts.toml of a registry: in a folder named after its address. */
export function registryFolder(dir: string): string {
  return join(dir, 'containerd/registries');
}

function configOf(
  dir: string,
  { socket, namespaces }: { readonly socket: string; readonly namespaces: 'state-dir' | 'run-netns' },
): string {
  return `
version = 3
root = "${dir}/containerd/root"
state = "/run/containerd-state"
[grpc]
  address = "${socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "${dir}/containerd/opt"
[plugins."io.containerd.grpc.v1.cri"]
  stream_server_address = "127.0.0.1"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "native"
  # The transfer service would want this snapshotter configured a second time.
  use_local_image_pull = true
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "${SANDBOX_IMAGE}"
  [plugins."io.containerd.cri.v1.images".registry]
    config_path = "${registryFolder(dir)}"
[plugins."io.containerd.cri.v1.runtime"]
  # The kernel refuses a lower score than the test itself has.
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = ${String(namespaces === 'state-dir')}
  disable_apparmor = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["/opt/cni/bin"]
    conf_dir = "/etc/cni/net.d"
`;
}

async function isNetworkReady(cri: Cri): Promise<boolean> {
  try {
    const { status } = await cri.call('status');
    return status.conditions.some((condition: Json) => condition.type === 'NetworkReady' && condition.status === true);
  } catch {
    // The socket is served before the CRI plugin is.
    return false;
  }
}

/** `ctr` starts a container first and gives it its network then. */
async function hasNetwork(node: Pick<TestNode, 'run'>, pid: number): Promise<boolean> {
  return (await node.run(['nsenter', '-t', String(pid), '-n', 'ip', 'route', 'get', '192.0.2.1'])).status === 0;
}
