import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { virtualClock } from '../../src/base/clock.ts';
import { isNetplugError } from '../../src/base/errors.ts';
import { silentLog } from '../../src/base/log.ts';
import { seededRandom } from '../../src/base/random.ts';
import { MemoryDatabase } from '../../src/datastore/memory/memory-database.ts';
import { type StoreFault, openMemoryStore } from '../../src/datastore/memory/memory-store.ts';
import { assign, type IpamPorts } from '../../src/ipam/assign.ts';
import { release } from '../../src/ipam/release.ts';
import { blockFaults, heldAddresses, type IpBlock } from '../../src/model/ip-block.ts';
import { handleOf } from '../../src/model/names.ts';
import { formatAddress } from '../../src/net/address.ts';
import { cidrContains, cidrsOverlap, parseCidr } from '../../src/net/cidr.ts';
import { SIZES } from '../runs.ts';
import { ipamConfigurationOf, nodeName, poolOf } from '../support/fixtures.ts';
import { attachmentOf, requestOf } from '../support/ipam-bench.ts';

/** Roomy: a block for each node and one to spare. Tight: one block for all. */
const POOLS = {
  roomy: [poolOf('v4', '10.0.0.0/28', { blockSize: 30 }), poolOf('v6', 'fd00::/124', { blockSize: 126 })],
  tight: [poolOf('v4', '10.0.0.0/29', { blockSize: 29 }), poolOf('v6', 'fd00::/125', { blockSize: 125 })],
};
type Room = keyof typeof POOLS;

interface Op {
  readonly kind: 'add' | 'del' | 'crash';
  readonly node: string;
  readonly container: string;
  readonly families: '4' | '46';
}

const ops: fc.Arbitrary<Op[]> = fc.array(
  fc.record({
    kind: fc.constantFrom('add', 'add', 'add', 'del', 'crash'),
    node: fc.constantFrom('n1', 'n2', 'n3'),
    container: fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f'),
    families: fc.constantFrom('4', '46'),
  }),
  { minLength: 1, maxLength: 24 },
);
const faults: fc.Arbitrary<(StoreFault | undefined)[]> = fc.array(
  fc.option(
    fc.constantFrom<StoreFault>({ kind: 'conflict' }, { kind: 'unavailable-before' }, { kind: 'unavailable-after' }),
    {
      nil: undefined,
      freq: 3,
    },
  ),
  { maxLength: 40 },
);

function blocksOf(database: MemoryDatabase): IpBlock[] {
  return [...database.state().blocks.values()].map(({ value }) => {
    if (typeof value === 'symbol') throw new Error('unreadable block');
    return value;
  });
}

function expectSound(database: MemoryDatabase, room: Room): void {
  const blocks = blocksOf(database);
  const held = blocks.flatMap((block) => heldAddresses(block).map((holder) => ({ ...holder, block })));
  const texts = held.map(({ address }) => formatAddress(address));
  expect(new Set(texts).size, 'an address is held twice').toBe(texts.length);
  const perHandle = held.map(
    ({ allocation, address }) => `${allocation.node} ${allocation.handle} ${String(address.family)}`,
  );
  expect(new Set(perHandle).size, 'an attachment holds two addresses of a family').toBe(perHandle.length);
  for (const block of blocks) {
    expect(blockFaults(block)).toEqual([]);
    expect(
      POOLS[room].some(({ spec }) => cidrContains(parseCidr(spec.cidr), block.cidr)),
      'a block lies outside every pool',
    ).toBe(true);
    expect(blocks.filter((other) => cidrsOverlap(other.cidr, block.cidr))).toHaveLength(1);
  }
}

/** Runs the script, every node's calls for one container one after the other as a runtime does, all else at once. */
async function simulate(
  script: readonly Op[],
  world: { s: fc.Scheduler; faults: readonly (StoreFault | undefined)[]; strict: boolean; room: Room },
): Promise<MemoryDatabase> {
  const database = new MemoryDatabase();
  const signal = new AbortController().signal;
  const quiet = openMemoryStore(database);
  for (const resource of [...POOLS[world.room], ipamConfigurationOf({ strictAffinity: world.strict })])
    await quiet.createResource(resource, signal);

  const queue = [...world.faults];
  let seed = 1;
  const portsFor = (isCrashing: boolean): IpamPorts => {
    const store = openMemoryStore(database, {
      pause: async (operation) => {
        expectSound(database, world.room);
        // A crashed caller is never heard of again: its next effect does not happen.
        if (isCrashing && operation === 'commit') await new Promise(() => undefined);
        await world.s.schedule(Promise.resolve(), operation);
      },
      fault: (operation) => (operation === 'commit' ? queue.shift() : undefined),
    });
    return { store, clock: virtualClock(), random: seededRandom((seed += 1)), log: silentLog };
  };

  // The addresses that living attachments received.
  const answered = new Map<string, readonly string[]>();
  const lanes = new Map<string, Promise<unknown>>();
  for (const op of script) {
    const lane = `${op.node}/${op.container}`;
    const before = lanes.get(lane) ?? Promise.resolve();
    const run = async (): Promise<void> => {
      const request = { ...requestOf(op.container, { node: op.node, families: op.families }), node: nodeName(op.node) };
      const ports = portsFor(op.kind === 'crash');
      if (op.kind === 'del') {
        answered.delete(lane);
        const handle = handleOf(attachmentOf(op.container));
        await release(ports, { node: nodeName(op.node), which: (held) => held.handle === handle }, signal);
      } else if (op.kind === 'crash') {
        void assign(ports, request, { signal, cleanupSignal: signal }).catch(() => undefined);
      } else {
        const assigned = await assign(ports, request, { signal, cleanupSignal: signal });
        const addresses = assigned.map(({ address }) => formatAddress(address));
        const others = new Set([...answered].filter(([other]) => other !== lane).flatMap(([, theirs]) => theirs));
        const twice = addresses.filter((address) => others.has(address));
        if (twice.length > 0) throw new Error(`two attachments received ${twice.join(' and ')}`);
        answered.set(lane, addresses);
      }
    };
    lanes.set(
      lane,
      before.then(run).catch((cause: unknown) => {
        if (!isNetplugError(cause, 'ipam/exhausted', 'store/unavailable', 'store/conflict')) throw cause;
      }),
    );
  }
  await world.s.waitFor(Promise.all(lanes.values()));
  return database;
}

describe('the address manager under crashes, races and timeouts', () => {
  it('never assigns an address twice, keeps blocks consistent and leaves nothing after the last release', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.scheduler(),
        ops,
        fc.record({ faults, strict: fc.boolean(), room: fc.constantFrom<Room>('roomy', 'tight') }),
        async (s, script, world) => {
          const database = await simulate(script, { s, ...world });
          expectSound(database, world.room);
          const signal = new AbortController().signal;
          const ports = {
            store: openMemoryStore(database),
            clock: virtualClock(),
            random: seededRandom(0),
            log: silentLog,
          };
          for (const node of ['n1', 'n2', 'n3'])
            await release(ports, { node: nodeName(node), which: () => true }, signal);
          expect(blocksOf(database).flatMap((block) => heldAddresses(block))).toEqual([]);
          expectSound(database, world.room);
        },
      ),
      { numRuns: SIZES.simulations },
    );
  });
});
