import { takeSlot, updateTo } from '../support/block-edits.ts';
import { execFileSync } from 'node:child_process';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import { systemRandom } from '../../src/base/random.ts';
import { openOrchStore } from '../../src/datastore/orch/orch-store.ts';
import type { Change } from '../../src/datastore/allocation-store.ts';
import type { Store } from '../../src/datastore/store.ts';
import { assign, type IpamPorts, type RequestedEndpoint } from '../../src/ipam/assign.ts';
import { release } from '../../src/ipam/release.ts';
import { replacedEndpointId } from '../../src/ipam/replaced-endpoint.ts';
import { emptyBlock, heldAddresses } from '../../src/model/ip-block.ts';
import { handleOf } from '../../src/model/names.ts';
import { type EndpointId, endpointIdOf, type WorkloadEndpoint } from '../../src/model/workload-endpoint.ts';
import { formatAddress } from '../../src/net/address.ts';
import { formatCidr, hostCidr, parseCidr } from '../../src/net/cidr.ts';
import { program } from '../support/components.ts';
import { nodeName, poolOf } from '../support/fixtures.ts';
import { attachmentOf, requestOf } from '../support/ipam-bench.ts';
import { type OrchApiServer, startOrchApiServer } from '../support/orch-datastore.ts';
import { type Fate, type Proxy, startProxy } from '../support/orch-proxy.ts';

const never = new AbortController().signal;
const limits = { signal: never, cleanupSignal: never };
const BLOCKS = '/apis/netplug.io/v3/ipblocks';
const OF_WEB = { node: 'n1', namespace: 'shop', name: 'n1-orch-web-eth0' };

describe('writers of the datastore in the API of the orchestrator', () => {
  let server: OrchApiServer;
  let proxy: Proxy;
  /** The tool, straight to the API server; and the plugin, through the proxy. */
  let straight: Store;
  let delayed: Store;
  const requests: string[] = [];

  beforeAll(async () => {
    server = await startOrchApiServer();
    proxy = await startProxy(server, await server.callerToken('plugin'));
    const path = await server.callerConfig('admin tool');
    straight = openOrchStore({ from: 'file', path }, { onRequest: (what) => requests.push(what) });
    delayed = openOrchStore({ from: 'api-root', url: proxy.url }, { limits: { answerMs: 1000 }, pageSize: 2 });
  });
  beforeEach(async () => {
    await server.empty();
    await straight.createResource(poolOf('blue', '10.0.0.0/24'), never);
  });
  afterEach(() => {
    proxy.fate = () => 'pass';
  });
  afterAll(async () => {
    for (const part of [straight, delayed, proxy, server]) await part?.[Symbol.asyncDispose]();
  });

  const portsOf = (store: Store): IpamPorts => ({ store, clock: systemClock, random: systemRandom, log: silentLog });
  const add = async (store: Store, container: string, node = 'n1'): Promise<string> => {
    const [lease] = await assign(portsOf(store), requestOf(container, { node }), limits);
    return lease === undefined ? 'nothing' : formatAddress(lease.address);
  };
  const held = async (): Promise<string[]> => {
    const { blocks, problems } = await straight.listBlocks(never);
    expect(problems).toEqual([]);
    return blocks.flatMap(({ value }) =>
      heldAddresses(value).map(({ address, allocation }) => `${allocation.containerId} ${formatAddress(address)}`),
    );
  };
  const nothingHeldTwice = async (): Promise<void> => {
    const addresses = (await held()).map((line) => line.split(' ')[1]);
    expect(new Set(addresses).size).toBe(addresses.length);
  };
  /** Holds the first request of that kind back; `reached` says that it is there, `go` lets it on. */
  const pause = (method: string, path: string): { reached: Promise<void>; go: () => void } => {
    let go = (): void => undefined;
    const gate = new Promise<void>((resolve) => (go = resolve));
    let isFirst = true;
    const reached = new Promise<void>((resolve) => {
      proxy.fate = async (seenMethod, url): Promise<Fate> => {
        if (!isFirst || seenMethod !== method || !url.pathname.startsWith(path)) return 'pass';
        isFirst = false;
        resolve();
        await gate;
        return 'pass';
      };
    });
    return { reached, go };
  };

  it.each([
    ['updates', 'PUT', true],
    ['creates', 'POST', false],
  ])(
    'never give an address twice when one is paused before it %s the block [orch-datastore]',
    async (_, method, isMade) => {
      if (isMade) await add(straight, 'first');
      const { reached, go } = pause(method, BLOCKS);
      const paused = add(delayed, 'paused');
      await reached;
      const quick = [await add(straight, 'quick-1'), await add(straight, 'quick-2')];
      go();
      expect(quick).not.toContain(await paused);
      expect(await held()).toHaveLength(isMade ? 4 : 3);
      await nothingHeldTwice();
    },
  );

  it('give one address each to many at once on two nodes', async () => {
    const wanted = Array.from({ length: 30 }, (_, index) => index);
    const got = await Promise.all(
      wanted.map(async (index) =>
        add(index % 2 === 0 ? straight : delayed, `c${String(index)}`, `n${String(index % 3)}`),
      ),
    );
    expect(new Set(got).size).toBe(30);
    await nothingHeldTwice();
  });

  it('go on when the answer to a write is lost, and hold what they wrote once', async () => {
    for (const [method, container] of [
      ['POST', 'creates'],
      ['PUT', 'updates'],
    ] as const) {
      let isFirst = true;
      proxy.fate = (seen, url) => {
        if (!isFirst || seen !== method || !url.pathname.startsWith(BLOCKS)) return 'pass';
        isFirst = false;
        return 'lose the answer';
      };
      await add(delayed, container);
      expect(isFirst).toBe(false);
    }
    expect((await held()).map((line) => line.split(' ')[0])).toEqual(['creates', 'updates']);
  });

  it('take back what they wrote when a later block of the same write is lost', async () => {
    const pool = (await straight.readNodeView(nodeName('n1'), undefined, never)).pools[0]!;
    const create = (cidr: string): Change => ({
      kind: 'create-block',
      block: emptyBlock(parseCidr(cidr), nodeName('n1')),
      pool,
    });
    expect(await straight.commit([create('10.0.0.64/26')], never)).toBe('committed');
    expect(await straight.commit([create('10.0.0.64/26'), create('10.0.0.0/26')], never)).toBe('conflict');
    expect(await straight.listClaims([parseCidr('10.0.0.0/8')], never)).toHaveLength(1);
  });

  it('undo only their own writes when another writer came in between', async () => {
    const node = nodeName('n1');
    const { pools } = await straight.readNodeView(node, undefined, never);
    const blocks = ['10.0.0.0/30', '10.0.0.4/30'].map((cidr) => emptyBlock(parseCidr(cidr), node));
    const made = blocks.map((block): Change => ({ kind: 'create-block', block, pool: pools[0]! }));
    expect(await straight.commit(made, never)).toBe('committed');
    const taking = async (container: string, which: readonly number[]): Promise<Change[]> =>
      (
        await straight.getBlocks(
          blocks.map(({ cidr }) => cidr),
          never,
        )
      )
        .filter((_, index) => which.includes(index))
        .map((before) => {
          const [slot = 0] = before.value.queue;
          const attachment = attachmentOf(container);
          const allocation = { id: container, node, ...attachment, handle: handleOf(attachment) };
          const more = { at: '2026-01-01T00:00:00Z', chosenBy: 'request' } as const;
          return updateTo(before, takeSlot(before.value, slot, { ...allocation, ...more }));
        });
    const both = await taking('loser', [0, 1]);
    const { reached, go } = pause('PUT', `${BLOCKS}/10-0-0-4-30`);
    const outcome = delayed.commit(both, never);
    await reached;
    // The first block holds the loser's address already; others take the next one there, and win the second block.
    expect(await straight.commit(await taking('winner', [0, 1]), never)).toBe('committed');
    go();
    expect(await outcome).toBe('conflict');
    expect(await held()).toEqual(['winner 10.0.0.1', 'winner 10.0.0.4']);
  });

  it('do not keep a block of a pool that is disabled before they have looked again', async () => {
    const { reached, go } = pause('GET', '/apis/netplug.io/v3/ippools/blue');
    const late = add(delayed, 'late');
    await reached;
    await straight.updateResource(poolOf('blue', '10.0.0.0/24', { disabled: true }), never);
    go();
    await expect(late).rejects.toMatchObject({ code: 'ipam/exhausted' });
    expect(await straight.listClaims([parseCidr('10.0.0.0/8')], never)).toEqual([]);
  });

  it('survive an API server that is restarted meanwhile', async () => {
    const over = new AbortController();
    const restarting = server.restart().finally(() => over.abort());
    const got: string[] = [];
    while (!over.signal.aborted || got.length < 5) got.push(await add(straight, `c${String(got.length)}`, 'n1'));
    await restarting;
    expect(new Set(got).size).toBe(got.length);
    expect(await held()).toHaveLength(got.length);
    await nothingHeldTwice();
  });

  it('survive answers that are slow, lost, too many or broken', async () => {
    await add(straight, 'first');
    const troubles = [
      { status: 429, headers: { 'retry-after': '1' } },
      { status: 503 },
      { status: 500 },
      'lose the request',
      'lose the answer',
    ] as const;
    for (const [index, trouble] of troubles.entries()) {
      const hit = new Set<string>();
      proxy.fate = (method, url) => {
        const what = `${method} ${url.pathname}`;
        if (hit.has(what)) return 'pass';
        hit.add(what);
        return trouble;
      };
      await add(delayed, `c${String(index)}`);
    }
    let slowOnes = 0;
    proxy.fate = async (): Promise<Fate> => {
      slowOnes += 1;
      // Longer than one answer may take, the first time.
      if (slowOnes <= 2) await new Promise((resolve) => setTimeout(resolve, 1500));
      return 'pass';
    };
    await add(delayed, 'slow');
    expect(await held()).toHaveLength(2 + troubles.length);
    await nothingHeldTwice();
  });

  it('list from the beginning when the API has forgotten where a listing was', async () => {
    for (const name of ['p1', 'p2', 'p3', 'p4']) await straight.createResource(poolOf(name, '10.1.0.0/24'), never);
    let forgotten = 0;
    proxy.fate = async (_, url): Promise<Fate> => {
      if (!url.searchParams.has('continue') || forgotten > 0) return 'pass';
      forgotten += 1;
      const { metadata } = await server.call('GET', '/apis/netplug.io/v3/ippools/p1');
      for (let more = 0; more < 3; more += 1) {
        await straight.updateResource(poolOf('p1', '10.1.0.0/24', { natOutgoing: more % 2 === 0 }), never);
      }
      const newest =
        (await straight.findResource({ kind: 'IPPool', name: 'p1' }, never))?.metadata.resourceVersion ?? '';
      expect(metadata.resourceVersion).not.toBe(newest);
      const env = { ...process.env, ETCDCTL_API: '3' };
      execFileSync(program('etcdctl'), [`--endpoints=${server.etcdUrl}`, 'compact', newest], { env, stdio: 'ignore' });
      return 'pass';
    };
    const { resources } = await delayed.listResources('IPPool', never);
    expect(forgotten).toBe(1);
    expect(resources.map(({ metadata }) => metadata.name)).toEqual(['blue', 'p1', 'p2', 'p3', 'p4']);
  });

  describe('of a pod', () => {
    const endpointOf = (uid: string, container: string, ipNetworks: readonly string[]): WorkloadEndpoint => ({
      apiVersion: 'netplug.io/v3',
      kind: 'WorkloadEndpoint',
      metadata: {
        name: 'n1-orch-web-eth0',
        namespace: 'shop',
        labels: { 'netplug/namespace': 'shop', 'netplug/orchestrator': 'orch' },
      },
      spec: {
        orchestrator: 'orch',
        node: 'n1',
        network: 'net',
        containerID: container,
        pod: 'web',
        podUID: uid,
        endpoint: 'eth0',
        interfaceName: 'npl0',
        mac: '0a:00:00:00:00:01',
        ipNetworks,
        profiles: ['net'],
        ipam: 'netplug-ipam',
      },
    });
    const addPod = async (uid: string, container = 'c'): Promise<string> => {
      const endpoint: RequestedEndpoint = {
        id: endpointIdOf(endpointOf(uid, container, [])),
        withAddresses: (assigned) =>
          endpointOf(
            uid,
            container,
            assigned.map(({ address }) => formatCidr(hostCidr(address))),
          ),
      };
      const assigned = await assign(portsOf(straight), { ...requestOf(container, { node: 'n1' }), endpoint }, limits);
      return assigned.map(({ address }) => formatAddress(address)).join();
    };
    const recorded = async (): Promise<readonly WorkloadEndpoint[]> =>
      (await straight.listEndpoints(nodeName('n1'), never)).endpoints.map(({ value }) => value);
    const del = async (container = 'c', id: EndpointId = OF_WEB): Promise<void> => {
      const handle = handleOf(attachmentOf(container));
      const request = {
        node: nodeName('n1'),
        which: (allocation: { handle: string }) => allocation.handle === handle,
        endpoint: {
          id,
          isSame: ({ spec }: WorkloadEndpoint) => spec.containerID === container,
        },
      };
      await release(portsOf(straight), request, never);
    };

    it('record the pod in one request, before the kubelet knows its address, and delete the record at the end', async () => {
      const uid = await server.putPod({ namespace: 'shop', name: 'web', node: 'n1', labels: { app: 'web' } });
      await addPod(uid, 'other');
      await del('other');
      requests.length = 0;
      const address = await addPod(uid);
      expect(requests.slice(0, 7).sort()).toEqual([
        'get clusterinformations',
        'get ipamconfigurations',
        'get nodes',
        'get workloadendpoints',
        'list ipblocks',
        'list ippools',
        'list ipreservations',
      ]);
      expect(requests.slice(7)).toEqual(['update ipblocks', 'create workloadendpoints']);
      expect(await recorded()).toMatchObject([
        { spec: { podUID: uid, containerID: 'c', ipNetworks: [`${address}/32`] } },
      ]);
      requests.length = 0;
      await addPod(uid);
      // No agent says how certain the address is, so the call takes it under an id of its own.
      expect(requests.slice(7)).toEqual(['update ipblocks']);
      await del();
      expect(requests.slice(15)).toEqual(['delete workloadendpoints', 'update ipblocks']);
      expect(await recorded()).toEqual([]);
      expect(await held()).toEqual([]);
    });

    it('keep the record of the pod that was made since under the name when an earlier container ends', async () => {
      const uid = await server.putPod({ namespace: 'shop', name: 'web', node: 'n1' });
      await server.call('DELETE', '/api/v1/namespaces/shop/pods/web?gracePeriodSeconds=0');
      await addPod(uid, 'gone');
      const newUid = await server.putPod({ namespace: 'shop', name: 'web', node: 'n1' });
      expect(newUid).not.toBe(uid);
      await addPod(newUid, 'new');
      const containers = (await recorded()).map(({ spec }) => spec.containerID);
      expect(containers.toSorted()).toEqual(['gone', 'new']);
      await del('gone', replacedEndpointId(OF_WEB, attachmentOf('gone')));
      expect(await recorded()).toMatchObject([{ spec: { podUID: newUid, containerID: 'new' } }]);
      expect(await held()).toHaveLength(1);
    });

    it('are not disturbed by what others write on the pod, nor delete what a newer container recorded', async () => {
      const uid = await server.putPod({ namespace: 'shop', name: 'web', node: 'n1' });
      await addPod(uid, 'old');
      const [before] = (await straight.listEndpoints(nodeName('n1'), never)).endpoints;
      const path = '/api/v1/namespaces/shop/pods/web';
      const type = 'application/merge-patch+json';
      const annotations = { other: 'text', 'cni.netplug/podIPs': '', 'cni.netplug/endpoint.eth0': '{}' };
      await server.call('PATCH', path, { type, body: { metadata: { annotations } } });
      await addPod(uid, 'new');
      expect(await straight.commit([{ kind: 'delete-endpoint', before: before! }], never)).toBe('conflict');
      expect(await recorded()).toMatchObject([{ spec: { containerID: 'new' } }]);
      const [now] = (await straight.listEndpoints(nodeName('n1'), never)).endpoints;
      expect(await straight.commit([{ kind: 'delete-endpoint', before: now! }], never)).toBe('committed');
      expect((await server.call('GET', path)).metadata.annotations).toEqual(annotations);
    });
  });
});
