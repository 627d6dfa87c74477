// The etcd of an API server is restored from a backup. The API server accepts a watch from a version that it has not
// reached, and is silent until it has.
import { execFileSync } from 'node:child_process';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { Http2Transport } from '../../src/kube/http2-transport.ts';
import { OrchApi } from '../../src/kube/orch-api.ts';
import { LEASES } from '../../src/kube/paths.ts';
import type { WatchEvent } from '../../src/kube/watch.ts';
import { program } from '../support/components.ts';
import { type Etcd, startEtcd } from '../support/etcd.ts';
import { freePort } from '../support/free-port.ts';
import { poolOf } from '../support/fixtures.ts';
import { here } from '../support/here.ts';
import { type OrchApiServer, startOrchApiServer } from '../support/orch-datastore.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';

const POOLS = { group: 'netplug.io', version: 'v3', plural: 'ippools' } as const;
const KINDS = ['ippools', 'ipreservations', 'bgppeers', 'networksets', 'profiles'];
const WRITES = 300;
const never = new AbortController().signal;
const scope = new AsyncDisposableStack();
const transport = new Http2Transport();
let etcd: Etcd;
let server: OrchApiServer;

beforeAll(async () => {
  etcd = scope.use(await startEtcd());
  const at = { place: here, etcdUrl: etcd.url, address: '127.0.0.1', port: await freePort() };
  server = scope.use(await startOrchApiServer({ at, users: [{ name: 'elector' }] }));
});
afterAll(async () => {
  transport.close();
  await scope.disposeAsync();
});

/** Returns the kind of the next event with objects, and their names. */
async function next(watch: AsyncGenerator<WatchEvent>): Promise<readonly string[]> {
  const event = await nextChange(watch);
  if (event === undefined) return [];
  const objects = event.kind === 'all' ? event.objects : [event.object];
  return [event.kind, ...objects.map(({ metadata }) => metadata.name)];
}

async function nextChange(
  watch: AsyncGenerator<WatchEvent>,
): Promise<Exclude<WatchEvent, { kind: 'bookmark' }> | undefined> {
  for await (const event of { [Symbol.asyncIterator]: () => ({ next: async () => watch.next() }) })
    if (event.kind !== 'bookmark') return event;
  return undefined;
}

/** Returns the API by way of the proxy. */
async function through(proxy: TcpProxy, token: string, onRequest: (what: string) => void): Promise<OrchApi> {
  const url = `https://127.0.0.1:${String(proxy.port)}`;
  return new OrchApi({ from: 'file', path: await server.kubeconfigFor(token, { url }) }, { onRequest, transport });
}

const create = async (api: OrchApi, name: string): Promise<unknown> =>
  api.create({ collection: POOLS, object: poolOf(name, '10.0.0.0/16') }, never);

it('reads the version of the API once for all watches that break together, and resumes them', async () => {
  await using proxy = await startTcpProxy({ port: Number(new URL(server.url).port) });
  const asked: string[] = [];
  await using api = await through(proxy, server.adminToken, (what) => asked.push(what));
  const ending = new AbortController();
  let opened = 0;
  const onStream = (state: string): unknown => state === 'opened' && (opened += 1);
  const watches = KINDS.map((plural) => api.watch({ ...POOLS, plural }, { onStream }, ending.signal));
  for (const watch of watches) expect((await next(watch))[0]).toBe('all');
  const waiting = watches.map(async (watch) => next(watch));
  await expect.poll(() => opened).toBe(KINDS.length);
  asked.length = 0;
  proxy.cut();
  await expect.poll(() => opened, { timeout: 60_000 }).toBe(2 * KINDS.length);
  await create(api, 'later');
  expect(await waiting[0]).toEqual(['changed', 'later']);
  expect(asked.filter((what) => what.startsWith('list')).length).toBe(1);
  ending.abort();
  await Promise.allSettled(waiting);
});

it('lists again when the API server has not reached the version of the watch', async () => {
  await using api = new OrchApi({ from: 'file', path: server.kubeconfig }, { limits: { retryMs: 60_000 }, transport });
  await server.stop();
  const restore = await etcd.backUp();
  await server.start();
  const ending = new AbortController();
  const watch = api.watch(POOLS, {}, ending.signal);
  expect(await next(watch)).toEqual(['all', 'later']);
  // An API server writes something itself when it starts, which must not bring the backup to the version of the watch.
  const put = [`--endpoints=${etcd.url}`, 'put', '/elsewhere', 'x'];
  for (let write = 0; write < WRITES; write += 1) execFileSync(program('etcdctl'), put, { stdio: 'ignore' });
  const changed = nextChange(watch);
  await create(api, 'after-the-backup');
  const later = await changed;
  expect(later).toMatchObject({ kind: 'changed', object: { metadata: { name: 'after-the-backup' } } });
  const restored = next(watch);
  await server.stop();
  await restore();
  await server.start();
  expect(await restored).toEqual(['all', 'later']);
  const resumed = api.watch(POOLS, { from: later!.version }, ending.signal);
  expect(await next(resumed)).toEqual(['all', 'later']);
  ending.abort();
  await Promise.all([watch.return(undefined), resumed.return(undefined)]);
});

it('resumes a watch of one object with an account that may list nothing else', async () => {
  const [namespace, name] = ['default', 'elected'];
  const rbac = '/apis/rbac.authorization.k8s.io/v1/namespaces/default';
  const rules = [
    { apiGroups: [LEASES.group], resources: [LEASES.plural], resourceNames: [name], verbs: ['list', 'watch'] },
  ];
  await server.call('POST', `${rbac}/roles`, { body: { metadata: { name }, rules } });
  await server.call('POST', `${rbac}/rolebindings`, {
    body: {
      metadata: { name },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name },
      subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: 'elector' }],
    },
  });
  await using proxy = await startTcpProxy({ port: Number(new URL(server.url).port) });
  const asked: string[] = [];
  await using api = await through(proxy, server.userToken('elector'), (what) => asked.push(what));
  const ending = new AbortController();
  let opened = 0;
  const onStream = (state: string): unknown => state === 'opened' && (opened += 1);
  const options = { fieldSelector: `metadata.name=${name}`, onStream };
  const watch = api.watch({ ...LEASES, namespace }, options, ending.signal);
  expect(await next(watch)).toEqual(['all']);
  const waiting = next(watch);
  await expect.poll(() => opened).toBe(1);
  asked.length = 0;
  proxy.cut();
  await expect.poll(() => opened, { timeout: 60_000 }).toBe(2);
  await server.call('POST', `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`, {
    body: { metadata: { name } },
  });
  expect(await waiting).toEqual(['changed', name]);
  expect(asked.filter((what) => what.startsWith('list'))).toEqual(['list leases']);
  ending.abort();
  await watch.return(undefined);
});
