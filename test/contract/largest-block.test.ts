// A block is one record: the largest one, full of the longest names in a cluster with many pools, must be stored.
import { takeSlot, updateTo } from '../support/block-edits.ts';
import { describe, expect, it } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { forEachLimit } from '../../src/base/for-each-limit.ts';
import { silentLog } from '../../src/base/log.ts';
import { systemRandom } from '../../src/base/random.ts';
import { openKvStore } from '../../src/datastore/kv/kv-store.ts';
import { openOrchStore } from '../../src/datastore/orch/orch-store.ts';
import type { Store } from '../../src/datastore/store.ts';
import { assign, type AssignRequest } from '../../src/ipam/assign.ts';
import { release } from '../../src/ipam/release.ts';
import type { IpBlock } from '../../src/model/ip-block.ts';
import { encodeBlock } from '../../src/model/ip-block-codec.ts';
import { startEtcd } from '../support/etcd.ts';
import { nodeName, poolOf } from '../support/fixtures.ts';
import { requestOf } from '../support/ipam-bench.ts';
import { startOrchApiServer } from '../support/orch-datastore.ts';

const OTHER_POOLS = 500;
const SIZE = 512;
/** Of etcd, unless it is configured otherwise. */
const REQUEST_BYTES = 1.5 * 1024 * 1024;

const signal = new AbortController().signal;
const limits = { signal, cleanupSignal: signal };

/** The longest names that the orchestrator and runtimes give. */
function longRequest(number: number, ip?: string): AssignRequest {
  const containerId = `${'c'.repeat(61)}${String(number).padStart(3, '0')}`;
  const request = requestOf(containerId, { pools: ['big'], ...(ip === undefined ? {} : { ip }) });
  return {
    ...request,
    node: nodeName('n'.repeat(253)),
    attachment: { network: 'w'.repeat(180), containerId, ifName: 'i'.repeat(15) },
    pod: { namespace: 's'.repeat(63), name: 'p'.repeat(253), uid: 'u'.repeat(36) },
  };
}

async function fillBlock(store: Store): Promise<IpBlock> {
  const ports = { store, clock: systemClock, random: systemRandom, log: silentLog };
  const others = Array.from({ length: OTHER_POOLS }, (_, at) =>
    poolOf(`${'o'.repeat(240)}-${String(at)}`, `10.${String(at >> 8)}.${String(at & 255)}.0/24`, {
      disabled: at % 2 === 0,
    }),
  );
  await forEachLimit(others, 8, async (pool) => {
    await store.createResource(pool, signal);
  });
  await store.createResource(poolOf('big', '10.200.0.0/23', { blockSize: 23 }), signal);
  const [lease] = await assign(ports, longRequest(0), limits);
  const [before] = await store.getBlocks([lease!.block], signal);
  let after = before!.value;
  for (const ordinal of before!.value.queue.slice(0, SIZE - 2)) {
    const { attachment } = longRequest(ordinal);
    const id = `${lease!.allocation.id}-${String(ordinal)}`;
    after = takeSlot(after, ordinal, { ...lease!.allocation, ...attachment, id });
  }
  expect(await store.commit([updateTo(before!, after)], signal)).toBe('committed');
  const [last] = await assign(ports, longRequest(SIZE - 1), limits);
  const [full] = await store.getBlocks([last!.block], signal);
  const freed = await release(
    ports,
    { node: last!.allocation.node, which: ({ id }) => id === last!.allocation.id },
    signal,
  );
  expect(freed).toHaveLength(1);
  return full!.value;
}

describe('the largest block, full, in a cluster with 500 pools', () => {
  it('is stored by etcd with room to spare', async () => {
    await using etcd = await startEtcd();
    const endpoints = { from: 'list', urls: [etcd.url] } as const;
    await using store = openKvStore({ endpoints, keyFile: undefined, certFile: undefined, caCertFile: undefined });
    const block = await fillBlock(store);
    expect(block.slots.size).toBe(SIZE);
    const bytes = Buffer.byteLength(JSON.stringify(encodeBlock(block)));
    expect(bytes).toBeGreaterThan(REQUEST_BYTES / 3);
    expect(bytes).toBeLessThan(REQUEST_BYTES * 0.75);
  });

  it('is stored by the API server', async () => {
    await using server = await startOrchApiServer();
    await using store = openOrchStore({ from: 'file', path: await server.callerConfig('admin tool') });
    expect((await fillBlock(store)).slots.size).toBe(SIZE);
  });
});
