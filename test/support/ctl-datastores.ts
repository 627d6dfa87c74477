// The management tool with its real dependencies, run from its sources on a real datastore of either type.
import { spawn } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { main } from '../../src/apps/ctl/main.ts';
import { ctlPortsIn } from '../../src/bin/netplugctl.ts';
import { openKvStore } from '../../src/datastore/kv/kv-store.ts';
import { openOrchStore } from '../../src/datastore/orch/orch-store.ts';
import type { Store } from '../../src/datastore/store.ts';
import { inExtent } from '../runs.ts';
import { startEtcd } from './etcd.ts';
import { removeAtEnd } from './janitor.ts';
import { type OrchApiServer, startOrchApiServer } from './orch-datastore.ts';

const ROOT = resolve(import.meta.dirname, '../..');
/** The sources behind every program; it goes by the name it is called by. */
export const MAIN = join(ROOT, 'src/bin/main.ts');

export interface CtlRun {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface CtlRunOptions {
  readonly stdin?: string;
  /** Besides what names the datastore. */
  readonly env?: Readonly<Record<string, string>>;
}

/** A datastore with nothing in it but what tests write, and the tool to do so. `await using` ends it. */
export interface CtlDatastore extends AsyncDisposable {
  /** What makes the tool find the datastore. */
  readonly env: Readonly<Record<string, string>>;
  /** Calls `netplugctl` in this process, in the folder of the repository, so that examples/ can be named. */
  run(argv: readonly string[], options?: CtlRunOptions): Promise<CtlRun>;
  /** A connection of its own, for calls within the process: 64 processes at once are too much for small machines. */
  readonly connect: () => Store;
  /** For what no command shows or makes; with the same rights as the tool. */
  readonly store: Store;
  /** The API server behind it, for what its own tools do; none with etcd. */
  readonly server: OrchApiServer | undefined;
  /** Removes every object that tests make. */
  empty(): Promise<void>;
}

export interface CtlDatastoreType {
  readonly type: 'kv' | 'orch';
  readonly start: () => Promise<CtlDatastore>;
}

const ALL: readonly CtlDatastoreType[] = [
  { type: 'orch', start: startOrch },
  { type: 'kv', start: startKv },
];

/**
 * For `describe.each(CTL_DATASTORES)('… on $type', ({ start }) => …)`. Every day the API alone: the contract of the store says that
 * both are the same.
 */
export const CTL_DATASTORES = ALL.slice(0, inExtent({ everyday: 1, soak: 2 }));

/** Starts one of that type. */
export async function startCtlDatastore(type: CtlDatastoreType['type']): Promise<CtlDatastore> {
  return ALL.find((each) => each.type === type)!.start();
}

async function startKv(): Promise<CtlDatastore> {
  const etcd = await startEtcd();
  const connect = (): Store =>
    openKvStore({
      endpoints: { from: 'list', urls: [etcd.url] },
      keyFile: undefined,
      certFile: undefined,
      caCertFile: undefined,
    });
  const store = connect();
  const env = { KV_ENDPOINTS: etcd.url };
  return {
    env,
    run: runnerWith(env),
    connect,
    store,
    server: undefined,
    empty: async () => etcd.empty(),
    [Symbol.asyncDispose]: async () => {
      await store[Symbol.asyncDispose]();
      await etcd[Symbol.asyncDispose]();
    },
  };
}

/** With no more rights than the role for the tool that netplug ships. */
async function startOrch(): Promise<CtlDatastore> {
  const server = await startOrchApiServer();
  const path = await server.callerConfig('admin tool');
  const connect = (): Store => openOrchStore({ from: 'file', path }, { manager: 'netplugctl' });
  const store = connect();
  const env = { DATASTORE_TYPE: 'orch', ORCHCONFIG: path };
  return {
    env,
    run: runnerWith(env),
    connect,
    store,
    server,
    empty: async () => server.empty(),
    [Symbol.asyncDispose]: async () => {
      await store[Symbol.asyncDispose]();
      await server[Symbol.asyncDispose]();
    },
  };
}

function runnerWith(datastore: Readonly<Record<string, string>>): CtlDatastore['run'] {
  return async (argv, { stdin = '', env = {} } = {}) => runCtl(argv, { stdin, env: { ...datastore, ...env } });
}

/** Calls the tool in this process, with no other variables than those given and places of its own. */
export async function runCtl(
  argv: readonly string[],
  { stdin = '', env: given = {} }: CtlRunOptions = {},
): Promise<CtlRun> {
  const env = { ...ownPlaces(), ...given };
  let [stdout, stderr] = ['', ''];
  const io = {
    stdin: async () => Promise.resolve(stdin),
    stdout: (words: string) => (stdout += words),
    stderr: (words: string) => (stderr += words),
    isTty: false,
    isErrTty: false,
    screen: { columns: 100, mayColour: false },
  };
  const status = await main(ctlPortsIn(env, new AbortController().signal), { argv, env, io });
  return { status, stdout, stderr };
}

/** Does the same in a process of its own, which one test of each group compares with `runCtl`. */
export async function spawnCtl(argv: readonly string[], { stdin = '', env = {} }: CtlRunOptions = {}): Promise<CtlRun> {
  const child = spawn(process.execPath, [MAIN, ...argv], {
    argv0: 'netplugctl',
    cwd: ROOT,
    env: { ...ownPlaces(), ...env },
  });
  const ended = new Promise<number>((done) => child.on('close', (code) => done(code ?? -1)));
  // A program that fails early does not read its input.
  child.stdin.on('error', () => undefined).end(stdin);
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  return { status: await ended, stdout, stderr };
}

/** Returns variables of folders without an agent and without a network configuration, in place of the machine's. */
function ownPlaces(): Record<string, string> {
  const folder = (ownFolder ??= makeFolder());
  return {
    NETPLUG_CNI_CONF_DIR: join(folder, 'no-conf'),
    NETPLUG_RUN_DIR: join(folder, 'no-run'),
    NETPLUG_SOCKET: join(folder, 'no-run/cni.sock'),
    NETPLUG_STATE_DIR: join(folder, 'no-state'),
  };
}

let ownFolder: string | undefined;
function makeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'netplugctl-'));
  removeAtEnd('folder', folder);
  return folder;
}
