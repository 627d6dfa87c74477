// podman with its CNI backend, with storage, settings and state of its own on a test node.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { newCgroup } from './cgroup.ts';
import type { Json, RunResult, TestNode } from './node.ts';
import { makeRootfs } from './runtime.ts';

export interface PodmanRun {
  readonly name: string;
  /** What stands behind `--network`. */
  readonly network: string;
  readonly options?: readonly string[];
}

export interface Podman extends AsyncDisposable {
  /** Starts a container that sleeps; the answer of `podman run`, whatever it is. */
  run(container: PodmanRun): Promise<RunResult>;
  /** Runs a busybox applet in the container and returns its output. */
  exec(name: string, ...command: [string, ...string[]]): Promise<string>;
  /** `podman inspect`. */
  inspect(name: string): Promise<Json>;
  /** Stops and removes the container. */
  remove(name: string): Promise<void>;
}

/** Sets podman up on a node with `ownRun`, after its network was installed. */
export async function startPodman(node: TestNode): Promise<Podman> {
  const cgroup = newCgroup();
  const settings = join(node.dir, 'containers.conf');
  await writeFile(
    settings,
    `[network]
network_backend = "cni"
network_config_dir = "/etc/cni/net.d"
cni_plugin_dirs = ["${node.cniPath}"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
runtime = "runc"
`,
  );
  const rootfs = await makeRootfs(join(node.dir, 'rootfs'));
  const storage = ['--root', join(node.dir, 'containers'), '--runroot', '/run/containers', '--storage-driver', 'vfs'];
  const podman = async (...args: string[]): Promise<RunResult> =>
    node.run(['podman', ...storage, ...args], { env: { CONTAINERS_CONF: settings, HOME: '/root' } });
  const insist = async (...args: string[]): Promise<string> => {
    const { status, stdout, stderr } = await podman(...args);
    if (status !== 0) throw new Error(`podman ${args.join(' ')} ended with ${String(status)}:\n${stderr}`);
    return stdout;
  };
  return {
    run: async ({ name, network, options = [] }) => {
      const limits = [
        '--ulimit',
        'nofile=1024:1024',
        '--ulimit',
        'nproc=1024:1024',
        '--cgroup-parent',
        `/${cgroup.name}`,
      ];
      return podman(
        'run',
        '--detach',
        '--name',
        name,
        '--network',
        network,
        ...limits,
        ...options,
        '--rootfs',
        rootfs,
        '/bin/sleep',
        '1000',
      );
    },
    exec: async (name, ...command) => insist('exec', name, '/bin/busybox', ...command),
    inspect: async (name) => JSON.parse(await insist('container', 'inspect', name))[0],
    remove: async (name) => {
      await insist('rm', '--force', '--time', '0', name);
    },
    [Symbol.asyncDispose]: async () => cgroup[Symbol.asyncDispose](),
  };
}
