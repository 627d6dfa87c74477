// Endpoints as notes on pods, on a real API server, beside tenants who write such notes themselves.
import { takeSlot, updateTo } from '../support/block-edits.ts';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createLog } from '../../src/base/log.ts';
import { openOrchStore } from '../../src/datastore/orch/orch-store.ts';
import type { Change, Stored } from '../../src/datastore/allocation-store.ts';
import type { Store } from '../../src/datastore/store.ts';
import { emptyBlock, type IpBlock } from '../../src/model/ip-block.ts';
import type { WorkloadEndpoint } from '../../src/model/workload-endpoint.ts';
import { parseCidr } from '../../src/net/cidr.ts';
import { holder } from './suites/datastore/bench.ts';
import { nodeName, poolOf } from '../support/fixtures.ts';
import { type OrchApiServer, startOrchApiServer } from '../support/orch-datastore.ts';
import { type Fate, type Proxy, startProxy } from '../support/orch-proxy.ts';

const never = new AbortController().signal;
const NODE = nodeName('n1');
const NOTE = 'cni.netplug/endpoint.eth0';
const MERGE = 'application/merge-patch+json';
const podPath = (name: string): string => `/api/v1/namespaces/shop/pods/${name}`;

describe('notes on pods', () => {
  let server: OrchApiServer;
  let proxy: Proxy;
  /** With the rights that the manifest gives to the plugin, and through the proxy. */
  let store: Store;
  let delayed: Store;
  const lines: string[] = [];

  beforeAll(async () => {
    server = await startOrchApiServer();
    proxy = await startProxy(server, await server.callerToken('plugin'));
    const log = createLog('WARNING', [(line) => lines.push(line)], () => 0);
    const path = await server.callerConfig('plugin');
    store = openOrchStore({ from: 'file', path }, { log });
    delayed = openOrchStore({ from: 'api-root', url: proxy.url }, { log });
  });
  beforeEach(async () => {
    lines.length = 0;
    await server.empty();
    await server.call('POST', '/apis/netplug.io/v3/ippools', { body: poolOf('blue', '10.0.0.0/24') });
  });
  afterEach(() => {
    proxy.fate = () => 'pass';
  });
  afterAll(async () => {
    for (const part of [store, delayed, proxy, server]) await part?.[Symbol.asyncDispose]();
  });

  const endpointOn = async (pod: string, more: Partial<WorkloadEndpoint['spec']> = {}): Promise<WorkloadEndpoint> => {
    const made = {
      apiVersion: 'netplug.io/v3',
      kind: 'WorkloadEndpoint',
      metadata: { name: pod, namespace: 'shop' },
      spec: {
        orchestrator: 'orch',
        node: NODE,
        network: 'net',
        containerID: `c-${pod}`,
        endpoint: 'eth0',
        interfaceName: 'npl0',
        mac: '0a:00:00:00:00:01',
        ipNetworks: ['10.0.0.1/32'],
        profiles: ['net'],
        ipam: 'netplug-ipam',
        ...more,
      },
    } as const;
    return server.podOf(made);
  };
  const put = (endpoint: WorkloadEndpoint): Change => ({ kind: 'put-endpoint', endpoint });
  const annotate = async (pod: string, annotations: Record<string, string>): Promise<void> =>
    void (await server.call('PATCH', podPath(pod), { type: MERGE, body: { metadata: { annotations } } }));
  const annotations = async (pod: string): Promise<Record<string, string>> =>
    (await server.call('GET', podPath(pod))).metadata.annotations ?? {};
  const noted = async (): Promise<readonly Stored<WorkloadEndpoint>[]> => {
    const { endpoints } = await store.listEndpoints(NODE, never);
    return endpoints;
  };
  const find = async (pod: string): Promise<Stored<WorkloadEndpoint>> => {
    const found = (await noted()).find(({ value }) => value.spec.pod === pod);
    if (found === undefined) throw new Error(`no note on ${pod}`);
    return found;
  };
  /** A block with one address taken, which goes with the notes. */
  const takeOne = async (): Promise<Change> => {
    const cidr = parseCidr('10.0.0.0/26');
    const [known] = await store.getBlocks([cidr], never);
    const block: IpBlock = known?.value ?? emptyBlock(cidr, NODE);
    const after = takeSlot(block, block.slots.size, holder(`h${String(block.slots.size)}`, NODE));
    return known === undefined ? { kind: 'create-block', block: after, pool: undefined } : updateTo(known, after);
  };
  const held = async (): Promise<number> =>
    (await store.listBlocks(never)).blocks.reduce((sum, { value }) => sum + value.slots.size, 0);

  it('are written by way of the status, without the right to change pods', async () => {
    const endpoint = await endpointOn('web');
    expect(await store.commit([put(endpoint)], never)).toBe('committed');
    expect((await annotations('web'))['cni.netplug/podIPs']).toBe('10.0.0.1/32');
    expect(await store.commit([{ kind: 'delete-endpoint', before: await find('web') }], never)).toBe('committed');
    expect(await annotations('web')).toEqual({ 'cni.netplug/podIPs': '', 'cni.netplug/containerID': 'c-web' });
    const path = await server.callerConfig('plugin');
    const asPlugin = ['--kubeconfig', path, '--namespace=shop'];
    await expect(server.kubectl(...asPlugin, 'label', 'pod', 'web', 'app=other')).rejects.toThrow(
      'cannot patch resource "pods"',
    );
  });

  it('are written on every other pod of a commit when one pod has no room for its own', async () => {
    const [big, small] = [await endpointOn('big'), await endpointOn('small')];
    // As much as the API server takes of an owner.
    await annotate('big', { filler: 'x'.repeat(256 * 1024 - 'filler'.length) });
    expect(await store.commit([await takeOne(), put(big), put(small)], never)).toBe('committed');
    expect(lines.join('')).toContain('metadata.annotations: Too long');
    expect((await noted()).map(({ value }) => value.spec.pod)).toContain('small');
    expect(await held()).toBe(1);
  });

  it.each([
    ['refuses it', 422],
    ['forbids it', 403],
    ['fails at it', 500],
  ])('are given up one by one where a webhook %s, and the commit succeeds', async (_, status) => {
    const endpoints = [await endpointOn('bad'), await endpointOn('good')];
    proxy.fate = (method, { pathname }) =>
      method === 'PATCH' && pathname.startsWith(podPath('bad')) ? { status } : 'pass';
    expect(await delayed.commit([await takeOne(), ...endpoints.map(put)], never)).toBe('committed');
    expect((await noted()).map(({ value }) => value.spec.pod)).toEqual(['good']);
    expect(await held()).toBe(1);
    expect(lines.join('')).toContain('endpoint annotation not written');
    // Those that go likewise.
    proxy.fate = () => 'pass';
    await delayed.commit([put(endpoints[0]!)], never);
    const gone = await Promise.all(['bad', 'good'].map(find));
    proxy.fate = (method, { pathname }) =>
      method === 'PATCH' && pathname.startsWith(podPath('bad')) ? { status } : 'pass';
    const leave = gone.map((before): Change => ({ kind: 'delete-endpoint', before }));
    expect(await delayed.commit([...leave, await takeOne()], never)).toBe('committed');
    expect((await noted()).map(({ value }) => value.spec.pod)).toEqual(['bad']);
    expect(await held()).toBe(2);
  });

  it('fail the commit while the API does not serve at all', async () => {
    const endpoint = await endpointOn('web');
    proxy.fate = () => ({ status: 503 });
    await expect(delayed.commit([put(endpoint)], AbortSignal.timeout(6000))).rejects.toMatchObject({
      code: 'store/unavailable',
    });
  });

  it('neither hold addresses nor fail a commit while their pod changes all the time', async () => {
    await store.commit([await takeOne(), put(await endpointOn('restless')), put(await endpointOn('calm'))], never);
    const [restless, calm] = [await find('restless'), await find('calm')];
    let count = 0;
    proxy.fate = async (method, { pathname }): Promise<Fate> => {
      if (method !== 'PATCH' || !pathname.startsWith(podPath('restless'))) return 'pass';
      const note = JSON.parse((await annotations('restless'))[NOTE] ?? '{}') as object;
      await annotate('restless', { [NOTE]: JSON.stringify({ ...note, id: `mine-${String((count += 1))}` }) });
      return 'pass';
    };
    const changes: Change[] = [restless, calm].map((before) => ({ kind: 'delete-endpoint', before }));
    expect(await delayed.commit([...changes, await takeOne()], never)).toBe('committed');
    expect(count).toBe(3);
    expect((await noted()).map(({ value }) => value.spec.pod)).toEqual(['restless']);
    expect(await held()).toBe(2);
  });

  it('are removed although their pod has changed something in them', async () => {
    await store.commit([put(await endpointOn('web'))], never);
    const before = await find('web');
    const note = JSON.parse((await annotations('web'))[NOTE] ?? '{}') as object;
    await annotate('web', { [NOTE]: JSON.stringify({ ...note, ipam: 'none' }) });
    expect(await store.commit([{ kind: 'delete-endpoint', before }], never)).toBe('committed');
    expect(await noted()).toEqual([]);
  });
});
