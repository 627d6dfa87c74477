// The etcd of an API server is restored from a backup. The API server accepts a watch from a version that it has not
// reached, and is silent until it has.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { OrchApi } from '../../src/kube/orch-api.ts';
import type { WatchEvent } from '../../src/kube/watch.ts';
import { type Etcd, freePort, startEtcd } from '../support/etcd.ts';
import { poolOf } from '../support/fixtures.ts';
import { here } from '../support/here.ts';
import { type OrchApiServer, startOrchApiServer } from '../support/orch-datastore.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';

const POOLS = { group: 'netplug.io', version: 'v3', plural: 'ippools' } as const;
const KINDS = ['ippools', 'ipreservations', 'bgppeers', 'networksets', 'profiles'];
const never = new AbortController().signal;
const scope = new AsyncDisposableStack();
let etcd: Etcd;
let server: OrchApiServer;

beforeAll(async () => {
  etcd = scope.use(await startEtcd());
  const at = { place: here, etcdUrl: etcd.url, address: '127.0.0.1', port: await freePort() };
  server = scope.use(await startOrchApiServer({ at }));
}, 90_000);
afterAll(async () => scope.disposeAsync());

/** Returns the kind of the next event with objects, and their names. */
async function next(watch: AsyncGenerator<WatchEvent>): Promise<readonly string[]> {
  for await (const event of { [Symbol.asyncIterator]: () => ({ next: async () => watch.next() }) }) {
    if (event.kind === 'bookmark') continue;
    const objects = event.kind === 'all' ? event.objects : [event.object];
    return [event.kind, ...objects.map(({ metadata }) => metadata.name)];
  }
  return [];
}

const create = async (api: OrchApi, name: string): Promise<unknown> =>
  api.create({ collection: POOLS, object: poolOf(name, '10.0.0.0/16') }, never);

it('reads the version of the API once for all watches that break together, and resumes them', async () => {
  await using proxy = await startTcpProxy({ port: Number(new URL(server.url).port) });
  const url = `https://127.0.0.1:${String(proxy.port)}`;
  const path = await server.kubeconfigFor(server.adminToken, { url });
  const asked: string[] = [];
  await using api = new OrchApi({ from: 'file', path }, { onRequest: (what) => asked.push(what) });
  const ending = new AbortController();
  const watches = KINDS.map((plural) => api.watch({ ...POOLS, plural }, {}, ending.signal));
  for (const watch of watches) expect((await next(watch))[0]).toBe('all');
  const waiting = watches.map(async (watch) => next(watch));
  await expect.poll(() => asked.filter((what) => what.startsWith('watch')).length).toBe(KINDS.length);
  asked.length = 0;
  proxy.cut();
  await expect
    .poll(() => asked.filter((what) => what.startsWith('watch')).length, { timeout: 5000 })
    .toBe(KINDS.length);
  expect(asked.filter((what) => what.startsWith('list')).length).toBeLessThan(KINDS.length);
  await create(api, 'later');
  expect(await waiting[0]).toEqual(['changed', 'later']);
  ending.abort();
  await Promise.allSettled(waiting);
}, 60_000);

it('lists again when the API server has not reached the version of the watch', async () => {
  await using api = new OrchApi({ from: 'file', path: server.kubeconfig }, { limits: { retryMs: 60_000 } });
  await server.stop();
  const restore = await etcd.backUp();
  await server.start();
  const ending = new AbortController();
  const watch = api.watch(POOLS, {}, ending.signal);
  expect(await next(watch)).toEqual(['all', 'later']);
  const changed = next(watch);
  await create(api, 'after-the-backup');
  expect(await changed).toEqual(['changed', 'after-the-backup']);
  const restored = next(watch);
  await server.stop();
  await restore();
  await server.start();
  expect(await restored).toEqual(['all', 'later']);
  ending.abort();
  await watch.return(undefined);
}, 120_000);
