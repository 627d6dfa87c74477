// Kills each command that uses plans with SIGKILL at each record of its progress, and repeats it: the built tool on a real
// etcd and a real disk.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, watch } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openKvStore } from '../../src/datastore/kv/kv-store.ts';
import type { Store } from '../../src/datastore/store.ts';
import { runsHere } from '../runs.ts';
import { type Etcd, startEtcd } from '../support/etcd.ts';
import { hostEndpointOf, nodeOf, poolOf } from '../support/fixtures.ts';
import { BUILT, NETPLUGCTL } from '../support/built.ts';

const never = new AbortController().signal;

const scope = new AsyncDisposableStack();
let folder: string;
let plans: string;
let etcd: Etcd;
let store: Store;
beforeAll(async () => {
  if (!existsSync(NETPLUGCTL)) throw new Error(`${NETPLUGCTL} is missing: run "make build" first`);
  folder = await mkdtemp(join(tmpdir(), 'netplug-plans-'));
  scope.defer(async () => rm(folder, { recursive: true, force: true }));
  plans = join(folder, 'state/plans');
  etcd = scope.use(await startEtcd());
  const endpoints = { from: 'list', urls: [etcd.url] } as const;
  store = scope.use(openKvStore({ endpoints, keyFile: undefined, certFile: undefined, caCertFile: undefined }));
});
afterAll(async () => scope.disposeAsync());
beforeEach(reset);

async function reset(): Promise<void> {
  await rm(join(folder, 'state'), { recursive: true, force: true });
  await etcd.empty();
}

function environment(): Record<string, string> {
  return { KV_ENDPOINTS: etcd.url, NETPLUG_STATE_DIR: join(folder, 'state') };
}

interface Ran {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

async function run(args: readonly string[]): Promise<Ran> {
  return new Promise((done) => {
    execFile(NETPLUGCTL, args, { env: environment() }, (error, stdout, stderr) => {
      done({ status: error === null ? 0 : Number(error.code), stdout, stderr });
    });
  });
}

/** Calls the tool and kills it after `count` records. Returns whether it was killed. */
async function killAt(records: number, args: readonly string[]): Promise<boolean> {
  await mkdir(plans, { recursive: true });
  const child = spawn(NETPLUGCTL, args, { env: environment(), stdio: 'ignore' });
  let left = records;
  using _watching = disposable(
    watch(plans, (event, name) => {
      if (event !== 'rename' || name?.endsWith('.json') !== true) return;
      left -= 1;
      if (left === 0) child.kill('SIGKILL');
    }),
  );
  const [, signal] = (await once(child, 'exit')) as [number | null, string | null];
  return signal === 'SIGKILL';
}

function disposable(watcher: { close(): void }): Disposable {
  return { [Symbol.dispose]: () => watcher.close() };
}

/** A kill comes late when the machine is busy: then the tool has finished, and the moment is tried again. */
const MOST_LATE_KILLS = 20;

/** Tries every moment until the tool finishes before it is killed; it writes more than `least` records. */
async function atEachRecord(attempt: (records: number) => Promise<boolean>, least: number): Promise<void> {
  let [records, late] = [1, 0];
  for (; late < MOST_LATE_KILLS; await reset()) {
    if (await attempt(records)) records += 1;
    else if (records > least) break;
    else late += 1;
  }
  expect(records).toBeGreaterThan(least);
}

describe('netplugctl that is killed at each record of its plan', () => {
  it('finishes a migration of host endpoints when it is repeated, and can undo it [up-autohep]', async () => {
    const migrate = ['host-endpoints', 'migrate', '--force'];
    await atEachRecord(async (records) => {
      await store.createResource(nodeOf('n1', { zone: 'a' }), never);
      for (const name of ['old', 'other'])
        await store.createResource(hostEndpointOf(name, 'n1', { labels: { role: 'x' } }), never);
      const isKilled = await killAt(records, migrate);
      const undo = records % 2 === 0;
      expect(await run(undo ? ['host-endpoints', 'migrate', '--undo'] : migrate)).toMatchObject({
        status: 0,
        stderr: '',
      });
      const { resources } = await store.listResources('HostEndpoint', never);
      const node = await store.findResource({ kind: 'Node', name: 'n1' }, never);
      expect(resources.map(({ metadata }) => metadata.name)).toEqual(undo ? ['old', 'other'] : []);
      expect(node?.metadata.labels).toEqual(undo ? { zone: 'a' } : { zone: 'a', role: 'x' });
      return isKilled;
    }, 4);
  });

  it('finishes an import when it is repeated, and leaves no record of the plan', async () => {
    const file = join(folder, 'export.json');
    const pools = [poolOf('blue', '10.0.0.0/16'), poolOf('red', '10.1.0.0/16'), poolOf('six', 'fd00::/64')];
    for (const pool of pools) await store.createResource(pool, never);
    await store.createResource(nodeOf('n1', {}), never);
    expect(await run(['datastore', 'lock'])).toMatchObject({ status: 0 });
    expect(await run(['datastore', 'export', '--output', file])).toMatchObject({ status: 0 });
    await reset();
    await atEachRecord(async (records) => {
      const isKilled = await killAt(records, ['datastore', 'import', '-f', file]);
      expect(await run(['datastore', 'import', '-f', file])).toMatchObject({ status: 0, stderr: '' });
      const { resources } = await store.listResources('IPPool', never);
      expect(resources.map(({ metadata }) => metadata.name)).toEqual(['blue', 'red', 'six']);
      expect(existsSync(plans)).toBe(false);
      return isKilled;
    }, 3);
  });

  it.runIf(runsHere('e2e/plans-killed: an installation'))(
    'finishes an installation when it is repeated, and uninstalls it without a trace',
    async () => {
      const host = join(folder, 'host');
      const [binDir, confDir] = [join(host, 'bin'), join(host, 'net.d')];
      const install = ['node', 'install', '--from', BUILT, '--bin-dir', binDir, '--conf-dir', confDir];
      await atEachRecord(async (records) => {
        const isKilled = await killAt(records, install);
        const { status, stdout } = await run(install);
        expect(status).toBe(0);
        expect(stdout.split('\n').filter((line) => line !== '')).toHaveLength(4);
        // A copy that was cut off stays for ten minutes, in which it might be that of another installation, or until the removal.
        const installed = (await readdir(binDir)).filter((name) => !name.endsWith('.netplug-tmp'));
        expect(installed).toEqual(['netplug', 'netplug-ipam', 'netplug-standalone']);
        expect(JSON.parse(await readFile(join(confDir, '10-netplug.conflist'), 'utf8'))).toMatchObject({ plugins: {} });
        expect((await run(install)).stdout.match(/ unchanged$/gm)).toHaveLength(4);
        expect(await run(['node', 'uninstall'])).toMatchObject({ status: 0 });
        expect(existsSync(host)).toBe(false);
        return isKilled;
      }, 5);
      // Each record is a kill, and executables of 138 MB are copied three times for it.
    },
    300_000,
  );
});
