import { execFileSync } from 'node:child_process';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Clock, systemClock } from '../../src/base/clock.ts';
import { OrchApi, type OrchApiOptions } from '../../src/kube/orch-api.ts';
import { ALL_NAMES, PODS, podsOf, RUN_PODS } from '../../src/kube/paths.ts';
import { API_LIMITS } from '../../src/kube/requester.ts';
import type { WatchEvent } from '../../src/kube/watch.ts';
import { Http2Transport } from '../../src/kube/http2-transport.ts';
import { program } from '../support/components.ts';
import { poolOf } from '../support/fixtures.ts';
import { type OrchApiServer, startOrchApiServer } from '../support/orch-datastore.ts';
import { startProxy } from '../support/orch-proxy.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { PATIENCE_MS } from '../support/until.ts';

const POOLS = { group: 'netplug.io', version: 'v3', plural: 'ippools' } as const;
const never = new AbortController().signal;
/** How many times faster than that of the machine the clock of a watch runs. */
const SPEED = 10;

describe('a watch of the API of the orchestrator', () => {
  let server: OrchApiServer;
  let api: OrchApi;
  const transport = new Http2Transport();

  beforeAll(async () => {
    server = await startOrchApiServer();
    api = new OrchApi({ from: 'file', path: server.kubeconfig }, { pageSize: 2, transport });
  });
  beforeEach(async () => server.empty());
  afterAll(async () => {
    await api?.[Symbol.asyncDispose]();
    transport.close();
    await server?.[Symbol.asyncDispose]();
  });

  /** The next event, as kind and names. */
  const next = async (watch: AsyncGenerator<WatchEvent>): Promise<string> => {
    const { value, done } = await watch.next();
    if (done === true) return 'over';
    if (value.kind === 'bookmark') return next(watch);
    const objects = value.kind === 'all' ? value.objects : [value.object];
    return [value.kind, ...objects.map(({ metadata }) => metadata.name)].join(' ');
  };
  const create = async (name: string): Promise<void> => {
    expect(await api.create({ collection: POOLS, object: poolOf(name, '10.0.0.0/16') }, never)).toMatchObject({
      outcome: 'ok',
    });
  };
  const remove = async (name: string): Promise<void> => {
    await api.delete({ collection: POOLS, name, preconditions: {} }, never);
  };

  it('yields a snapshot, then changes', async () => {
    for (const name of ['a', 'b', 'c']) await create(name);
    const ending = new AbortController();
    const watch = api.watch(POOLS, {}, ending.signal);
    expect(await next(watch)).toBe('all a b c');
    await create('d');
    await remove('a');
    expect(await next(watch)).toBe('changed d');
    expect(await next(watch)).toBe('deleted a');
    const last = next(watch);
    ending.abort();
    expect(await last).toBe('over');
  });

  it('lists in pages of hundreds, so that each is decoded in one short turn of the event loop', async () => {
    const names = Array.from({ length: 260 }, (_, index) => `pool-${String(index).padStart(3, '0')}`);
    for (const name of names) await create(name);
    const asked: string[] = [];
    await using watching = new OrchApi(
      { from: 'file', path: server.kubeconfig },
      { onRequest: (what) => asked.push(what) },
    );
    const ending = new AbortController();
    const watch = watching.watch(POOLS, {}, ending.signal);
    expect(await next(watch)).toBe(['all', ...names].join(' '));
    expect(asked).toEqual(['list ippools', 'list ippools']);
    ending.abort();
  });

  it('asks for what every agent lists as the watch cache of the API server has it, and for other kinds afresh', async () => {
    for (const { isCached } of [RUN_PODS, podsOf('n1'), ALL_NAMES]) expect(isCached).toBe(true);
    await create('a');
    await using proxy = await startProxy(server, server.adminToken);
    const asked: (string | null)[] = [];
    proxy.fate = (_, { searchParams }) => {
      if (!searchParams.has('watch')) asked.push(searchParams.get('resourceVersion'));
      return 'pass';
    };
    await using proxied = new OrchApi({ from: 'api-root', url: proxy.url });
    const listed = async (isCached: boolean): Promise<string> => {
      const ending = new AbortController();
      const found = await next(proxied.watch(POOLS, { isCached }, ending.signal));
      ending.abort();
      return found;
    };
    await expect.poll(async () => listed(true)).toBe('all a');
    expect(new Set(asked.splice(0))).toEqual(new Set(['0']));
    expect(await listed(false)).toBe('all a');
    expect(asked).toEqual([null]);
  });

  it('of pods has none that are on no node or have finished: they are not watched', async () => {
    await server.putPod({ namespace: 'shop', name: 'own', node: 'n1' });
    const path = '/api/v1/namespaces/shop/pods';
    const spec = { nodeSelector: { never: 'matches' }, containers: [{ name: 'c', image: 'i' }] };
    const annotations = { a: 'x'.repeat(200_000) };
    await server.call('POST', path, { body: { metadata: { name: 'fat', annotations }, spec } });
    const ending = new AbortController();
    const watch = api.watch(PODS, RUN_PODS, ending.signal);
    expect(await next(watch)).toBe('all own');
    const target = { apiVersion: 'v1', kind: 'Node', name: 'n1' };
    await server.call('POST', `${path}/fat/binding`, { body: { metadata: { name: 'fat' }, target } });
    expect(await next(watch)).toBe('changed fat');
    const type = 'application/merge-patch+json';
    await server.call('PATCH', `${path}/fat/status`, { type, body: { status: { phase: 'Failed' } } });
    expect(await next(watch)).toBe('deleted fat');
    ending.abort();
  });

  it('resumes after a restart of the API server without losing a change', async () => {
    await create('a');
    const ending = new AbortController();
    const watch = api.watch(POOLS, {}, ending.signal);
    expect(await next(watch)).toBe('all a');
    let seen = next(watch);
    await server.restart();
    await create('b');
    // The server remembers the versions before its start or does not: then everything comes again.
    if ((await seen) === 'all a') seen = next(watch);
    expect(['changed b', 'all a b']).toContain(await seen);
    ending.abort();
    await watch.return(undefined);
  });

  it('relists when the resource version has expired', async () => {
    await create('a');
    const ending = new AbortController();
    // The API server may need longer to start than a call waits for it.
    await using patient = new OrchApi({ from: 'file', path: server.kubeconfig }, { limits: { retryMs: 60_000 } });
    const watch = patient.watch(POOLS, {}, ending.signal);
    expect(await next(watch)).toBe('all a');
    const seen = next(watch);
    await server.stop();
    // The version the watch knows is gone when the server is back.
    const etcdctl = (...args: string[]): string =>
      execFileSync(program('etcdctl'), [`--endpoints=${server.etcdUrl}`, ...args], {
        env: { ...process.env, ETCDCTL_API: '3' },
        encoding: 'utf8',
      });
    for (const value of ['1', '2', '3']) etcdctl('put', '/elsewhere', value);
    const { header } = JSON.parse(etcdctl('get', '/elsewhere', '--write-out=json'));
    etcdctl('compact', String(header.revision));
    await server.start();
    expect(await seen).toBe('all a');
    ending.abort();
    await watch.return(undefined);
  });

  /** The API by way of the proxy. */
  const through = async (proxy: TcpProxy, limits: OrchApiOptions['limits']): Promise<OrchApi> => {
    const url = `https://127.0.0.1:${String(proxy.port)}`;
    const path = await server.kubeconfigFor(server.adminToken, { url });
    return new OrchApi({ from: 'file', path }, limits === undefined ? {} : { limits });
  };

  it('resumes over another connection when its own is dead, and loses no change', async () => {
    await using proxy = await startTcpProxy({ port: Number(new URL(server.url).port) });
    await using watching = await through(proxy, { silenceMs: 1500 });
    const ending = new AbortController();
    const broken: number[] = [];
    const onStream = (state: string): unknown => state === 'broken' && broken.push(performance.now());
    const watch = watching.watch(POOLS, { onStream }, ending.signal);
    expect(await next(watch)).toBe('all');
    const first = next(watch);
    await create('a');
    expect(await first).toBe('changed a');
    const second = next(watch);
    proxy.hold();
    const heldAt = performance.now();
    await create('b');
    expect(await second).toBe('changed b');
    // Without its own probes it would take API_LIMITS.silenceMs.
    expect(broken[0]! - heldAt).toBeLessThan(API_LIMITS.silenceMs / 2);
    ending.abort();
    await watch.return(undefined);
  });

  it('fails in bounded time when the API accepts the request and never answers', async () => {
    await using proxy = await startTcpProxy({ port: Number(new URL(server.url).port) });
    await using watching = await through(proxy, { answerMs: 500, retryMs: 1000 });
    const watch = watching.watch(POOLS, {}, never);
    expect(await next(watch)).toBe('all');
    proxy.fallSilent();
    const before = performance.now();
    await expect(next(watch)).rejects.toMatchObject({ code: 'store/unavailable' });
    expect(performance.now() - before).toBeLessThan(PATIENCE_MS);
  });

  it('backs off less than a minute when the API asks for a day, and does not delay other watches', async () => {
    await using proxy = await startProxy(server, server.adminToken);
    const fast: Clock = {
      ...systemClock,
      monotonic: () => systemClock.monotonic() * SPEED,
      sleep: async (ms, signal) => systemClock.sleep(ms / SPEED, signal),
    };
    const access = { from: 'api-root', url: proxy.url } as const;
    await using watching = new OrchApi(access, { clock: fast });
    proxy.fate = (_method, { pathname }) =>
      pathname.endsWith('/ippools') ? { status: 429, headers: { 'retry-after': '86400' } } : 'pass';
    const ending = new AbortController();
    await expect(next(watching.watch(POOLS, {}, ending.signal))).rejects.toMatchObject({ code: 'store/unavailable' });
    const pools = watching.watch(POOLS, {}, ending.signal);
    const [refusedAt, answered] = [fast.monotonic(), next(pools)];
    // Another kind is not concerned.
    expect(await next(watching.watch({ ...POOLS, plural: 'ipreservations' }, {}, ending.signal))).toBe('all');
    expect(fast.monotonic() - refusedAt).toBeLessThan(20_000);
    proxy.fate = () => 'pass';
    expect(await answered).toBe('all');
    expect(fast.monotonic() - refusedAt).toBeLessThan(60_000);
    ending.abort();
  });
});
