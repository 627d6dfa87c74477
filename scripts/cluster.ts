// A cluster to play with: `up` starts it and returns when it is ready, `down` removes it. docs/cluster.md tells the rest.
import { execFileSync, spawn } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { errnoOf } from '../src/base/errors.ts';
import { type Cluster, startCluster } from '../test/support/cluster.ts';
import { removeAtEnd } from '../test/support/janitor.ts';
import { program } from '../test/support/components.ts';
import { until } from '../test/support/until.ts';

const STATE = '/run/netplug-cluster';
const KUBECONFIG = join(STATE, 'kubeconfig');
/** Process that holds the cluster, and when it was started. */
const HOLDER = join(STATE, 'holder');
const LOG = join(STATE, 'cluster.log');
/** A link to where programs print, which they must see from inside as well: it is not below /run. */
const LOGS = join(STATE, 'logs');
/** A link to the folder of all other files, which is the last to be removed. */
const FILES = join(STATE, 'files');
/** Ends of the link between the machine and the control plane. */
const LINK = { name: 'netplug-cluster', machine: '169.254.77.1', control: '169.254.77.2' };
const UP_MS = 300_000;
const DOWN_MS = 30_000;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { nodes: { type: 'string', default: '2' } },
});
const commands: Record<string, () => Promise<void>> = { up, down, serve };
const command = commands[positionals[0] ?? ''];
if (command === undefined) {
  process.stderr.write('usage: cluster.ts up [--nodes COUNT] | down\n');
  process.exitCode = 64;
} else {
  await command();
}

/** Starts the process that holds the cluster, and shows what it does until the cluster is ready. */
async function up(): Promise<void> {
  if (holder() === undefined) await startHolder();
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
    await down();
    process.exitCode = 1;
    return;
  }
  process.stdout.write(`kubectl is ${program('kubectl')}\nexport KUBECONFIG=${KUBECONFIG}\n`);
}

async function startHolder(): Promise<void> {
  await down();
  const files = mkdtempSync(join(tmpdir(), 'netplug-cluster-'));
  mkdirSync(STATE, { recursive: true });
  mkdirSync(join(files, 'logs'));
  symlinkSync(files, FILES);
  symlinkSync(join(files, 'logs'), LOGS);
  const output = openSync(LOG, 'w');
  const child = spawn(process.execPath, [import.meta.filename, 'serve', `--nodes=${values.nodes}`], {
    detached: true,
    stdio: ['ignore', output, output],
    env: { ...process.env, TMPDIR: files },
  });
  child.unref();
  writeFileSync(HOLDER, identityOf(child.pid ?? 0) ?? '');
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    process.once(signal, () => void down().finally(() => process.kill(process.pid, signal)));
}

/** Ends the cluster and waits until nothing is left of it; nothing to do without one. */
async function down(): Promise<void> {
  const pid = holder();
  if (pid !== undefined) {
    process.stdout.write('cluster: ending it\n');
    process.kill(pid, 'SIGTERM');
  }
  await until(() => holder() === undefined && !existsSync(FILES), 'the cluster is gone', DOWN_MS);
  rmSync(STATE, { recursive: true, force: true });
}

/** Holds the cluster until a signal ends this process, and so the cluster. */
async function serve(): Promise<void> {
  removeAtEnd('folder', realpathSync(FILES));
  const cluster = await startCluster({
    nodes: Number(values.nodes),
    names: [LINK.control],
    logs: realpathSync(LOGS),
    networking: {},
    poolSpec: { vxlanMode: 'Always', natOutgoing: true },
    onProgress: (text) => process.stdout.write(`cluster: ${text}\n`),
  });
  linkTo(cluster);
  const url = `https://${LINK.control}:6443`;
  const kubeconfig = readFileSync(await cluster.api.kubeconfigFor(cluster.api.adminToken, { url }));
  writeFileSync(`${KUBECONFIG}.new`, kubeconfig, { mode: 0o600 });
  renameSync(`${KUBECONFIG}.new`, KUBECONFIG);
}

/** The process that holds the cluster, if it lives. */
function holder(): number | undefined {
  const recorded = existsSync(HOLDER) ? readFileSync(HOLDER, 'utf8') : '';
  const pid = Number(recorded.split(' ', 1)[0]);
  return recorded !== '' && identityOf(pid) === recorded ? pid : undefined;
}

/** Tells the process from a later one of the same number; none for one that is not there or dead. */
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
