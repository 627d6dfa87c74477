// One node of a cluster, on this machine and apart from it: a box of namespaces with etcd and plugins inside.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { copyFile, link, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { EXECUTABLE_NAMES } from '../../src/install/places.ts';
import { decodeResource } from '../../src/model/decode-resource.ts';
import { decodeBlock } from '../../src/model/ip-block-codec.ts';
import { heldAddresses } from '../../src/model/ip-block.ts';
import { formatAddress } from '../../src/net/address.ts';
import { type Agent, type Mode, MODE, startAgent } from './agent.ts';
import { openBox, searchPath } from './box.ts';
import { newCgroup } from './cgroup.ts';
import { program, STANDARD_PLUGINS } from './components.ts';
import { removeAtEnd } from './janitor.ts';
import { newNetns, type TestNetns } from './netns.ts';
import { until } from './until.ts';
import { BUILT } from './built.ts';

export { until };

/** JSON of a plugin, a runtime or the datastore; what is in it is for the test to know. */
// oxlint-disable-next-line typescript/no-explicit-any -- an oracle's free-form answer, read by tests only
export type Json = any;

export interface RunResult {
  /** Exit status; undefined when a signal ended the program. */
  readonly status: number | undefined;
  readonly stdout: string;
  readonly stderr: string;
}

export interface CniCall {
  /** File name of the plugin, `netplug` unless given. */
  readonly plugin?: string;
  readonly containerId?: string;
  /** Path in CNI_NETNS; none for a runtime that has lost it. */
  readonly netns?: string;
  /** `eth0` unless given. */
  readonly ifName?: string;
  /** CNI_ARGS. */
  readonly args?: string;
  /** Standard input; a complete network configuration. */
  readonly conf: object;
  readonly env?: Readonly<Record<string, string>>;
}

export interface CniAnswer extends RunResult {
  /** What was printed on standard output; undefined for nothing. */
  readonly json: Json;
}

/** A program that goes on running inside the node. */
export interface Service {
  /** As seen inside. */
  readonly pid: number;
  /** Settles when it has ended, by itself or not, and `log` has its last output. */
  readonly ended: Promise<unknown>;
  /** What it has printed so far, on both streams. */
  log(): string;
  /** Ends it, with SIGTERM unless given another signal, and waits until it has exited. */
  stop(signal?: 'TERM' | 'KILL'): Promise<void>;
  /** Stops it where it is (SIGSTOP), as long as it is not resumed. */
  pause(): Promise<void>;
  resume(): Promise<void>;
}

/**
 * A node with namespaces of its own for network, mounts and processes: what runs inside sees loopback, /etc, /var, /opt,
 * /dev/shm and /proc of its own, so that hard-wired paths of runtimes (/etc/cni/net.d, /opt/cni/bin, /var/lib/cni) are private.
 * An etcd serves on 127.0.0.1:2379 inside. `await using` ends everything inside and removes it; when the test process
 * dies, the kernel ends it.
 */
export interface TestNode extends AsyncDisposable {
  /** The node name in netconfs made by `netconf`. */
  readonly name: string;
  /** Network namespace of the node. */
  readonly host: TestNetns;
  /** Unless it has none. */
  readonly etcd: Service | undefined;
  /** Private folder, at the same path inside and outside. */
  readonly dir: string;
  /** Folder of the plugins, as CNI_PATH has it. */
  readonly cniPath: string;
  /** Command that runs what follows it inside, from the machine. */
  readonly enter: readonly string[];
  /** Runs a program inside and returns its standard output; rejects when it fails. */
  exec(...command: [string, ...string[]]): Promise<string>;
  /** Runs a program inside to its end, with nothing but PATH and `env` in its environment. */
  run(command: readonly string[], options?: RunOptions): Promise<RunResult>;
  /** Starts a program inside and leaves it running. */
  start(command: readonly string[], options?: { readonly env?: Readonly<Record<string, string>> }): Promise<Service>;
  /** Calls a plugin as a runtime does. */
  cni(command: string, call: CniCall): Promise<CniAnswer>;
  /** Makes a namespace for a pod; it goes with the node. */
  pod(): Promise<TestNetns>;
  /** Ends the namespaces of all pods that were made so far, as when none of them runs any more. */
  endPods(): Promise<void>;
  /** A complete configuration of netplug with this node's datastore; `more` adds or replaces fields. */
  netconf(more?: object): Record<string, Json>;
  /** Creates an IPPool; `more` adds to its spec. */
  seedPool(name: string, cidr: string, more?: object): Promise<void>;
  /** Who serves its calls; undefined in standalone mode, and where it is started by the test. */
  readonly agent: Agent | undefined;
  /** NETPLUG_SOCKET of calls; in standalone mode without a listener. */
  readonly socket: string;
  /** Waits until everything decided on the node is in the datastore; what reads records does so by itself. */
  settled(): Promise<void>;
  /** Everything in the datastore below `/netplug/v3/<prefix>`, by key without `/netplug/v3/`; values decoded. */
  records(prefix?: string): Promise<ReadonlyMap<string, Json>>;
  /** The workload endpoints, in order of their keys. */
  endpoints(): Promise<readonly Json[]>;
  /** Every address a block says is taken, in canonical text. */
  heldAddresses(): Promise<readonly string[]>;
  /** Names of host sides of pods that are there. */
  hostLinks(): Promise<readonly string[]>;
}

export interface RunOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly stdin?: string;
}

export interface NodeOptions {
  readonly name?: string;
  /**
   * Gives the node a /run of its own, for runtimes that make namespaces by themselves; namespaces made outside (`pod()`)
   * are not visible then.
   */
  readonly ownRun?: boolean;
  /**
   * Gives it what else a machine has of its own: a host name, control groups, and kernel settings that a kubelet changes.
   * Comes with a /run of its own.
   */
  readonly asMachine?: boolean;
  /** Where etcd serves; on loopback unless given. Without etcd, what asks for records fails. */
  readonly etcd?: 'loopback' | 'every-address' | 'nowhere';
  /** Lets etcd sync every write to disk, as in production; for measurements. */
  readonly durable?: boolean;
  /** Who serves calls: as the run of the tests has it unless given. A node without etcd gets its agent from the test. */
  readonly mode?: Mode;
  /** What is in its CNI bin directory: netplug and the standard plugins unless given. */
  readonly plugins?: 'all' | 'standard';
  /** Waited for before records are read, when agents of other nodes write them. */
  readonly settled?: () => Promise<void>;
}

/** For calls as another node would make them: with no agent, and where no name is registered. */
export const AS_OTHER_NODE = { NETPLUG_SOCKET: '/dev/null', NETPLUG_STATE_DIR: '/var/lib/netplug-elsewhere' };

const ETCD = 'http://127.0.0.1:2379';
/** For the last output of a program that has ended. */
const LAST_OUTPUT_MS = 1000;
const PREFIX = '/netplug/v3/';

/** Starts a node, ready to serve. */
export async function startNode({
  name = 'node-a',
  asMachine = false,
  ownRun = asMachine,
  etcd = 'loopback',
  durable = false,
  mode = MODE,
  plugins = 'all',
  settled = async () => Promise.resolve(),
}: NodeOptions = {}): Promise<TestNode> {
  await using scope = new AsyncDisposableStack();
  const dir = await mkdtemp(join(tmpdir(), 'netplug-node-'));
  removeAtEnd('folder', dir);
  scope.defer(async () => rm(dir, { recursive: true, force: true }));
  const host = scope.use(await newNetns());
  await installPlugins(join(dir, 'opt/cni/bin'), plugins);
  const cgroup = asMachine ? scope.use(newCgroup()).name : undefined;
  const machine = cgroup === undefined ? undefined : { name, cgroup };
  const PATH = searchPath(dir);
  const [enter, ...inside] = await openBox({ dir, host, ownRun, machine }, scope);

  const run: TestNode['run'] = async ([file, ...args], { env = {}, stdin = '' } = {}) => {
    const child = spawn(enter, [...inside, file!, ...args], { env: { PATH, ...env }, stdio: 'pipe' });
    const output = { stdout: '', stderr: '' };
    for (const stream of ['stdout', 'stderr'] as const) {
      child[stream].setEncoding('utf8').on('data', (text: string) => (output[stream] += text));
    }
    // A program may end without reading its input.
    child.stdin.on('error', () => undefined);
    child.stdin.end(stdin);
    const [status] = (await once(child, 'close')) as [number | null];
    return { status: status ?? undefined, ...output };
  };
  const exec: TestNode['exec'] = async (...command) => {
    const { status, stdout, stderr } = await run(command);
    if (status !== 0) throw new Error(`${command.join(' ')} ended with ${String(status)}:\n${stdout}${stderr}`);
    return stdout;
  };
  const start: TestNode['start'] = async (command, { env = {} } = {}) =>
    startService(
      spawn(enter, [...inside, 'sh', '-c', 'echo $$; exec "$@"', 'sh', ...command], { env: { PATH, ...env } }),
      run,
    );

  const etcdHost = etcd === 'loopback' ? '127.0.0.1' : '0.0.0.0';
  const ownEtcd = etcd === 'nowhere' ? undefined : await startEtcdInside({ start, exec, durable, host: etcdHost });
  // Nodes may share /run; where a node has one of its own, the agent listens where runtimes look for it.
  const socket = ownRun ? '/run/netplug/cni.sock' : join(dir, 'agent/cni.sock');
  const agent =
    mode === 'agent' && etcd !== 'nowhere' ? await startAgent({ name, dir, start, run }, { socket }) : undefined;
  const settle = async (): Promise<void> => {
    await agent?.settled();
    await settled();
  };
  const pods = scope.use(new AsyncDisposableStack());
  const made = new Set<TestNetns>();
  const cniPath = '/opt/cni/bin';
  const records: TestNode['records'] = async (prefix = '') => {
    await settle();
    const { kvs = [] } = JSON.parse(await etcdctl(exec, 'get', '--prefix', `${PREFIX}${prefix}`, '-w', 'json'));
    return new Map(kvs.map(({ key, value }: Json) => [decodeKey(key), decodeValue(value)]));
  };
  const node: Omit<TestNode, typeof Symbol.asyncDispose> = {
    name,
    host,
    etcd: ownEtcd,
    dir,
    cniPath,
    enter: [enter, ...inside],
    exec,
    run,
    start,
    agent,
    socket,
    settled: settle,
    cni: async (command, { plugin = 'netplug', conf, env, ...call }) => {
      const result = await run([join(cniPath, plugin)], {
        stdin: JSON.stringify(conf),
        env: {
          CNI_COMMAND: command,
          CNI_CONTAINERID: call.containerId ?? '',
          CNI_NETNS: call.netns ?? '',
          CNI_IFNAME: call.ifName ?? 'eth0',
          CNI_ARGS: call.args ?? '',
          CNI_PATH: cniPath,
          NETPLUG_SOCKET: socket,
          ...env,
        },
      });
      return { ...result, json: result.stdout.trim() === '' ? undefined : JSON.parse(result.stdout) };
    },
    pod: async () => {
      const pod = pods.use(await newNetns());
      made.add(pod);
      return pod;
    },
    endPods: async () => {
      for (const pod of made) await pod[Symbol.asyncDispose]();
      made.clear();
    },
    netconf: (more = {}) => ({
      cniVersion: '1.1.0',
      name: 'k8s-pod-network',
      type: 'netplug',
      nodename: name,
      datastore_type: 'kvv3',
      kv_endpoints: ETCD,
      ipam: { type: 'netplug-ipam', assign_ipv4: 'true', assign_ipv6: 'false' },
      ...more,
    }),
    seedPool: async (pool, cidr, more = {}) => {
      const written = {
        apiVersion: 'netplug.io/v3',
        kind: 'IPPool',
        metadata: { name: pool },
        spec: { cidr, ...more },
      };
      const decoded = decodeResource(written);
      if (!('resource' in decoded)) throw new Error(`the pool is wrong: ${JSON.stringify(decoded.problems)}`);
      await etcdctl(exec, 'put', `${PREFIX}resources/ippools/${pool}`, JSON.stringify(decoded.resource));
      if (agent !== undefined) await until(async () => isKnown(node, pool, cidr), 'the agent knows the pool');
    },
    records,
    endpoints: async () => [...(await records('endpoints/')).values()],
    heldAddresses: async () => [...(await records('ipam/blocks/')).values()].flatMap(takenIn),
    hostLinks: async () =>
      (await host.ip('link')).map(({ ifname }) => String(ifname)).filter((link) => link.startsWith('npl')),
  };
  const kept = scope.move();
  return { ...node, [Symbol.asyncDispose]: async () => kept.disposeAsync() };
}

async function installPlugins(folder: string, which: 'all' | 'standard'): Promise<void> {
  await mkdir(folder, { recursive: true });
  for (const name of STANDARD_PLUGINS) await placeProgram(program(name), join(folder, name));
  for (const name of which === 'all' ? EXECUTABLE_NAMES : []) {
    const built = join(BUILT, name);
    if (!existsSync(built)) throw new Error(`${built} is missing: run "make build" first`);
    await placeProgram(built, join(folder, name));
  }
}

/** A file of its own: containers of the node do not see where a symbolic link leads. A build meanwhile does not change it. */
async function placeProgram(from: string, to: string): Promise<void> {
  await link(from, to).catch(async () => copyFile(from, to));
}

async function startService(child: ChildProcess, run: TestNode['run']): Promise<Service> {
  let output = '';
  for (const stream of [child.stdout!, child.stderr!]) {
    stream.setEncoding('utf8').on('data', (text: string) => (output += text));
  }
  const gone = once(child, 'exit');
  const closed = once(child, 'close');
  await until(() => output.includes('\n') || child.exitCode !== null, 'the program starts');
  const pid = Number(output.split('\n', 1)[0]);
  return {
    pid,
    // What it printed last may still be in the pipe, which processes that it leaves behind may keep open.
    ended: gone.then(async (status) => {
      await Promise.race([closed, sleep(LAST_OUTPUT_MS, undefined, { ref: false })]);
      return status;
    }),
    log: () => output.slice(output.indexOf('\n') + 1),
    stop: async (signal = 'TERM') => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      // It may be ending by itself at this moment.
      await run(['kill', `-${signal}`, String(pid)]);
      child.kill('SIGCONT');
      await gone;
    },
    pause: async () => void (await run(['kill', '-STOP', String(pid)])),
    resume: async () => {
      await run(['kill', '-CONT', String(pid)]);
      // What brought it inside has stopped itself together with it.
      child.kill('SIGCONT');
    },
  };
}

async function startEtcdInside({
  start,
  exec,
  durable,
  host,
}: Pick<TestNode, 'start' | 'exec'> & { durable: boolean; host: string }): Promise<Service> {
  const peer = 'http://127.0.0.1:2380';
  const etcd = await start([
    'etcd',
    // Tests need no durability, and a slow disk must not slow them down.
    ...(durable ? [] : ['--unsafe-no-fsync']),
    '--data-dir=/var/lib/netplug-test-etcd',
    `--listen-client-urls=http://${host}:2379`,
    `--advertise-client-urls=${ETCD}`,
    `--listen-peer-urls=${peer}`,
    `--initial-advertise-peer-urls=${peer}`,
    `--initial-cluster=default=${peer}`,
  ]);
  await until(
    () => /serving (insecure )?client|serving insecure/.test(etcd.log()),
    () => `etcd serves; it says:\n${etcd.log()}`,
  );
  await etcdctl(exec, 'endpoint', 'health');
  return etcd;
}

async function etcdctl(exec: TestNode['exec'], ...args: string[]): Promise<string> {
  return exec('env', 'ETCDCTL_API=3', 'etcdctl', `--endpoints=${ETCD}`, ...args);
}

/** An agent hears of a pool a moment after it was made. */
async function isKnown(node: Pick<TestNode, 'cni' | 'netconf'>, pool: string, cidr: string): Promise<boolean> {
  const [own, other] = cidr.includes(':') ? ['6', '4'] : ['4', '6'];
  const choice = { [`assign_ipv${own}`]: 'true', [`assign_ipv${other}`]: 'false', [`ipv${own}_pools`]: [pool] };
  const { json } = await node.cni('STATUS', { conf: node.netconf({ ipam: { type: 'netplug-ipam', ...choice } }) });
  return json === undefined || !String(json.msg).includes('no pool is named');
}

function decodeKey(base64: string): string {
  return Buffer.from(base64, 'base64').toString('utf8').slice(PREFIX.length);
}

function decodeValue(base64: string | undefined): Json {
  const text = Buffer.from(base64 ?? '', 'base64').toString('utf8');
  return text.startsWith('{') ? JSON.parse(text) : text;
}

function takenIn(record: Json): string[] {
  const decoded = decodeBlock(record);
  if (!('block' in decoded)) throw new Error(`a block cannot be read: ${decoded.problems.join('; ')}`);
  return heldAddresses(decoded.block).map(({ address }) => formatAddress(address));
}
