import { preallocate, updateTo } from '../support/block-edits.ts';
import { execFile, execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { queryObjects } from 'node:v8';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { ClusterFollower } from './suites/datastore/cluster-follower.ts';
import { Follower } from './suites/datastore/follower.ts';
import { ResourceFollower } from './suites/datastore/resource-follower.ts';
import { type ClusterChange, followCluster } from '../../src/cache/cluster-view.ts';
import { followNode } from '../../src/cache/node-view.ts';
import { followResources } from '../../src/cache/resource-view.ts';
import type { FollowEvent, Query } from '../../src/datastore/follow.ts';
import { type KvStoreOptions, openKvStore } from '../../src/datastore/kv/kv-store.ts';
import type { Change } from '../../src/datastore/allocation-store.ts';
import type { Store } from '../../src/datastore/store.ts';
import { emptyBlock } from '../../src/model/ip-block.ts';
import { parseCidr } from '../../src/net/cidr.ts';
import { program } from '../support/components.ts';
import { type Etcd, startEtcd } from '../support/etcd.ts';
import { nodeName, poolOf } from '../support/fixtures.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';

const never = new AbortController().signal;
const node = nodeName('n1');
const limits = { connectMs: 5000, firstTryMs: 5000, answerMs: 10_000, silenceMs: 3000 };

function open(port: number, options: KvStoreOptions = {}): Store {
  const files = { keyFile: undefined, certFile: undefined, caCertFile: undefined };
  const urls = [`http://127.0.0.1:${String(port)}`];
  return openKvStore({ endpoints: { from: 'list', urls }, ...files }, { limits, ...options });
}

async function follow(store: Store): Promise<Follower> {
  const follower = new Follower(store, node);
  await follower.started();
  return follower;
}

/** A change that creates a block of the node from a new pool. */
async function creation(store: Store, cidr: string): Promise<Change> {
  await store.createResource(poolOf(`pool-${cidr.replace('/', '-')}`, cidr), never);
  const { pools } = await store.readNodeView(node, undefined, never);
  return { kind: 'create-block', block: emptyBlock(parseCidr(cidr), node), pool: pools[0]! };
}

/** Makes etcd forget every revision before the newest. */
function compact(url: string): void {
  const etcdctl = (...args: string[]): string =>
    execFileSync(program('etcdctl'), [`--endpoints=${url}`, ...args], {
      env: { ...process.env, ETCDCTL_API: '3' },
      encoding: 'utf8',
    });
  const { header } = JSON.parse(etcdctl('get', 'x', '--write-out=json'));
  etcdctl('compact', String(header.revision));
}

const lost = (text: RegExp): object => ({
  code: 'store/unavailable',
  message: expect.stringMatching(text) as string,
});

describe('a watch of the kv datastore', () => {
  let etcd: Etcd;
  beforeAll(async () => {
    etcd = await startEtcd();
  });
  beforeEach(async () => etcd.empty());
  afterAll(async () => etcd?.[Symbol.asyncDispose]());

  it('fails when etcd ends', async () => {
    await using ending = await startEtcd();
    await using store = open(ending.port);
    const follower = await follow(store);
    await ending[Symbol.asyncDispose]();
    await expect(follower.ended).rejects.toMatchObject(lost(/Cannot use the kv datastore at http/));
  });

  it('keeps no record of its snapshot that its reader has dropped', async () => {
    await using store = open(etcd.port);
    await store.createResource(poolOf('one', '10.0.0.0/26'), never);
    const over = new AbortController();
    const watch = store.follow([{ kind: 'resources', of: 'IPPool' }], { signal: over.signal });
    const first = async (): Promise<WeakRef<object>> => {
      const { value } = (await watch[Symbol.asyncIterator]().next()) as { value: FollowEvent };
      return new WeakRef(value.kind === 'snapshot' ? value.records[0]! : value);
    };
    const record = await first();
    await store.createResource(poolOf('two', '10.0.1.0/26'), never);
    await watch[Symbol.asyncIterator]().next();
    // Collects garbage first.
    queryObjects(Map, { format: 'count' });
    expect(record.deref()).toBeUndefined();
    over.abort();
  });

  it('can be restarted after its connection was cut', async () => {
    await using proxy = await startTcpProxy(etcd);
    await using store = open(proxy.port);
    const follower = await follow(store);
    proxy.cut();
    await expect(follower.ended).rejects.toMatchObject({ code: 'store/unavailable' });
    const second = await follow(store);
    expect(await store.commit([await creation(store, '10.0.0.0/26')], never)).toBe('committed');
    await second.sees('block', 1);
    await second.end();
  });

  it('fails when etcd stops responding, not when the watch is idle', async () => {
    await using proxy = await startTcpProxy(etcd);
    await using store = open(proxy.port);
    const follower = await follow(store);
    const early = await Promise.race([
      follower.ended,
      new Promise((resolve) => setTimeout(resolve, 3 * limits.silenceMs, 'still there')),
    ]);
    expect(early).toBe('still there');
    proxy.fallSilent();
    await expect(follower.ended).rejects.toMatchObject(lost(/no data received for 3000 ms/));
  });

  it('reads everything again when etcd has compacted the revision to begin at, and yields what differs', async () => {
    await using store = open(etcd.port);
    const watch = followNode(store, node, never);
    expect((await watch.next()).value).toMatchObject({ kind: 'all' });
    for (const cidr of ['10.0.0.0/26', '10.0.0.64/26']) await store.commit([await creation(store, cidr)], never);
    compact(etcd.url);
    const changes = [await watch.next(), await watch.next(), await watch.next()].map(({ value }) => value);
    expect(changes).toMatchObject([{ kind: 'block' }, { kind: 'block' }, { kind: 'settings' }]);
    await watch.return(undefined);
  });

  it('costs one reading and one stream, and nothing for a block that changes in place', async () => {
    await using writer = open(etcd.port);
    const asked: string[] = [];
    await using store = open(etcd.port, { onRequest: (method) => asked.push(method) });
    const follower = await follow(store);
    expect(await writer.commit([await creation(writer, '10.0.0.0/26')], never)).toBe('committed');
    await follower.sees('block', 1);
    const [before] = follower.blocks;
    await writer.commit([updateTo(before!, before!.value)], never);
    await follower.sees('block', 2);
    expect(asked).toEqual(['Txn', 'Watch']);
    await follower.end();
  });

  it('follows the cluster, and yields what differs when etcd has compacted the revision to begin at', async () => {
    await using store = open(etcd.port);
    const watch = followCluster(store, nodeName('node-a'), never);
    expect((await watch.next()).value).toMatchObject({ kind: 'all' });
    for (const cidr of ['10.0.0.0/26', '10.0.0.64/26']) await store.commit([await creation(store, cidr)], never);
    compact(etcd.url);
    const kinds: string[] = [];
    while (kinds.length < 4) kinds.push(((await watch.next()).value as ClusterChange).kind);
    expect(kinds.sort()).toEqual(['block', 'block', 'resource', 'resource']);
    await watch.return(undefined);
  });

  it('resumes from a version without a listing, and with a snapshot after a compaction', async () => {
    await using store = open(etcd.port);
    const queries: readonly Query[] = [{ kind: 'resources', of: 'IPPool' }];
    const first = store.follow(queries, { signal: never })[Symbol.asyncIterator]();
    const from = ((await first.next()).value as FollowEvent).version;
    await first.return?.();
    await store.createResource(poolOf('blue', '10.0.0.0/24'), never);
    const second = store.follow(queries, { from, signal: never })[Symbol.asyncIterator]();
    expect((await second.next()).value).toMatchObject({ kind: 'changes', records: [{ which: { name: 'blue' } }] });
    await second.return?.();
    await store.createResource(poolOf('green', '10.1.0.0/24'), never);
    compact(etcd.url);
    const third = store.follow(queries, { from, signal: never })[Symbol.asyncIterator]();
    expect((await third.next()).value).toMatchObject({ kind: 'snapshot', records: [{}, {}] });
    await third.return?.();
  });

  it('resumes without a snapshot from the bookmark of an idle query after a compaction', async () => {
    // Releases before 3.6 have only the second name.
    const names = ['ETCD_WATCH_PROGRESS_NOTIFY_INTERVAL', 'ETCD_EXPERIMENTAL_WATCH_PROGRESS_NOTIFY_INTERVAL'];
    await using etcd = await startEtcd({ env: Object.fromEntries(names.map((name) => [name, '500ms'])) });
    await using store = open(etcd.port);
    const queries: readonly Query[] = [{ kind: 'resources', of: 'IPReservation' }];
    const first = store.follow(queries, { signal: never })[Symbol.asyncIterator]();
    const snapshot = (await first.next()).value as FollowEvent;
    await store.createResource(poolOf('blue', '10.0.0.0/24'), never);
    await store.createResource(poolOf('green', '10.1.0.0/24'), never);
    let bookmark = (await first.next()).value as FollowEvent;
    while (Number(bookmark.version) < Number(snapshot.version) + 2)
      bookmark = (await first.next()).value as FollowEvent;
    expect(bookmark.kind).toBe('bookmark');
    await first.return?.();
    compact(etcd.url);
    const second = store.follow(queries, { from: bookmark.version, signal: never })[Symbol.asyncIterator]();
    const next = second.next();
    await store.createResource(poolOf('red', '10.2.0.0/24'), never);
    expect((await next).value).toMatchObject({ kind: 'bookmark' });
    await second.return?.();
  });

  it('follows the cluster, and fails when etcd ends', async () => {
    await using ending = await startEtcd();
    await using store = open(ending.port);
    const follower = new ClusterFollower(store);
    await follower.started();
    await ending[Symbol.asyncDispose]();
    await expect(follower.ended).rejects.toMatchObject(lost(/Cannot use the kv datastore at http/));
  });

  it('follows the cluster with one stream, whatever is in the blocks', async () => {
    await using writer = open(etcd.port);
    const asked: string[] = [];
    await using store = open(etcd.port, { onRequest: (method) => asked.push(method) });
    expect(await writer.commit([await creation(writer, '10.0.0.0/26')], never)).toBe('committed');
    const follower = new ClusterFollower(store);
    await follower.started();
    for (let change = 0; change < 20; change += 1) {
      const [before] = await writer.getBlocks([parseCidr('10.0.0.0/26')], never);
      const ids = new Map([[change, `run#${String(change)}`]]);
      await writer.commit([updateTo(before!, preallocate(before!.value, ids))], never);
    }
    const [before] = await writer.getBlocks([parseCidr('10.0.0.0/26')], never);
    await writer.commit([{ kind: 'delete-block', before: before! }], never);
    expect(await follower.sees(1)).toEqual(['block 10.0.0.0/26 gone']);
    expect(asked).toEqual(['Txn', 'Watch']);
    await follower.end();
  });

  it('follows resources, and yields what differs when etcd has compacted the revision to begin at', async () => {
    await using store = open(etcd.port, { pageSize: 2 });
    for (const name of ['gone', 'other', 'same']) await store.createResource(poolOf(name, '10.0.0.0/24'), never);
    const watch = followResources(store, 'IPPool', never);
    expect((await watch.next()).value).toMatchObject({ kind: 'all', resources: [{}, {}, {}] });
    await store.deleteResource({ kind: 'IPPool', name: 'gone' }, never);
    await store.updateResource(poolOf('other', '10.1.0.0/24'), never);
    await store.createResource(poolOf('new', '10.2.0.0/24'), never);
    compact(etcd.url);
    const changes = [await watch.next(), await watch.next(), await watch.next()].map(({ value }) => value);
    expect(changes).toMatchObject([
      { kind: 'deleted', which: { kind: 'IPPool', name: 'gone' } },
      { kind: 'put', resource: { metadata: { name: 'new' } } },
      { kind: 'put', resource: { metadata: { name: 'other' }, spec: { cidr: '10.1.0.0/24' } } },
    ]);
    await store.deleteResource({ kind: 'IPPool', name: 'same' }, never);
    expect((await watch.next()).value).toMatchObject({ kind: 'deleted', which: { name: 'same' } });
    await watch.return(undefined);
  });

  it('follows resources, fails when etcd restarts, and lists everything when restarted', async () => {
    await using store = open(etcd.port);
    await store.createResource(poolOf('blue', '10.0.0.0/24'), never);
    const follower = await new ResourceFollower(store, 'IPPool').started();
    await etcd.restart();
    await expect(follower.ended).rejects.toMatchObject({ code: 'store/unavailable' });
    await store.createResource(poolOf('green', '10.1.0.0/24'), never);
    const second = await new ResourceFollower(store, 'IPPool').started();
    expect(second.resources.map(({ metadata }) => metadata.name)).toEqual(['blue', 'green']);
    await store.deleteResource({ kind: 'IPPool', name: 'blue' }, never);
    expect(await second.sees(1)).toEqual(['gone IPPool "blue"']);
    await second.end();
  });

  it('follows resources, and fails when etcd stops responding', async () => {
    await using proxy = await startTcpProxy(etcd);
    await using store = open(proxy.port);
    const follower = await new ResourceFollower(store, 'IPPool').started();
    proxy.fallSilent();
    await expect(follower.ended).rejects.toMatchObject(lost(/no data received for 3000 ms/));
  });

  it('does not keep a program from ending', async () => {
    const program = `
      import { openKvStore } from './src/datastore/kv/kv-store.ts';
      const files = { keyFile: undefined, certFile: undefined, caCertFile: undefined };
      const store = openKvStore({ endpoints: { from: 'list', urls: ['${etcd.url}'] }, ...files });
      const follow = async () => {
        for await (const change of store.follow([{ kind: 'resources', of: 'IPPool' }], { signal: new AbortController().signal })) {
          console.log(change.kind);
          await store.ping(new AbortController().signal);
        }
      };
      void follow();`;
    const cwd = join(import.meta.dirname, '../..');
    const run = promisify(execFile)(process.execPath, ['--input-type=module', '--eval', program], {
      cwd,
      timeout: 60_000,
    });
    expect((await run).stdout).toBe('snapshot\n');
  });
});
