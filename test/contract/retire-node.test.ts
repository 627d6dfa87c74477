// A node goes for good on the real datastores, whose indexes of borrowers and labels of holders must go with it.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import { systemRandom } from '../../src/base/random.ts';
import { openKvStore } from '../../src/datastore/kv/kv-store.ts';
import { openOrchStore } from '../../src/datastore/orch/orch-store.ts';
import type { Store } from '../../src/datastore/store.ts';
import { assign, type IpamPorts } from '../../src/ipam/assign.ts';
import { release } from '../../src/ipam/release.ts';
import { retireNode } from '../../src/ipam/retire-node.ts';
import { emptyBlock, heldAddresses } from '../../src/model/ip-block.ts';
import { handleOf } from '../../src/model/names.ts';
import type { WorkloadEndpoint } from '../../src/model/workload-endpoint.ts';
import { formatAddress } from '../../src/net/address.ts';
import { addressAt, parseCidr } from '../../src/net/cidr.ts';
import { takeSlot } from '../support/block-edits.ts';
import { startEtcd } from '../support/etcd.ts';
import { nodeName, poolOf } from '../support/fixtures.ts';
import { attachmentOf, requestOf } from '../support/ipam-bench.ts';
import { startOrchApiServer } from '../support/orch-datastore.ts';

interface Fixture extends AsyncDisposable {
  open(): Store;
}

const FIXTURES: Readonly<Record<'kv' | 'orch', () => Promise<Fixture>>> = {
  kv: async () => {
    const etcd = await startEtcd();
    const endpoints = { from: 'list', urls: [etcd.url] } as const;
    return {
      open: () => openKvStore({ endpoints, keyFile: undefined, certFile: undefined, caCertFile: undefined }),
      [Symbol.asyncDispose]: async () => etcd[Symbol.asyncDispose](),
    };
  },
  orch: async () => {
    const server = await startOrchApiServer();
    const path = await server.callerConfig('admin tool');
    return {
      open: () => openOrchStore({ from: 'file', path }),
      [Symbol.asyncDispose]: async () => server[Symbol.asyncDispose](),
    };
  },
};

describe.each(['kv', 'orch'] as const)('retiring a node on %s', (datastore) => {
  const signal = AbortSignal.timeout(120_000);
  let fixture: Fixture;
  let store: Store;
  let ports: IpamPorts;
  beforeAll(async () => {
    fixture = await FIXTURES[datastore]();
    store = fixture.open();
    ports = { store, clock: systemClock, random: systemRandom, log: silentLog };
  });
  afterAll(async () => {
    await store[Symbol.asyncDispose]();
    await fixture[Symbol.asyncDispose]();
  });

  const take = async (container: string, node: string, ip?: string): Promise<string> => {
    const ask = { node, ...(ip === undefined ? {} : { ip }) };
    const [lease] = await assign(ports, requestOf(container, ask), { signal, cleanupSignal: signal });
    return formatAddress(lease!.address);
  };
  /** Addresses without a holder in the one block of the node. */
  const freeOf = async (node: string): Promise<string[]> => {
    const { owned } = await store.readNodeView(nodeName(node), undefined, signal);
    return owned.flatMap(({ value: { cidr, queue } }) => queue.map((at) => formatAddress(addressAt(cidr, at))));
  };
  const heldBy = async (node: string): Promise<string[]> => {
    const { owned, borrowed } = await store.readNodeView(nodeName(node), undefined, signal);
    const held = [...owned, ...borrowed].flatMap(({ value }) => heldAddresses(value, (each) => each.node === node));
    return held.map(({ address }) => formatAddress(address)).sort();
  };
  const putEndpoint = async (name: string, node: string): Promise<void> => {
    const { network, containerId: containerID, ifName: endpoint } = attachmentOf(name);
    const spec = {
      orchestrator: 'cni',
      node,
      network,
      containerID,
      endpoint,
      interfaceName: '',
      mac: '0a:00:00:00:00:01',
    } as const;
    const written: WorkloadEndpoint = {
      apiVersion: 'netplug.io/v3',
      kind: 'WorkloadEndpoint',
      metadata: { name },
      spec: { ...spec, ipNetworks: [], profiles: [], ipam: 'netplug-ipam' },
    };
    expect(await store.commit([{ kind: 'put-endpoint', endpoint: written }], signal)).toBe('committed');
  };

  it('leaves to the others what they hold, and lets them take and give meanwhile', async () => {
    await store.createResource(poolOf('v4', '10.0.0.0/28', { blockSize: 29 }), signal);
    for (const name of ['a', 'b', 'c']) await take(name, 'n1');
    for (const name of ['a', 'b', 'c']) await putEndpoint(name, 'n1');
    await putEndpoint('z', 'n2');
    const [first, second, third] = await freeOf('n1');
    const early = [await take('z', 'n2'), await take('y', 'n2', first), await take('x', 'n2', second)];
    await take('d', 'n1', (await freeOf('n2'))[0]);
    const [{ retired }, ...late] = await Promise.all([
      retireNode(ports, nodeName('n1'), signal),
      take('w', 'n2', third),
      take('v', 'n2'),
    ]);
    expect(retired).toMatchObject({ addresses: 4, endpoints: 3, returnedBlocks: 0, orphanedBlocks: 1 });
    expect(await heldBy('n1')).toEqual([]);
    expect(await heldBy('n2')).toEqual([...early, ...late].sort());
    const { endpoints } = await store.listEndpoints(undefined, signal);
    expect(endpoints.map(({ value }) => value.spec.node)).toEqual(['n2']);
    const { owned, borrowed } = await store.readNodeView(nodeName('n1'), undefined, signal);
    expect([...owned, ...borrowed]).toEqual([]);
  });

  it('lets the last borrower take the block with it', async () => {
    const owners = async (): Promise<unknown[]> =>
      (await store.listBlocks(signal)).blocks.map(({ value }) => value.node).sort();
    expect(await owners()).toEqual(['n2', undefined]);
    await release(ports, { node: nodeName('n2'), which: () => true }, signal);
    expect(await owners()).toEqual(['n2']);
  });

  it('finds nothing the second time', async () => {
    const { retired } = await retireNode(ports, nodeName('n1'), signal);
    expect(Object.values(retired)).toEqual([0, 0, 0, 0]);
  });

  it('leaves a block to more borrowers than etcd takes operations in a transaction', async () => {
    const borrowers = Array.from({ length: 130 }, (_, index) => ({ ordinal: index, node: nodeName(`m${index}`) }));
    const empty = emptyBlock(parseCidr('10.9.0.0/24'), nodeName('n3'));
    const block = borrowers.reduce((block, { ordinal, node }) => {
      const attachment = attachmentOf(node);
      const chosen = { at: '2026-01-01T00:00:00Z', chosenBy: 'request' } as const;
      return takeSlot(block, ordinal, { id: node, node, ...attachment, handle: handleOf(attachment), ...chosen });
    }, empty);
    expect(await store.commit([{ kind: 'create-block', block, pool: undefined }], signal)).toBe('committed');
    const { retired } = await retireNode(ports, nodeName('n3'), signal);
    expect(retired).toMatchObject({ addresses: 0, orphanedBlocks: 1 });
    for (const { ordinal, node } of borrowers) expect(await heldBy(node)).toEqual([`10.9.0.${ordinal}`]);
  });
});
