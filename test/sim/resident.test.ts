import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MemoryDatabase, UNREADABLE } from '../../src/datastore/memory/memory-database.ts';
import { openMemoryStore } from '../../src/datastore/memory/memory-store.ts';
import { blockFaults, heldAddresses, type IpBlock } from '../../src/model/ip-block.ts';
import { formatAddress } from '../../src/net/address.ts';
import { ipamConfigurationOf, poolOf } from '../support/fixtures.ts';
import { type Cluster, FileLocks, SimulatedNode } from '../support/simulated-node.ts';

type Op =
  | { readonly kind: 'add'; readonly dies: 'never' | 'before-link' | 'after-link' }
  | { readonly kind: 'remove' | 'start' | 'kill' | 'stop' | 'away' | 'back' | 'wait' };
interface Step {
  readonly node: 0 | 1;
  readonly container: string;
  readonly op: Op;
  /** The next step does not wait for this one. */
  readonly isParallel: boolean;
}

const add = (dies: 'never' | 'before-link' | 'after-link'): Op => ({ kind: 'add', dies });
const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.record({
    node: fc.constantFrom(0, 1),
    container: fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f', 'g'),
    op: fc.oneof(
      { weight: 8, arbitrary: fc.constant(add('never')) },
      { weight: 2, arbitrary: fc.constantFrom(add('before-link'), add('after-link')) },
      { weight: 6, arbitrary: fc.constant<Op>({ kind: 'remove' }) },
      { weight: 4, arbitrary: fc.constant<Op>({ kind: 'start' }) },
      {
        weight: 4,
        arbitrary: fc.constantFrom<Op>(
          { kind: 'kill' },
          { kind: 'stop' },
          { kind: 'away' },
          { kind: 'back' },
          { kind: 'wait' },
        ),
      },
    ),
    isParallel: fc.boolean(),
  }),
  { minLength: 4, maxLength: 30 },
);

function blocksOf({ database }: Cluster): IpBlock[] {
  return [...database.state().blocks.values()].map(({ value }) => {
    if (value === UNREADABLE) throw new Error('unreadable block');
    return value;
  });
}

async function carryOut(cluster: Cluster, nodes: readonly SimulatedNode[], script: readonly Step[]): Promise<void> {
  const lanes = new Map<string, Promise<void>>();
  for (const { node: index, container, op, isParallel } of script) {
    const node = nodes[index]!;
    const lane = `${String(index)}/${container}`;
    // A runtime calls for one container one after the other.
    const work = (lanes.get(lane) ?? Promise.resolve()).then(async () => act(cluster, { node, container, op }));
    lanes.set(lane, work);
    if (!isParallel) await Promise.race([work, after(300)]);
  }
  await Promise.race([Promise.all(lanes.values()), after(1500)]);
}

async function act(
  cluster: Cluster,
  { node, container, op }: { node: SimulatedNode; container: string; op: Op },
): Promise<void> {
  // Whoever waits for a dead agent is served again by the runtime or gives up.
  const signal = AbortSignal.timeout(1000);
  const giveUp = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
  switch (op.kind) {
    case 'add':
      return Promise.race([node.add(container, op.dies, signal).catch(unlessLate(signal)), giveUp]);
    case 'remove':
      return Promise.race([node.remove(container, signal).catch(unlessLate(signal)), giveUp]);
    case 'start':
      if (node.agent === undefined) node.startAgent();
      break;
    case 'kill':
      node.killAgent();
      break;
    case 'stop':
      await Promise.race([node.stopAgent(AbortSignal.timeout(200)), giveUp]);
      break;
    case 'away':
      cluster.isStoreAway = true;
      break;
    case 'back':
      cluster.isStoreAway = false;
      break;
    case 'wait':
      await after(60);
      break;
  }
}

function unlessLate(signal: AbortSignal): (cause: unknown) => void {
  return (cause) => {
    if (!signal.aborted) throw cause;
  };
}

async function after(ms: number): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, ms));
}

function expectSound(cluster: Cluster): void {
  const held = blocksOf(cluster).flatMap((block) => heldAddresses(block));
  const texts = held.map(({ address }) => formatAddress(address));
  expect(new Set(texts).size, 'an address is held twice').toBe(texts.length);
  for (const block of blocksOf(cluster)) expect(blockFaults(block)).toEqual([]);
}

describe('the resident store under kills, time-outs and an absent datastore', () => {
  it.each(['at once', 'in pieces'] as const)(
    'never tells two pods the same address, records what it told, and leaves nothing behind, whether it is written %s',
    async (commits) => {
      await fc.assert(
        fc.asyncProperty(steps, async (script) => {
          const folder = await mkdtemp(join(tmpdir(), 'netplug-sim-'));
          try {
            const database = new MemoryDatabase();
            const signal = AbortSignal.timeout(60_000);
            const quiet = openMemoryStore(database);
            for (const resource of [poolOf('v4', '10.0.0.0/27', { blockSize: 29 }), ipamConfigurationOf({})])
              await quiet.createResource(resource, signal);
            const cluster: Cluster = {
              database,
              locks: new FileLocks(),
              folder,
              isStoreAway: false,
              commits,
              inUse: new Map(),
            };
            const nodes = ['n0', 'n1'].map((name) => new SimulatedNode(cluster, name));
            await carryOut(cluster, nodes, script);

            cluster.isStoreAway = false;
            for (const node of nodes) {
              node.killAgent();
              node.startAgent();
              await node.add('last', 'never', signal);
              await node.stopAgent(signal);
            }
            expectSound(cluster);
            const recorded = new Set(
              blocksOf(cluster).flatMap((block) => heldAddresses(block).map(({ address }) => formatAddress(address))),
            );
            const told = [...cluster.inUse.values()].flat();
            expect(
              told.filter((address) => !recorded.has(address)),
              'a pod uses an address that no block records',
            ).toEqual([]);

            for (const node of nodes) {
              for (const container of ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'last']) await node.remove(container, signal);
            }
            expect(blocksOf(cluster).flatMap((block) => heldAddresses(block))).toEqual([]);
            expect(
              blocksOf(cluster).flatMap(({ stock }) => [...stock]),
              'stock of nobody',
            ).toEqual([]);
            expect([...database.state().endpoints.values()]).toEqual([]);
          } finally {
            await rm(folder, { recursive: true, force: true });
          }
        }),
        { numRuns: Number(process.env['NETPLUG_SIM_RUNS'] ?? 400) / 10 },
      );
    },
  );
});
