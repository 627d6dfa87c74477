// A local test cluster: `up` starts it and returns when it is ready, `down` removes it. See docs/cluster.md.
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  renameSync,
  rmdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { errnoOf } from '../src/base/errors.ts';
import { searchPath } from '../test/support/box.ts';
import { NETPLUGCTL } from '../test/support/built.ts';
import { type Cluster, NO_NETWORK, startCluster } from '../test/support/cluster.ts';
import { putClusterDns, startClusterDns } from '../test/support/cluster-dns.ts';
import { removeAtEnd } from '../test/support/janitor.ts';
import { program } from '../test/support/components.ts';
import { builtImage } from '../test/support/images.ts';
import { startMesh } from '../test/support/mesh.ts';
import { until } from '../test/support/until.ts';

/** Another folder, and another network namespace to start from, make room for a second cluster. */
const named = process.env['NETPLUG_CLUSTER_DIR'] ?? '';
const STATE = named === '' ? '/run/netplug-cluster' : named;
const KUBECONFIG = join(STATE, 'kubeconfig');
/** The options that the cluster was started with. */
const OPTIONS = join(STATE, 'options.json');
/** Process that holds the cluster, and when it was started. */
const HOLDER = join(STATE, 'holder');
const LOG = join(STATE, 'cluster.log');
/** A link to where programs print, which they must see from inside as well: it is not below /run. */
const LOGS = join(STATE, 'logs');
/** A link to the folder of all other files, which is the last to be removed. */
const FILES = join(STATE, 'files');
/** Ends of the link between the machine and the control plane. */
const LINK = { name: 'netplug-cluster', machine: '169.254.77.1', control: '169.254.77.2' };
/** Nodes and installation take two minutes on a quiet machine with two cores, and the mesh two more. */
const UP_MS = 900_000;
/** Ending containers, kubelets and etcd takes seconds on a quiet machine, and much longer on a slow disk. */
const DOWN_MS = 90_000;

/** What it takes to reach each node from the machine. */
const NODES = join(STATE, 'nodes.json');
const USAGE = `usage: cluster.ts up [--nodes COUNT] [--datastore orch|kv] [--network netplug|none] [--method operator|chart|manifest]
                     [--typha on|off] [--mesh on|off]
       cluster.ts load ARCHIVE
       cluster.ts shell NODE [COMMAND ...]
       cluster.ts down

The records are in etcd with --datastore kv, which only the method "manifest" supports.
The fan-out, netplug-typha, is on unless switched off; etcd has none.
With --mesh on, a service mesh runs in it as well, with a demo of rules about requests: docs/mesh-demo.md.
`;
const REPOSITORY = resolve(import.meta.dirname, '..');
/** Both families, every feature, and a pool of floating IPs. */
const INSTALLATION = join(REPOSITORY, 'examples/installation.yaml');

/** What `up` says the paths of. */
const TOOLS = ['kubectl', 'helm'] as const;

interface ReachableNode {
  readonly name: string;
  /** Of its containerd. */
  readonly socket: string;
  /** Command that runs what follows it on the node. */
  readonly enter: readonly string[];
  /** PATH of its programs. */
  readonly path: string;
}

const { values, positionals } = readArguments();
const [verb = '', ...operands] = positionals;
const commands: Record<string, () => Promise<void> | void> = { up, load, shell, down, serve };
const command = Object.hasOwn(commands, verb) ? commands[verb] : undefined;
if (command === undefined || !isValid()) {
  process.stderr.write(USAGE);
  process.exitCode = 64;
} else {
  await command();
}

function readArguments() {
  const options = {
    nodes: { type: 'string', default: '2' },
    datastore: { type: 'string', default: 'orch' },
    network: { type: 'string', default: 'netplug' },
    // By default the one that the datastore allows.
    method: { type: 'string' },
    // By default wherever the datastore is the API.
    typha: { type: 'string' },
    mesh: { type: 'string', default: 'off' },
  } as const;
  // What follows the name of a node is a command with options of its own.
  const args = process.argv.slice(2, process.argv[2] === 'shell' ? 4 : undefined);
  try {
    return parseArgs({ allowPositionals: true, args, options });
  } catch {
    // An option that is none, or one without its value.
    return parseArgs({ allowPositionals: true, args: [], options });
  }
}

function isValid(): boolean {
  const isNamed = verb === 'load' || verb === 'shell' ? operands.length === 1 : operands.length === 0;
  const isKnown =
    ['orch', 'kv'].includes(values.datastore) &&
    ['netplug', 'none'].includes(values.network) &&
    (values.mesh === 'off' || (values.mesh === 'on' && values.network === 'netplug')) &&
    methods().includes(method()) &&
    (values.typha === undefined || values.typha === 'off' || (values.typha === 'on' && values.datastore === 'orch'));
  return isNamed && isKnown && /^[1-9]$/.test(values.nodes);
}

/** Those of `netplugctl install cluster` that the datastore allows; the first one unless chosen. */
function methods(): readonly string[] {
  return values.datastore === 'kv' ? ['manifest'] : ['operator', 'chart', 'manifest'];
}

function method(): string {
  return values.method ?? methods()[0] ?? '';
}

/** Starts the process that holds the cluster, and shows what it does until the cluster is ready. */
async function up(): Promise<void> {
  if (holder() === undefined) {
    // Before anything is started, for what is missing.
    for (const name of TOOLS) program(name);
    say('building the images of netplug unless they are there');
    await images();
    await startHolder();
  } else if (readFileSync(OPTIONS, 'utf8') !== JSON.stringify(values)) {
    process.stderr.write('cluster: another one is running; end it first with "make cluster-down"\n');
    process.exitCode = 1;
    return;
  }
  let shown = 0;
  const show = (): void => {
    const text = readFileSync(LOG, 'utf8');
    process.stdout.write(text.slice(shown));
    shown = text.length;
  };
  const isReady = (): boolean => existsSync(KUBECONFIG);
  const isOver = (): boolean => {
    show();
    return isReady() || holder() === undefined;
  };
  await until(isOver, 'the cluster is ready', UP_MS, 200).catch((cause: unknown) => {
    process.stdout.write(`${String(cause)}\n`);
  });
  if (!isReady()) {
    await end();
    process.stdout.write(`cluster: it did not start; ${LOG} says why\n`);
    process.exitCode = 1;
    return;
  }
  for (const name of TOOLS) process.stdout.write(`${name} is ${program(name)}\n`);
  process.stdout.write(`export KUBECONFIG=${KUBECONFIG}\n`);
  if (values.datastore === 'kv') process.stdout.write(`export KV_ENDPOINTS=http://${LINK.control}:2379\n`);
}

async function startHolder(): Promise<void> {
  await down();
  const files = mkdtempSync(join(tmpdir(), 'netplug-cluster-'));
  mkdirSync(STATE, { recursive: true });
  mkdirSync(join(files, 'logs'));
  symlinkSync(files, FILES);
  symlinkSync(join(files, 'logs'), LOGS);
  const output = openSync(LOG, 'w');
  const options = Object.entries(values).map(([name, value]) => `--${name}=${value}`);
  const child = spawn(process.execPath, [import.meta.filename, 'serve', ...options], {
    detached: true,
    stdio: ['ignore', output, output],
    env: { ...process.env, TMPDIR: files },
  });
  child.unref();
  writeFileSync(OPTIONS, JSON.stringify(values));
  writeFileSync(HOLDER, identityOf(child.pid ?? 0) ?? '');
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    process.once(signal, () => void down().finally(() => process.kill(process.pid, signal)));
}

/** Ends the cluster and waits until nothing is left of it; nothing to do without one. */
async function down(): Promise<void> {
  await end();
  rmSync(LOG, { force: true });
  // The folder may hold other files when NETPLUG_CLUSTER_DIR names one that was there before.
  if (existsSync(STATE) && readdirSync(STATE).length === 0) rmdirSync(STATE);
}

/** Ends the cluster and leaves nothing but its log. */
async function end(): Promise<void> {
  const pid = holder();
  if (pid !== undefined) {
    process.stdout.write('cluster: ending it\n');
    process.kill(pid, 'SIGTERM');
  }
  const remaining = (): readonly string[] => [
    ...(holder() === undefined ? [] : [`process ${String(pid)}`]),
    ...(existsSync(FILES) ? [`folder ${readlinkSync(FILES)}`] : []),
  ];
  await until(() => remaining().length === 0, 'the cluster is gone', DOWN_MS).catch((cause: unknown) => {
    throw new Error(`Timed out while ending the cluster; remaining: ${remaining().join(', ')}`, { cause });
  });
  // The link goes with the namespace of its other end, which any process that is still in there keeps.
  if (pid !== undefined) spawnSync('ip', ['link', 'delete', 'dev', LINK.name]);
  for (const file of [KUBECONFIG, OPTIONS, HOLDER, NODES, LOGS, FILES]) rmSync(file, { force: true });
}

/** Holds the cluster until a signal ends this process, and so the cluster. */
async function serve(): Promise<void> {
  removeAtEnd('folder', realpathSync(FILES));
  const cluster = await start();
  const reachable = cluster.nodes.map(({ name, machine, containerd }): ReachableNode => {
    return { name, socket: containerd.socket, enter: machine.enter, path: searchPath(machine.dir) };
  });
  writeFileSync(NODES, JSON.stringify(reachable));
  linkTo(cluster);
  const url = `https://${LINK.control}:6443`;
  const kubeconfig = readFileSync(await cluster.api.kubeconfigFor(cluster.api.adminToken, { url }));
  writeFileSync(`${KUBECONFIG}.new`, kubeconfig, { mode: 0o600 });
  renameSync(`${KUBECONFIG}.new`, KUBECONFIG);
}

async function start(): Promise<Cluster> {
  const cluster = await startCluster({
    nodes: Number(values.nodes),
    names: [LINK.control],
    logs: realpathSync(LOGS),
    images: await images(),
    pools: {},
    conflist: NO_NETWORK,
    onProgress: say,
  });
  if (values.network === 'none') {
    await putClusterDns(cluster);
    return cluster;
  }
  await install(cluster);
  say('starting CoreDNS');
  await startClusterDns(cluster);
  say('netplug is installed');
  if (values.mesh === 'on') {
    await startMesh(cluster, say);
    say(`the mesh runs; what explains a refused request:\n${await explanation(cluster)}`);
  }
  return cluster;
}

/** Returns the command that explains why a client of the demo may not delete. */
async function explanation({ api }: Cluster): Promise<string> {
  const podOf = async (app: string): Promise<string> => {
    const name = 'jsonpath={.items[0].metadata.name}';
    return api.kubectl('get', 'pods', '--namespace=mesh-demo', `--selector=app=${app}`, `--output=${name}`);
  };
  const pods = `mesh-demo/${await podOf('client')} mesh-demo/${await podOf('web')}`;
  return `${NETPLUGCTL} policy why ${pods} --port 8080 --method DELETE --path /items/1`;
}

/** Archives of the images of netplug, which are built when they are older than its programs. */
async function images(): Promise<readonly string[]> {
  return [await builtImage('netplug-node'), await builtImage('netplug')];
}

/** Installs netplug by its one command, as a user does. */
async function install({ control, api, etcdUrl }: Cluster): Promise<void> {
  const argv = ['install', 'cluster', '--method', method(), '--spec', installationIn(control.dir), '--yes'];
  say(`netplugctl ${argv.join(' ')}`);
  const [enter = '', ...inside] = control.enter;
  const installer = spawn(enter, [...inside, NETPLUGCTL, ...argv], {
    stdio: ['ignore', 'inherit', 'inherit'],
    env: {
      PATH: searchPath(control.dir),
      KUBECONFIG: api.kubeconfig,
      HELM: program('helm'),
      HOME: api.dir,
      ...(values.datastore === 'kv' ? { KV_ENDPOINTS: etcdUrl } : {}),
    },
  });
  const [status] = await once(installer, 'exit');
  if (status !== 0) throw new Error(`netplugctl ended with status ${String(status)}`);
}

/** Returns the path of the Installation, in which the fan-out is on unless it was switched off. */
function installationIn(folder: string): string {
  if (values.datastore === 'kv' || values.typha === 'off') return INSTALLATION;
  const path = join(folder, 'installation.yaml');
  writeFileSync(path, `${readFileSync(INSTALLATION, 'utf8').trimEnd()}\n  typha:\n    mode: Enabled\n`);
  return path;
}

function say(text: string): void {
  process.stdout.write(`cluster: ${text}\n`);
}

/** Makes the images of an archive, as `docker save` writes it, available to the pods of every node. */
function load(): void {
  const [archive = ''] = operands;
  for (const { name, socket } of reachableNodes()) {
    process.stdout.write(`cluster: importing ${archive} on ${name}\n`);
    const args = ['--address', socket, '--namespace', 'k8s.io', 'images', 'import', archive];
    const { status } = spawnSync(program('ctr'), args, { stdio: 'inherit' });
    if (status !== 0) process.exitCode = 1;
  }
}

/** Runs a command on a node, or an interactive shell. */
function shell(): void {
  const nodes = reachableNodes();
  if (nodes.length === 0) return;
  const node = nodes.find(({ name }) => name === operands[0]);
  if (node === undefined) {
    const known = nodes.map(({ name }) => name).join(', ');
    process.stderr.write(`cluster: there is no node "${operands[0] ?? ''}"; nodes: ${known}\n`);
    process.exitCode = 64;
    return;
  }
  const [enter = '', ...inside] = node.enter;
  const command = process.argv.length > 4 ? process.argv.slice(4) : ['bash'];
  const here = ['sh', '-c', 'cd "$0" && exec "$@"', process.cwd(), ...command];
  // A kubeconfig of the machine is not there.
  const { KUBECONFIG: _, ...env } = process.env;
  const { status } = spawnSync(enter, [...inside, ...here], { stdio: 'inherit', env: { ...env, PATH: node.path } });
  process.exitCode = status ?? 1;
}

/** The nodes of the running cluster; none, with a message, without one. */
function reachableNodes(): readonly ReachableNode[] {
  if (existsSync(NODES) && holder() !== undefined) return JSON.parse(readFileSync(NODES, 'utf8')) as ReachableNode[];
  process.stderr.write('cluster: no cluster is running; start one with "make cluster"\n');
  process.exitCode = 1;
  return [];
}

/** Returns the pid of the process that owns the cluster, if it runs. */
function holder(): number | undefined {
  const recorded = existsSync(HOLDER) ? readFileSync(HOLDER, 'utf8') : '';
  const pid = Number(recorded.split(' ', 1)[0]);
  return recorded !== '' && identityOf(pid) === recorded ? pid : undefined;
}

/** Returns an id that distinguishes a process from a later one with the same pid; undefined if it does not run. */
function identityOf(pid: number): string | undefined {
  try {
    // Behind the name, which may hold anything: state, then 18 others, then the time of its start.
    const fields = readFileSync(`/proc/${String(pid)}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ');
    return fields[0] === 'Z' ? undefined : `${String(pid)} ${String(fields[19])}`;
  } catch (cause) {
    if (errnoOf(cause) === 'ENOENT' || errnoOf(cause) === 'ESRCH') return undefined;
    throw cause;
  }
}

/** A path from the machine's own namespace to the API server; it goes with the namespace at its other end. */
function linkTo({ control }: Cluster): void {
  ip('link', 'add', 'name', LINK.name, 'type', 'veth', 'peer', 'name', 'machine', 'netns', control.host.name);
  ip('address', 'add', `${LINK.machine}/30`, 'dev', LINK.name);
  ip('link', 'set', 'dev', LINK.name, 'up');
  ip('-netns', control.host.name, 'address', 'add', `${LINK.control}/30`, 'dev', 'machine');
  ip('-netns', control.host.name, 'link', 'set', 'dev', 'machine', 'up');
}

function ip(...args: string[]): void {
  execFileSync('ip', args, { stdio: ['ignore', 'ignore', 'pipe'] });
}
