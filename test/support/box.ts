// The namespaces of a test node.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type ProgramName, programPath } from './components.ts';
import type { TestNetns } from './netns.ts';

const SYSTEM_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/** Programs that a node runs by name: its own releases, not those of the machine's packages. */
const NODE_PROGRAMS: readonly ProgramName[] = [
  'etcd',
  'etcdctl',
  'containerd',
  'containerd-shim-runc-v2',
  'ctr',
  'runc',
];

/** Version 2 of control groups: one with processes in it cannot hand controllers down, so they are in one below. */
const LEAF = 'box';

export interface Box {
  /** Where it keeps what it writes to /etc, /var and /opt. */
  readonly dir: string;
  readonly host: Pick<TestNetns, 'path'>;
  readonly ownRun: boolean;
  /** Given for a host name, control groups and kernel settings of its own. */
  readonly machine: { readonly name: string; readonly cgroup: string } | undefined;
}

/** Returns PATH for programs inside the box with that folder. */
export function searchPath(dir: string): string {
  return `${join(dir, 'bin')}:${SYSTEM_PATH}`;
}

/** Makes the namespaces and returns the command before one that shall run inside. */
export async function openBox(
  { dir, host, ownRun, machine }: Box,
  scope: AsyncDisposableStack,
): Promise<[string, ...string[]]> {
  const bin = join(dir, 'bin');
  mkdirSync(bin, { recursive: true });
  for (const name of NODE_PROGRAMS) provide(name, join(bin, name));
  const script = [
    'set -e',
    ...['etc', 'var', 'opt'].flatMap((folder) => [
      `mkdir -p ${dir}/${folder} ${dir}/${folder}.work`,
      `mount -t overlay overlay -o lowerdir=/${folder},upperdir=${dir}/${folder},workdir=${dir}/${folder}.work /${folder}`,
    ]),
    // Not what packages or an installation of netplug have put on the machine.
    'rm -rf /etc/cni/net.d /var/lib/cni /var/lib/netplug /var/log/netplug',
    `for found in /opt/cni/* /opt/cni/bin/*; do [ -e ${dir}$found ] || [ -L ${dir}$found ] || rm -rf $found; done`,
    'mkdir -p /etc/cni/net.d',
    'mount -t tmpfs tmpfs /dev/shm',
    ownRun ? OWN_RUN : '',
    machine === undefined ? '' : `hostname ${machine.name}\n${WHOLE_PROC}\n${ownKernelSettings(dir)}\n${OWN_CGROUPS}`,
    // The first process of the namespace inherits orphans; ignoring SIGCHLD, it lets the kernel bury them.
    "trap '' CHLD",
    'echo ready',
    // Ends, and everything inside with it, as soon as the other end of its input is closed.
    'exec cat',
  ].join('\n');
  const unshare = ['unshare', '--mount', '--propagation', 'slave', '--pid', '--fork', '--kill-child', '--mount-proc'];
  const hostName = machine === undefined ? [] : ['--uts'];
  const command = ['nsenter', `--net=${host.path}`, ...unshare, ...hostName, 'sh', '-c', script];
  const [file, ...args] = machine === undefined ? command : [...inNewCgroup(machine.cgroup), ...command];
  const holder = spawn(file!, args, { stdio: 'pipe', env: { PATH: searchPath(dir) } });
  let errors = '';
  holder.stderr.setEncoding('utf8').on('data', (text: string) => (errors += text));
  const gone = once(holder, 'exit');
  scope.defer(async () => {
    holder.stdin.end();
    await gone;
  });
  const outcome = await Promise.race([once(holder.stdout, 'data').then(() => 'ready'), gone.then(() => 'gone')]);
  if (outcome !== 'ready') throw new Error(`the namespaces of the node could not be made: ${errors}`);
  const proc = `/proc/${String(holder.pid)}/ns`;
  const enter: [string, ...string[]] = [
    'nsenter',
    `--net=${host.path}`,
    `--mount=${proc}/mnt`,
    `--pid=${proc}/pid_for_children`,
  ];
  if (machine === undefined) return enter;
  return [...inCgroup(machine.cgroup), ...enter, `--uts=${proc}/uts`, `--cgroup=${proc}/cgroup`];
}

/** Puts the program at the path. One that is missing says so when it is run; PATH must not lead to an older one. */
function provide(name: ProgramName, path: string): void {
  const file = programPath(name);
  if (existsSync(file)) symlinkSync(file, path);
  else
    writeFileSync(path, `#!/bin/sh\necho '${file} is missing: run "make components"' >&2\nexit 127\n`, { mode: 0o755 });
}

/** What follows runs in new control groups, which become the roots of what is inside. */
function inNewCgroup(name: string): string[] {
  const script = [
    'set -e',
    'if [ -e /sys/fs/cgroup/cgroup.controllers ]; then',
    `  mkdir -p /sys/fs/cgroup/${name}/${LEAF}`,
    `  echo $$ > /sys/fs/cgroup/${name}/cgroup.procs`,
    `  exec unshare --cgroup sh -c 'echo $$ > /sys/fs/cgroup/${name}/${LEAF}/cgroup.procs; exec "$@"' sh "$@"`,
    'fi',
    'for root in /sys/fs/cgroup/*; do',
    '  [ -e $root/cgroup.procs ] && [ ! -L $root ] || continue',
    `  mkdir $root/${name}`,
    // A new group of this hierarchy accepts no process before these are set.
    `  for file in cpuset.cpus cpuset.mems; do [ ! -e $root/$file ] || cat $root/$file > $root/${name}/$file; done`,
    `  echo $$ > $root/${name}/cgroup.procs`,
    'done',
    'exec unshare --cgroup "$@"',
  ].join('\n');
  return ['sh', '-c', script, 'sh'];
}

/** What follows runs in the control group. In version 1 it may stay outside: processes can be moved in from there. */
function inCgroup(name: string): [string, ...string[]] {
  const procs = `/sys/fs/cgroup/${name}/${LEAF}/cgroup.procs`;
  return ['sh', '-c', `[ ! -e ${procs} ] || echo $$ > ${procs}; exec "$@"`, 'sh'];
}

/** containerd looks at the lowest of the mounts on /run to find out whether mounts can reach containers. */
const OWN_RUN = [
  '! mountpoint -q /run || mount --make-shared /run',
  'mount -t tmpfs tmpfs /run && mount --make-private /run',
  'mkdir /run/lock',
].join('\n');

/**
 * The kernel lets a pod with users of its own mount /proc only where it sees a /proc with nothing mounted over it, and the
 * settings below are mounted over the other one.
 */
const WHOLE_PROC = 'mkdir -p /dev/shm/proc && mount -t proc proc /dev/shm/proc';

/** Mounts control groups anew, so that only those of the node are to be seen. */
const OWN_CGROUPS = [
  'if [ -e /sys/fs/cgroup/cgroup.controllers ]; then',
  '  mount -t cgroup2 cgroup2 /sys/fs/cgroup',
  '  for one in $(cat /sys/fs/cgroup/cgroup.controllers); do echo +$one > /sys/fs/cgroup/cgroup.subtree_control; done',
  'else',
  '  mount -t tmpfs tmpfs /sys/fs/cgroup',
  '  while IFS=: read -r id names path; do',
  '    [ -n "$names" ] || continue',
  '    folder=/sys/fs/cgroup/${names#name=}; mkdir $folder',
  '    case $names in name=*) mount -t cgroup -o none,$names cgroup $folder;; *) mount -t cgroup -o $names cgroup $folder;; esac',
  '    for one in $(echo ${names#name=} | tr , " "); do [ -e /sys/fs/cgroup/$one ] || ln -s $folder /sys/fs/cgroup/$one; done',
  '  done < /proc/self/cgroup',
  'fi',
].join('\n');

/** Files in place of settings that a kubelet sets for the whole kernel. */
function ownKernelSettings(dir: string): string {
  const settings = [
    'vm/overcommit_memory=1',
    'vm/panic_on_oom=0',
    'kernel/panic=10',
    'kernel/panic_on_oops=1',
    'kernel/keys/root_maxkeys=1000000',
    'kernel/keys/root_maxbytes=25000000',
  ];
  return [
    `for setting in ${settings.join(' ')}; do`,
    `  path=\${setting%=*}; file=${dir}/settings/$path; mkdir -p \${file%/*}; echo \${setting#*=} > $file`,
    '  [ ! -e /proc/sys/$path ] || mount --bind $file /proc/sys/$path',
    'done',
  ].join('\n');
}
