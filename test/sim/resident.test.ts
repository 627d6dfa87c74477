import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { attachmentFindings } from '../../src/apps/ctl/ipam/attachment-findings.ts';
import { seededRandom } from '../../src/base/random.ts';
import { type MemoryBackup, MemoryDatabase, UNREADABLE } from '../../src/datastore/memory/memory-database.ts';
import { openMemoryStore } from '../../src/datastore/memory/memory-store.ts';
import { newCluster } from '../../src/datastore/keep-cluster-information.ts';
import { blockFaults, type HeldAddress, heldAddresses, type IpBlock } from '../../src/model/ip-block.ts';
import { interfaceKey } from '../../src/model/names.ts';
import { formatAddress, sameAddress } from '../../src/net/address.ts';
import { SIZES } from '../runs.ts';
import { ipamConfigurationOf, poolOf } from '../support/fixtures.ts';
import { type Cluster, type Death, FileLocks, SimulatedNode } from '../support/simulated-node.ts';
import { inSimulatedTime, jumpWallClock } from '../support/simulated-time.ts';

const CONTAINERS = ['a', 'b', 'c', 'd', 'e', 'f', 'g'];
const START_MS = Date.parse('2026-01-01T00:00:00Z');
/** How often a call is repeated that a runtime would repeat. */
const TRIES = 40;
const never = new AbortController().signal;

type Op =
  | { readonly kind: 'add'; readonly dies: Death }
  | { readonly kind: 'jump'; readonly byMs: number }
  | { readonly kind: 'remove' | 'start' | 'kill' | 'stop' | 'away' | 'back' | 'wait' | 'back-up' | 'restore' };
interface Step {
  readonly node: 0 | 1;
  readonly container: string;
  readonly spelling: 0 | 1;
  readonly op: Op;
  /** The next step does not wait for this one. */
  readonly isParallel: boolean;
}
interface Script {
  readonly seed: number;
  readonly steps: readonly Step[];
}

const add = (dies: Death): Op => ({ kind: 'add', dies });
const op: fc.Arbitrary<Op> = fc.oneof(
  { weight: 8, arbitrary: fc.constant(add('never')) },
  { weight: 2, arbitrary: fc.constantFrom(add('after-commit'), add('before-link'), add('after-link')) },
  { weight: 6, arbitrary: fc.constant<Op>({ kind: 'remove' }) },
  { weight: 4, arbitrary: fc.constant<Op>({ kind: 'start' }) },
  {
    weight: 5,
    arbitrary: fc.constantFrom<Op>(
      { kind: 'kill' },
      { kind: 'stop' },
      { kind: 'away' },
      { kind: 'back' },
      { kind: 'wait' },
      { kind: 'jump', byMs: -86_400_000 },
      { kind: 'jump', byMs: 86_400_000 },
    ),
  },
);
const restoring: fc.Arbitrary<Op> = fc.oneof(
  { weight: 6, arbitrary: op },
  { weight: 1, arbitrary: fc.constantFrom<Op>({ kind: 'back-up' }, { kind: 'restore' }) },
);

function scripts(ops: fc.Arbitrary<Op>): fc.Arbitrary<Script> {
  const step = fc.record({
    node: fc.constantFrom<0 | 1>(0, 1),
    container: fc.constantFrom(...CONTAINERS),
    spelling: fc.constantFrom<0 | 1>(0, 1),
    op: ops,
    isParallel: fc.boolean(),
  });
  return fc.record({ seed: fc.nat(), steps: fc.array(step, { minLength: 4, maxLength: 30 }) });
}

function blocksOf({ database }: Pick<Cluster, 'database'>): IpBlock[] {
  return [...database.state().blocks.values()].map(({ value }) => {
    if (value === UNREADABLE) throw new Error('unreadable block');
    return value;
  });
}

const heldIn = (cluster: Cluster): HeldAddress[] => blocksOf(cluster).flatMap((block) => heldAddresses(block));

async function after(ms: number): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, ms));
}

/** A signal of simulated time. */
function timeout(ms: number): AbortSignal {
  const over = new AbortController();
  setTimeout(() => over.abort(new DOMException('timed out', 'TimeoutError')), ms);
  return over.signal;
}

class Simulation {
  readonly cluster: Cluster;
  readonly nodes: readonly SimulatedNode[];
  #backup: MemoryBackup | undefined;

  constructor(folder: string, { seed }: Script, commits: Cluster['commits']) {
    this.cluster = {
      database: new MemoryDatabase(),
      locks: new FileLocks(),
      folder,
      random: seededRandom(seed),
      isStoreAway: false,
      hasRestored: false,
      commits,
      inUse: new Map(),
      course: [],
    };
    this.nodes = ['n0', 'n1'].map((name) => new SimulatedNode(this.cluster, name));
  }

  async seed(): Promise<void> {
    const store = openMemoryStore(this.cluster.database, { random: this.cluster.random });
    const cluster = newCluster();
    for (const resource of [
      poolOf('v4', '10.0.0.0/27', { blockSize: 29 }),
      ipamConfigurationOf({}),
      { ...cluster, spec: { ...cluster.spec, clusterGUID: 'simulated' } },
    ])
      await store.createResource(resource, never);
    this.#backup = this.cluster.database.backUp();
  }

  async carryOut(steps: readonly Step[]): Promise<void> {
    const lanes = new Map<string, Promise<void>>();
    for (const step of steps) {
      const lane = `${String(step.node)}/${step.container}`;
      // A runtime calls for one container one after the other.
      const work = (lanes.get(lane) ?? Promise.resolve()).then(async () => this.#act(step));
      lanes.set(lane, work);
      if (!step.isParallel) await Promise.race([work, after(300)]);
    }
    await Promise.race([Promise.all(lanes.values()), after(20_000)]);
  }

  async #act({ node: index, container, spelling, op: { kind, ...more } }: Step): Promise<void> {
    const node = this.nodes[index]!;
    // The runtime repeats a call that waits for a dead agent, or gives up.
    const signal = timeout(10_000);
    const giveUp = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
    const unlessLate = (cause: unknown): void => {
      if (!signal.aborted) throw cause;
    };
    this.cluster.course.push(`${node.name} ${kind} ${container} at ${String(performance.now())}`);
    switch (kind) {
      case 'add': {
        const dies = 'dies' in more ? more.dies : 'never';
        return Promise.race([
          node.add(container, dies, { spelling, signal }).then(() => undefined, unlessLate),
          giveUp,
        ]);
      }
      case 'remove':
        return Promise.race([node.remove(container, { spelling, signal }).then(() => undefined, unlessLate), giveUp]);
      case 'start':
        if (!node.hasAgent) node.startAgent();
        break;
      case 'kill':
        node.killAgent();
        break;
      case 'stop':
        await Promise.race([node.stopAgent(timeout(200)), giveUp]);
        break;
      case 'away':
        this.cluster.isStoreAway = true;
        break;
      case 'back':
        this.cluster.isStoreAway = false;
        break;
      case 'wait':
        await after(60);
        break;
      case 'jump':
        jumpWallClock('byMs' in more ? more.byMs : 0);
        break;
      case 'back-up':
        this.#backup = this.cluster.database.backUp();
        break;
      case 'restore':
        if (this.#backup === undefined) break;
        this.cluster.hasRestored = true;
        this.cluster.database.restore(this.#backup);
        break;
    }
  }

  /** Every node has an agent that has seen the datastore as it is. */
  async settle(): Promise<void> {
    this.cluster.isStoreAway = false;
    for (const node of this.nodes) {
      node.killAgent();
      node.startAgent();
      await this.#untilDone(async (signal) => node.add('last', 'never', { spelling: 0, signal }));
    }
    for (const node of this.nodes) await node.stopAgent(timeout(60_000));
  }

  async removeAll(): Promise<void> {
    for (const node of this.nodes) {
      for (const container of [...CONTAINERS, 'last'])
        await this.#untilDone(async (signal) => node.remove(container, { spelling: 1, signal }));
    }
  }

  async #untilDone(call: (signal: AbortSignal) => Promise<boolean>): Promise<void> {
    for (let attempt = 0; attempt < TRIES; attempt += 1) {
      const signal = timeout(60_000);
      if (await call(signal)) return;
      await after(500);
    }
    throw new Error('a call did not succeed although nothing is in its way');
  }
}

function expectSound({ cluster, nodes }: Pick<Simulation, 'cluster' | 'nodes'>): void {
  const held = heldIn(cluster);
  const texts = held.map(({ address }) => formatAddress(address));
  expect(new Set(texts).size, 'an address is held twice').toBe(texts.length);
  for (const block of blocksOf(cluster)) expect(blockFaults(block)).toEqual([]);
  for (const node of nodes) {
    for (const { address, owner } of node.living) {
      const holder = held.find((each) => sameAddress(each.address, address))?.allocation;
      const isOwn = holder?.node === node.name && interfaceKey(holder) === interfaceKey(owner);
      const isReported = node.reported.some((line) => line.endsWith(` ${formatAddress(address)}`));
      expect(
        isOwn || (cluster.hasRestored && isReported),
        `${node.name}/${owner.containerId} uses ${formatAddress(address)}, which no block records for it`,
      ).toBe(true);
    }
  }
  const leaked = held.filter(
    ({ allocation }) =>
      !nodes.some(
        ({ name, living }) =>
          name === allocation.node && living.some(({ owner }) => interfaceKey(owner) === interfaceKey(allocation)),
      ),
  );
  const listed = new Set(findingsOf({ cluster, nodes }).map(({ subject }) => subject));
  for (const { address } of leaked)
    expect(listed, 'a leaked address that no check lists').toContain(formatAddress(address));
}

/** What "netplugctl ipam check" says on each node. */
function findingsOf({ cluster, nodes }: Pick<Simulation, 'cluster' | 'nodes'>): ReturnType<typeof attachmentFindings> {
  const endpoints = [...cluster.database.state().endpoints.values()].flatMap(({ value, version }) =>
    value === UNREADABLE ? [] : { value, version },
  );
  return nodes.flatMap(({ name, living }) =>
    attachmentFindings({
      blocks: blocksOf(cluster),
      endpoints,
      pools: [],
      nodes: undefined,
      unreadable: [],
      local: {
        nodes: new Set([name]),
        attached: new Set(),
        used: new Set(),
        unconnected: [],
        running: [],
        delegated: { networks: [], leaked: [], reserved: new Set() },
        links: living.map(({ owner }, index) => ({
          name: `npl${owner.containerId}`,
          index,
          mac: 'ee:ee:ee:ee:ee:ee' as never,
          mtu: 1500,
          isUp: true,
          owner,
          addresses: [],
        })),
      },
      nowMs: Date.now() + 10 * 86_400_000,
      graceMs: 0,
    }),
  );
}

/** Carries a script out and returns its course. */
async function simulate(script: Script, commits: Cluster['commits']): Promise<readonly string[]> {
  const folder = mkdtempSync(join(tmpdir(), 'netplug-sim-'));
  try {
    return await inSimulatedTime(START_MS, async () => {
      const simulation = new Simulation(folder, script, commits);
      const { cluster } = simulation;
      await simulation.seed();
      await simulation.carryOut(script.steps);
      await simulation.settle();
      expectSound(simulation);
      await simulation.removeAll();
      expect(heldIn(cluster)).toEqual([]);
      expect(
        blocksOf(cluster).flatMap(({ preallocated }) => [...preallocated]),
        'orphaned pre-allocated addresses',
      ).toEqual([]);
      expect([...cluster.database.state().endpoints.values()]).toEqual([]);
      return cluster.course;
    });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const numRuns = SIZES.simulations / 4;

describe('a node under kills, timeouts, clock jumps, two spellings and an unavailable datastore', () => {
  it.each(['at once', 'in pieces'] as const)(
    'never assigns one address to two pods, records what it answered, and leaves nothing behind, whether it is written %s',
    async (commits) => {
      await fc.assert(
        fc.asyncProperty(scripts(op), async (script) => void (await simulate(script, commits))),
        { numRuns },
      );
    },
  );

  it('assigns no two pods of a node the same address, and reports duplicates of two nodes, when backups are restored', async () => {
    await fc.assert(
      fc.asyncProperty(scripts(restoring), async (script) => void (await simulate(script, 'at once'))),
      { numRuns },
    );
  });

  it('takes the same course for the same seed', async () => {
    await fc.assert(
      fc.asyncProperty(scripts(restoring), async (script) => {
        expect(await simulate(script, 'in pieces')).toEqual(await simulate(script, 'in pieces'));
      }),
      { numRuns: Math.max(1, numRuns / 20) },
    );
  });
});
