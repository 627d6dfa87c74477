// etcd's manual advises to restore with --bump-revision and --mark-compacted, so that watchers notice. Then no revision
// is ever lower than before.
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { openKvStore } from '../../src/datastore/kv/kv-store.ts';
import type { Store } from '../../src/datastore/store.ts';
import { program } from '../support/components.ts';
import { poolOf } from '../support/fixtures.ts';
import { freePort } from '../support/free-port.ts';
import { residentOn, World } from '../support/resident-world.ts';
import { until } from '../support/until.ts';
import { heldAddresses } from '../../src/model/ip-block.ts';
import { formatAddress } from '../../src/net/address.ts';

const signal = new AbortController().signal;
const dir = mkdtempSync(join(tmpdir(), 'netplug-bumped-'));
let child: ChildProcess | undefined;
const world = new World();

async function start(port: number, peerPort: number): Promise<void> {
  const url = `http://127.0.0.1:${String(port)}`;
  const peer = `http://127.0.0.1:${String(peerPort)}`;
  child = spawn(
    program('etcd'),
    [
      '--unsafe-no-fsync',
      '--name=default',
      `--data-dir=${join(dir, 'data')}`,
      `--listen-client-urls=${url}`,
      `--advertise-client-urls=${url}`,
      `--listen-peer-urls=${peer}`,
      `--initial-advertise-peer-urls=${peer}`,
      `--initial-cluster=default=${peer}`,
    ],
    { stdio: 'ignore' },
  );
  await until(() => {
    try {
      execFileSync(program('etcdctl'), [`--endpoints=${url}`, 'endpoint', 'health'], { stdio: 'ignore' });
      return true;
    } catch {
      return false;
    }
  }, 'etcd is up');
}

async function stop(): Promise<void> {
  if (child === undefined) return;
  const gone = once(child, 'exit');
  child.kill('SIGKILL');
  await gone;
}

afterEach(async () => {
  await world.end();
  await stop();
  rmSync(dir, { recursive: true, force: true });
});

describe('an etcd restored with bumped revisions', () => {
  it('gives nothing away that a pod without a link of ours uses', async () => {
    const [port, peerPort] = [await freePort(), await freePort()];
    const url = `http://127.0.0.1:${String(port)}`;
    await start(port, peerPort);
    const open = (): Store =>
      openKvStore({
        endpoints: { from: 'list', urls: [url] },
        keyFile: undefined,
        certFile: undefined,
        caCertFile: undefined,
      });
    const store = open();
    await store.createResource(poolOf('v4', '10.0.0.0/24', { blockSize: 26 }), signal);
    const agent = await residentOn(world, { inner: open() });
    const holders = async (): Promise<string[]> =>
      (await store.listBlocks(signal)).blocks.flatMap(({ value }) =>
        heldAddresses(value).map(({ address, allocation }) => `${allocation.containerId} ${formatAddress(address)}`),
      );
    const first = await agent.addPod('first');
    await until(async () => (await holders()).includes(`first ${first}`), 'the first is published');
    const file = join(dir, 'backup.db');
    execFileSync(program('etcdctl'), [`--endpoints=${url}`, 'snapshot', 'save', file], { stdio: 'ignore' });
    const [assigned = ''] = await agent.add('under ptp');
    await until(async () => (await holders()).includes(`under ptp ${assigned}`), 'the other is published');
    await stop();
    rmSync(join(dir, 'data'), { recursive: true });
    const bumped = ['--bump-revision=1000000', '--mark-compacted'];
    execFileSync(
      program('etcdutl'),
      [
        'snapshot',
        'restore',
        file,
        `--data-dir=${join(dir, 'data')}`,
        '--name=default',
        `--initial-cluster=default=http://127.0.0.1:${String(peerPort)}`,
        `--initial-advertise-peer-urls=http://127.0.0.1:${String(peerPort)}`,
        ...bumped,
      ],
      { stdio: 'ignore' },
    );
    await start(port, peerPort);
    await until(() => agent.node.state.problem === undefined, 'the agent is back');
    const after: string[] = [];
    for (let index = 0; index < 30; index += 1) after.push(...(await agent.add(`after-${String(index)}`)));
    expect(after).not.toContain(assigned);
    expect(await holders()).toContain(`under ptp ${assigned}`);
    await store[Symbol.asyncDispose]();
  });
});
