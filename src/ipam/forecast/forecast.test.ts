import { takeSlot } from '../../../test/support/block-edits.ts';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  ANY_POOL,
  ipamConfigurationOf,
  NO_POOL,
  nodeName,
  nodeOf,
  poolOf,
  reservationOf,
} from '../../../test/support/fixtures.ts';
import { virtualClock } from '../../base/clock.ts';
import { isNetplugError } from '../../base/errors.ts';
import { silentLog } from '../../base/log.ts';
import { seededRandom } from '../../base/random.ts';
import { MemoryDatabase } from '../../datastore/memory/memory-database.ts';
import { openMemoryStore } from '../../datastore/memory/memory-store.ts';
import type { Change } from '../../datastore/allocation-store.ts';
import { assign } from '../assign.ts';
import { choosePools, decodePools } from '../choose-pools.ts';
import { release } from '../release.ts';
import { MAX_COOL_DOWN_SECONDS } from '../../model/cool-down.ts';
import { reservedCidrs } from '../../model/ip-reservation.ts';
import { formatCidr, parseCidr } from '../../net/cidr.ts';
import { type Allocation, emptyBlock } from '../../model/ip-block.ts';
import { handleOf, type NodeName } from '../../model/names.ts';
import { type Event, type Forecast, forecast } from './forecast.ts';

const never = new AbortController().signal;

interface Small {
  readonly pools: readonly { readonly bits: number; readonly blockSize: number; readonly selector: string }[];
  readonly reserved: readonly string[];
  readonly strictAffinity: boolean;
  readonly maxBlocksPerNode: number;
  /** Pods per node that were there before, some of which are gone again. */
  readonly before: readonly { readonly pods: number; readonly gone: number }[];
  readonly wants: readonly number[];
}

const small: fc.Arbitrary<Small> = fc.record({
  pools: fc.array(
    fc.record({
      bits: fc.integer({ min: 25, max: 28 }),
      blockSize: fc.integer({ min: 28, max: 30 }),
      selector: fc.constantFrom('all()', 'has(rack)', '!has(rack)'),
    }),
    { minLength: 1, maxLength: 2 },
  ),
  reserved: fc.subarray(['10.0.0.0/29', '10.0.0.16/31', '10.1.0.3/32', '10.1.0.8/30']),
  strictAffinity: fc.boolean(),
  maxBlocksPerNode: fc.constantFrom(0, 0, 1, 2),
  before: fc.array(fc.record({ pods: fc.nat(10), gone: fc.nat(10) }), { maxLength: 4 }),
  wants: fc.array(fc.nat(14), { minLength: 1, maxLength: 9 }),
});

const named = (index: number): NodeName => nodeName(`node-${String(index)}`);
const labelsOf = (index: number): Record<string, string> => (index % 3 === 0 ? { rack: 'a' } : {});

/** The cluster on a datastore, its pods assigned by ADD's own way. */
async function build({ pools, reserved, strictAffinity, maxBlocksPerNode, wants, before }: Small) {
  const store = openMemoryStore(new MemoryDatabase());
  for (const [index, { bits, blockSize, selector }] of pools.entries()) {
    const cidr = `10.${String(index)}.0.0/${String(bits)}`;
    await store.createResource(poolOf(`p${String(index)}`, cidr, { blockSize, nodeSelector: selector }), never);
  }
  await store.createResource(reservationOf('kept', reserved), never);
  await store.createResource(ipamConfigurationOf({ strictAffinity, maxBlocksPerNode }), never);
  for (let index = 0; index < Math.max(wants.length, before.length); index += 1) {
    await store.createResource(nodeOf(named(index), labelsOf(index)), never);
  }
  const ports = { store, log: silentLog, clock: virtualClock(), random: seededRandom(1) };
  /** The block's owner at the moment, or undefined when there is no address to have. */
  const addPod = async (node: NodeName, containerId: string): Promise<'own' | 'borrowed' | 'failed'> => {
    const request = {
      node,
      attachment: { network: 'net', containerId, ifName: 'eth0' },
      pod: undefined,
      pools: { 4: ANY_POOL, 6: NO_POOL },
      requested: { addresses: [], rule: 'request' },
    } as const;
    try {
      const [lease] = await assign(ports, request, { signal: never, cleanupSignal: never });
      const [block] = await store.getBlocks(lease === undefined ? [] : [lease.block], never);
      return block?.value.node === node ? 'own' : 'borrowed';
    } catch (cause) {
      if (!isNetplugError(cause, 'ipam/exhausted')) throw cause;
      return 'failed';
    }
  };
  for (const [index, { pods }] of before.entries())
    for (let pod = 0; pod < pods; pod += 1) await addPod(named(index), `old-${String(index)}-${String(pod)}`);
  for (const [index, { gone }] of before.entries()) {
    const isGone = new Set(Array.from({ length: gone }, (_, pod) => `old-${String(index)}-${String(pod)}`));
    await release(ports, { node: named(index), which: ({ containerId }) => isGone.has(containerId) }, never);
  }
  // A forecast is about later, when nothing cools down any more.
  await ports.clock.sleep(MAX_COOL_DOWN_SECONDS * 1000, never);
  return { store, addPod };
}

type Cluster = Awaited<ReturnType<typeof build>>;

async function predict({ store }: Cluster, { wants }: Small): Promise<Forecast> {
  const { pools: stored, reservations, config } = await store.readNodeView(named(0), undefined, never);
  const pools = decodePools(stored);
  const lists = new Map<string, typeof pools>();
  const nodes = wants.map((wanted, index) => {
    const nodeLabels = labelsOf(index);
    const question = { family: 4, refs: undefined, nodeLabels, use: 'Workload' } as const;
    const key = JSON.stringify(nodeLabels);
    const list = lists.get(key) ?? choosePools(pools, question).eligible;
    lists.set(key, list);
    return { name: named(index), pools: list, wants: wanted };
  });
  const { blocks } = await store.listBlocks(never);
  const question = {
    pools,
    reserved: reservedCidrs(reservations),
    config,
    blocks: blocks.map(({ value }) => value),
    nodes,
  };
  return forecast(question, never);
}

async function happen({ store, addPod }: Cluster, { wants, pools }: Small): Promise<Forecast> {
  let [placed, borrowed, failed] = [0, 0, 0];
  let firstBorrowing: Event | undefined;
  let firstFailure: Event | undefined;
  for (const [index, count] of wants.entries()) {
    for (let pod = 1; pod <= count; pod += 1) {
      const outcome = await addPod(named(index), `new-${String(index)}-${String(pod)}`);
      const event = { node: named(index), nodeNumber: index + 1, addressNumber: pod };
      if (outcome === 'failed') firstFailure ??= event;
      if (outcome === 'borrowed') firstBorrowing ??= event;
      placed += outcome === 'failed' ? 0 : 1;
      borrowed += outcome === 'borrowed' ? 1 : 0;
      failed += outcome === 'failed' ? 1 : 0;
    }
  }
  const { blocks } = await store.listBlocks(never);
  const blocksUsed = new Map(
    pools.map((_, index) => [
      `p${String(index)}`,
      blocks.filter(({ value }) => formatCidr(value.cidr).startsWith(`10.${String(index)}.`)).length,
    ]),
  );
  return { blocksUsed, placed, borrowed, failed, firstBorrowing, firstFailure };
}

describe('forecast', { timeout: 120_000 }, () => {
  it('predicts for small clusters what the planner then does, pod by pod', async () => {
    await fc.assert(
      fc.asyncProperty(small, async (cluster) => {
        const built = await build(cluster);
        const said = await predict(built, cluster);
        expect(said).toEqual(await happen(built, cluster));
      }),
      { numRuns: 150 },
    );
  });

  it('borrows from the block with most free addresses, whose owner may then have to borrow itself', async () => {
    const cluster: Small = {
      pools: [{ bits: 27, blockSize: 28, selector: 'all()' }],
      reserved: [],
      strictAffinity: false,
      maxBlocksPerNode: 0,
      before: [
        { pods: 0, gone: 0 },
        { pods: 11, gone: 0 },
        { pods: 10, gone: 0 },
      ],
      wants: [1, 0, 6],
    };
    const built = await build(cluster);
    const said = await predict(built, cluster);
    expect(said).toEqual(await happen(built, cluster));
    expect(said).toMatchObject({ placed: 7, borrowed: 2 });
  });

  it('agrees with the planner where blocks of other nodes are read in batches, most free addresses first', async () => {
    const cluster: Small = {
      pools: [{ bits: 22, blockSize: 31, selector: 'all()' }],
      reserved: [],
      strictAffinity: false,
      maxBlocksPerNode: 0,
      before: [],
      wants: [40, 3],
    };
    const built = await build(cluster);
    const [pool] = (await built.store.readNodeView(named(0), undefined, never)).pools;
    // All but the last are claimed; up to the 241st they are full, and the 300th is the only one that is empty.
    const seed = Array.from({ length: 511 }, (_, index): Change => {
      const owner = named(100 + index);
      const cidr = parseCidr(`10.0.${String(index >> 7)}.${String((index & 127) * 2)}/31`);
      const taken = index < 241 ? [0, 1] : index === 300 ? [] : [0];
      const block = taken.reduce(
        (draft, slot) => takeSlot(draft, slot, holderOn(owner, slot)),
        emptyBlock(cidr, owner),
      );
      return { kind: 'create-block', block, pool: pool! };
    });
    expect(await built.store.commit(seed, never)).toBe('committed');
    const said = await predict(built, cluster);
    expect(said).toEqual(await happen(built, cluster));
    expect(said).toMatchObject({ placed: 43, borrowed: 39, failed: 0 });
  });
});

function holderOn(node: NodeName, slot: number): Allocation {
  const attachment = { network: 'net', containerId: `seed-${String(slot)}`, ifName: 'eth0' };
  const id = `${node}-${String(slot)}`;
  return { id, handle: handleOf(attachment), node, ...attachment, at: '2026-01-01T00:00:00Z', chosenBy: 'netconf' };
}
