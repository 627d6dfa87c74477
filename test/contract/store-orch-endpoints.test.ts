// Endpoints as objects of a real API server, beside tenants who write what they like on their pods.
import { takeSlot, updateTo } from '../support/block-edits.ts';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createLog } from '../../src/base/log.ts';
import { openOrchStore } from '../../src/datastore/orch/orch-store.ts';
import type { Change, Stored } from '../../src/datastore/allocation-store.ts';
import type { Store } from '../../src/datastore/store.ts';
import { emptyBlock, type IpBlock } from '../../src/model/ip-block.ts';
import { endpointIdOf, endpointName, type WorkloadEndpoint } from '../../src/model/workload-endpoint.ts';
import { endpointObjectName } from '../../src/datastore/orch/endpoint-objects.ts';
import { parseCidr } from '../../src/net/cidr.ts';
import { holder } from './suites/datastore/bench.ts';
import { nodeName, poolOf } from '../support/fixtures.ts';
import { type OrchApiServer, startOrchApiServer } from '../support/orch-datastore.ts';
import { type Proxy, startProxy } from '../support/orch-proxy.ts';

const never = new AbortController().signal;
const NODE = nodeName('n1');
const MERGE = 'application/merge-patch+json';
const podPath = (name: string): string => `/api/v1/namespaces/shop/pods/${name}`;

describe('endpoints on the API', () => {
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

  const endpointOf = (pod: string, more: Partial<WorkloadEndpoint['spec']> = {}): WorkloadEndpoint => ({
    apiVersion: 'netplug.io/v3',
    kind: 'WorkloadEndpoint',
    metadata: {
      name: endpointName({ node: NODE, orchestrator: 'orch', workload: pod, endpoint: 'eth0' }),
      namespace: 'shop',
      labels: { app: pod },
    },
    spec: {
      orchestrator: 'orch',
      node: NODE,
      network: 'net',
      containerID: `c-${pod}`,
      pod,
      endpoint: 'eth0',
      interfaceName: 'npl0',
      mac: '0a:00:00:00:00:01',
      ipNetworks: ['10.0.0.1/32'],
      profiles: ['kns.shop'],
      ipam: 'netplug-ipam',
      ...more,
    },
  });
  const put = (endpoint: WorkloadEndpoint): Change => ({ kind: 'put-endpoint', endpoint });
  const recorded = async (): Promise<readonly Stored<WorkloadEndpoint>[]> =>
    (await store.listEndpoints(NODE, never)).endpoints;
  const podsIn = async (): Promise<readonly unknown[]> => (await recorded()).map(({ value }) => value.spec.pod).sort();
  const find = async (pod: string): Promise<Stored<WorkloadEndpoint>> => {
    const found = (await recorded()).find(({ value }) => value.spec.pod === pod);
    if (found === undefined) throw new Error(`${pod} has no endpoint`);
    return found;
  };
  /** A block with one address taken, which goes with the endpoints. */
  const takeOne = async (): Promise<Change> => {
    const cidr = parseCidr('10.0.0.0/26');
    const [known] = await store.getBlocks([cidr], never);
    const block: IpBlock = known?.value ?? emptyBlock(cidr, NODE);
    const after = takeSlot(block, block.slots.size, holder(`h${String(block.slots.size)}`, NODE));
    return known === undefined ? { kind: 'create-block', block: after, pool: undefined } : updateTo(known, after);
  };
  const held = async (): Promise<number> =>
    (await store.listBlocks(never)).blocks.reduce((sum, { value }) => sum + value.slots.size, 0);

  it('are written without any right to write pods', async () => {
    await server.putPod({ namespace: 'shop', name: 'web', node: NODE });
    expect(await store.commit([put(endpointOf('web'))], never)).toBe('committed');
    expect(await find('web')).toMatchObject({ value: endpointOf('web') });
    expect(await store.commit([{ kind: 'delete-endpoint', before: await find('web') }], never)).toBe('committed');
    expect(await recorded()).toEqual([]);
    const token = await server.callerToken('plugin');
    const body = { metadata: { annotations: { a: 'b' } } };
    for (const path of [podPath('web'), `${podPath('web')}/status`])
      expect(await server.ask('PATCH', path, { body, type: MERGE, token })).toMatchObject({ status: 403 });
  });

  it.each([
    ['refuses it', 422],
    ['forbids it', 403],
  ])('are given up one by one where a webhook %s, and the commit succeeds', async (_, status) => {
    const all = ['bad', 'good'];
    await store.commit(
      all.map((pod) => put(endpointOf(pod))),
      never,
    );
    const bad = endpointObjectName(endpointIdOf(endpointOf('bad')));
    proxy.fate = (method, { pathname }) => (method !== 'GET' && pathname.endsWith(bad) ? { status } : 'pass');
    const later = all.map((pod) => put(endpointOf(pod, { mac: '0a:00:00:00:00:02' })));
    expect(await delayed.commit([await takeOne(), ...later], never)).toBe('committed');
    const macs = (await Promise.all(all.map(find))).map(({ value }) => value.spec.mac);
    expect(macs).toEqual(['0a:00:00:00:00:01', '0a:00:00:00:00:02']);
    expect(await held()).toBe(1);
    expect(lines.join('')).toContain('endpoint not written');
    // Those that go likewise.
    const leave = (await Promise.all(all.map(find))).map((before): Change => ({ kind: 'delete-endpoint', before }));
    expect(await delayed.commit([...leave, await takeOne()], never)).toBe('committed');
    expect(await podsIn()).toEqual(['bad']);
    expect(await held()).toBe(2);
  });

  it('fail the commit while the API does not serve at all', async () => {
    proxy.fate = () => ({ status: 503 });
    await expect(delayed.commit([put(endpointOf('web'))], AbortSignal.timeout(6000))).rejects.toMatchObject({
      code: 'store/unavailable',
    });
  });

  it('take back the address of a commit when another writer was faster', async () => {
    await store.commit([put(endpointOf('web'))], never);
    const over = await find('web');
    await store.commit([put(endpointOf('web', { mac: '0a:00:00:00:00:02' }))], never);
    const late: Change = { kind: 'put-endpoint', endpoint: endpointOf('web', { mac: '0a:00:00:00:00:03' }), over };
    expect(await store.commit([await takeOne(), late], never)).toBe('conflict');
    expect(await held()).toBe(0);
    expect((await find('web')).value.spec.mac).toBe('0a:00:00:00:00:02');
  });

  it('are in conflict when a write went unanswered, and are read and written again then', async () => {
    let isFirst = true;
    proxy.fate = (method) => {
      if (method === 'GET' || !isFirst) return 'pass';
      isFirst = false;
      return 'lose the answer';
    };
    const change: Change = { kind: 'put-endpoint', endpoint: endpointOf('web'), over: 'none' };
    expect(await delayed.commit([change], never)).toBe('conflict');
    expect(await delayed.commit([{ ...change, over: await find('web') }], never)).toBe('committed');
    expect(await podsIn()).toEqual(['web']);
  });
});
