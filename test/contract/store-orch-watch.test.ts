import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { Follower } from './suites/datastore/follower.ts';
import { ResourceFollower } from './suites/datastore/resource-follower.ts';
import { openOrchStore } from '../../src/datastore/orch/orch-store.ts';
import type { Store } from '../../src/datastore/store.ts';
import { Http2Transport } from '../../src/kube/http2-transport.ts';
import { SharedWatches } from '../../src/kube/shared-watches.ts';
import { nodeName, poolOf } from '../support/fixtures.ts';
import { type OrchApiServer, startOrchApiServer } from '../support/orch-datastore.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';

const never = new AbortController().signal;
/** What the port promises, and as much again for a busy machine. */
const NOTICED_MS = 30_000;

describe('a watch of the datastore in the API of the orchestrator', () => {
  let server: OrchApiServer;
  /** In the hands of the tool, and of the agent, which follows. */
  let store: Store;
  let agent: Store;
  const transport = new Http2Transport();

  beforeAll(async () => {
    server = await startOrchApiServer();
    store = openOrchStore({ from: 'file', path: await server.callerConfig('admin tool') });
    agent = openOrchStore({ from: 'file', path: await server.callerConfig('agent') }, { transport });
  });
  beforeEach(async () => server.empty());
  afterAll(async () => {
    for (const part of [store, agent, server]) await part?.[Symbol.asyncDispose]();
    transport.close();
  });

  const follow = async (through = agent): Promise<Follower> => {
    const follower = new Follower(through, nodeName('n1'));
    await follower.started();
    return follower;
  };

  it('fails when the API server ends, and can be restarted when it runs again', async () => {
    const follower = await follow();
    const before = performance.now();
    await server.stop();
    await expect(follower.ended).rejects.toMatchObject({ code: 'store/unavailable' });
    expect(performance.now() - before).toBeLessThan(NOTICED_MS);
    await server.start();
    const second = await follow();
    await store.createResource(poolOf('blue', '10.0.0.0/24'), never);
    await second.sees('settings', 1);
    expect(second.settings.pools).toHaveLength(1);
    await second.end();
  });

  it('follows resources, fails when the API server ends, and lists everything when restarted', async () => {
    await store.createResource(poolOf('blue', '10.0.0.0/24'), never);
    const follower = await new ResourceFollower(store, 'IPPool').started();
    const before = performance.now();
    await server.stop();
    await expect(follower.ended).rejects.toMatchObject({ code: 'store/unavailable' });
    expect(performance.now() - before).toBeLessThan(NOTICED_MS);
    await server.start();
    const second = await new ResourceFollower(store, 'IPPool').started();
    expect(second.resources.map(({ metadata }) => metadata.name)).toEqual(['blue']);
    await store.deleteResource({ kind: 'IPPool', name: 'blue' }, never);
    expect(await second.sees(1)).toEqual(['gone IPPool "blue"']);
    await second.end();
  });

  it('fails when the API server stops responding', async () => {
    await using proxy = await startTcpProxy({ port: Number(new URL(server.url).port) });
    const url = `https://127.0.0.1:${String(proxy.port)}`;
    const path = await server.kubeconfigFor(await server.callerToken('agent'), { url });
    await using through = openOrchStore({ from: 'file', path }, { transport });
    const follower = await follow(through);
    const before = performance.now();
    proxy.fallSilent();
    await expect(follower.ended).rejects.toMatchObject({ code: 'store/unavailable' });
    expect(performance.now() - before).toBeLessThan(NOTICED_MS);
  });

  it('yields nothing when fields of pods change that netplug did not write', async () => {
    await server.putPod({ namespace: 'default', name: 'p', node: 'n1' });
    const follower = await follow();
    const type = 'application/merge-patch+json';
    await server.call('PATCH', '/api/v1/namespaces/default/pods/p', {
      type,
      body: { metadata: { labels: { a: 'b' } } },
    });
    await store.createResource(poolOf('blue', '10.0.0.0/24'), never);
    await follower.sees('settings', 1);
    expect(follower.of('endpoint')).toEqual([]);
    await follower.end();
  });

  it('yields nothing from a cache while the API server does not respond, also beside another follower', async () => {
    await using proxy = await startTcpProxy({ port: Number(new URL(server.url).port) });
    const url = `https://127.0.0.1:${String(proxy.port)}`;
    const path = await server.kubeconfigFor(await server.callerToken('agent'), { url });
    const watches = new SharedWatches();
    await using through = openOrchStore({ from: 'file', path }, { transport, watches });
    await using unprobed = openOrchStore({ from: 'file', path }, { transport, watches, probeAfterMs: Infinity });
    const kept = await new ResourceFollower(unprobed, 'IPPool').started();
    const first = await new ResourceFollower(through, 'IPPool').started();
    proxy.fallSilent();
    await expect(first.ended).rejects.toMatchObject({ code: 'store/unavailable' });
    const second = new ResourceFollower(through, 'IPPool');
    await expect(second.started()).rejects.toMatchObject({ code: 'store/unavailable' });
    expect(second.changes).toEqual([]);
    await kept.end();
  });

  it('lists again what its snapshot must not have from before, and nothing else that another follower keeps', async () => {
    const watches = new SharedWatches();
    const asked: string[] = [];
    const path = await server.callerConfig('agent');
    const options = { transport, watches, onRequest: (what: string): unknown => asked.push(what) };
    await using through = openOrchStore({ from: 'file', path }, options);
    const kept = await new ResourceFollower(through, 'IPPool').started();
    asked.length = 0;
    const second = await new ResourceFollower(through, 'IPPool').started();
    expect(asked).toEqual([]);
    const node = await follow(through);
    expect(asked).toContain('list ippools');
    await store.createResource(poolOf('blue', '10.0.0.0/24'), never);
    await Promise.all([kept.sees(1), second.sees(1), node.sees('settings', 1)]);
    for (const follower of [kept, second, node]) await follower.end();
  });
});
