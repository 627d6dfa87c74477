// A commit without transactions is visible for a while, and then taken back.
import { fstatSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../base/clock.ts';
import { NetplugError } from '../../base/errors.ts';
import { silentLog } from '../../base/log.ts';
import { systemRandom } from '../../base/random.ts';
import { MemoryDatabase } from '../../datastore/memory/memory-database.ts';
import { openMemoryStore } from '../../datastore/memory/memory-store.ts';
import type { Change, Outcome } from '../../datastore/allocation-store.ts';
import type { Store } from '../../datastore/store.ts';
import type { FollowEvent, FollowOptions, Query } from '../../datastore/follow.ts';
import { assign } from '../assign.ts';
import { heldAddresses } from '../../model/ip-block.ts';
import { handleOf } from '../../model/names.ts';
import { formatAddress, parseAddress } from '../../net/address.ts';
import { formatCidr } from '../../net/cidr.ts';
import { ipamConfigurationOf, nodeName, poolOf } from '../../../test/support/fixtures.ts';
import { attachmentOf, requestOf } from '../../../test/support/ipam-bench.ts';
import { overriding } from '../../../test/support/overriding.ts';
import { piecewiseStore } from '../../../test/support/piecewise-store.ts';
import { PATIENCE_MS, until } from '../../../test/support/until.ts';
import { callStore } from './call-store.ts';
import { datastoreIdOf } from './datastore-id.ts';
import { ResidentNode } from './resident-node.ts';

const NODE = nodeName('n1');
const FIRST = '10.0.0.0/26';
const SECOND = 'fd00::/122';
const never = new AbortController().signal;

const ends: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

/** A node with a block of each family on a datastore that writes one block after the other. */
class Bench {
  readonly plain: Store;
  readonly node: ResidentNode;
  /** Runs before the second block of a commit is written. */
  betweenBlocks: (() => Promise<void>) | undefined;
  /** The watch that runs says nothing more of the first block. */
  isFirstHeldBack = false;
  /** Number of times that the watch has told of the first block. */
  shown = 0;
  /** Whether the datastore becomes unavailable with the commit that claims a block. */
  isLostAfterClaim = false;
  isUnavailable = false;
  #watches = 0;

  private constructor(database: MemoryDatabase, folder: string) {
    this.plain = openMemoryStore(database);
    const store = overriding(this.plain, { commit: async (changes, limit) => this.#commit(changes, limit) });
    const watched = overriding(piecewiseStore(store), {
      readNodeView: async (...asked) => {
        this.#assertAvailable();
        return this.plain.readNodeView(...asked);
      },
      follow: (...asked) => this.#watch(...asked),
    });
    const ports = {
      clock: systemClock,
      random: systemRandom,
      log: silentLog,
      place: { folder, tryLock: (fd: number) => fstatSync(fd).isFile() },
      host: { machine: 'm', boot: 'b' },
      listAttached: () => new Set<string>(),
      listAddressesInUse: async () => Promise.resolve([]),
      onJournalWait: () => undefined,
      onWritten: () => undefined,
    };
    const datastore = datastoreIdOf('orch', 'one');
    this.node = new ResidentNode(watched, ports, { datastore, node: NODE, warmPoolFloor: () => 4 });
  }

  static async start(...more: readonly Parameters<Store['createResource']>[0][]): Promise<Bench> {
    const database = new MemoryDatabase();
    const folder = await mkdtemp(join(tmpdir(), 'netplug-undone-'));
    const bench = new Bench(database, folder);
    ends.push(async () => {
      await bench.node.end();
      await rm(folder, { recursive: true, force: true });
    });
    await bench.plain.createResource(poolOf('v4', FIRST), never);
    await bench.plain.createResource(poolOf('v6', SECOND), never);
    for (const resource of more) await bench.plain.createResource(resource, never);
    await bench.plain.createResource(ipamConfigurationOf({ strictAffinity: false }), never);
    await bench.add('first', []);
    await until(() => bench.node.state.waiting === 0, 'it is written');
    return bench;
  }

  async add(
    container: string,
    addresses: readonly string[],
    { families = '46', signal = never }: { readonly families?: '4' | '46'; readonly signal?: AbortSignal } = {},
  ): Promise<string[]> {
    const store = callStore(
      { inner: this.node.inner, resolve: async () => Promise.resolve(this.node) },
      async (_phase, work) => work(),
    );
    const ports = { store, clock: systemClock, random: systemRandom, log: silentLog };
    const request = {
      ...requestOf(container, { node: NODE, families }),
      requested: { addresses: addresses.map(parseAddress), rule: 'request' as const },
    };
    const assigned = await assign(ports, request, { signal, cleanupSignal: signal });
    return assigned.map(({ address }) => formatAddress(address));
  }

  /** Returns the addresses that the datastore holds for the container. */
  async heldBy(container: string): Promise<string[]> {
    const { blocks } = await this.plain.listBlocks(never);
    const handle = handleOf(attachmentOf(container));
    const held = blocks.flatMap(({ value }) => heldAddresses(value, (allocation) => allocation.handle === handle));
    return held.map(({ address }) => formatAddress(address));
  }

  /** Another writer changes the block. */
  async touch(cidr: string): Promise<void> {
    const { blocks } = await this.plain.listBlocks(never);
    const before = blocks.find(({ value }) => formatCidr(value.cidr) === cidr)!;
    await this.plain.commit([{ kind: 'update-block', before, operations: [] }], never);
  }

  async #commit(changes: readonly Change[], signal: AbortSignal): Promise<Outcome> {
    this.#assertAvailable();
    const [change] = changes;
    const isSecond = change?.kind === 'update-block' && formatCidr(change.before.value.cidr) === SECOND;
    const between = this.betweenBlocks;
    if (isSecond && between !== undefined) {
      this.betweenBlocks = undefined;
      await between();
    }
    this.isUnavailable ||= this.isLostAfterClaim && changes.some(({ kind }) => kind === 'create-block');
    return this.plain.commit(changes, signal);
  }

  #assertAvailable(): void {
    if (this.isUnavailable) throw new NetplugError('store/unavailable', 'The datastore is unavailable');
  }

  async *#watch(queries: readonly Query[], options: FollowOptions): AsyncGenerator<FollowEvent> {
    const watch = (this.#watches += 1);
    this.#assertAvailable();
    for await (const event of this.plain.follow(queries, options)) {
      this.#assertAvailable();
      const isFirst =
        event.kind === 'changes' && event.records.some(({ kind, key }) => kind === 'block' && key === FIRST);
      if (isFirst && this.isFirstHeldBack && watch === 1) continue;
      yield event;
      if (isFirst) this.shown += 1;
    }
  }
}

describe('an agent whose watch still shows a write that was taken back', () => {
  it('returns no address to a pod before the datastore records it', async () => {
    const bench = await Bench.start();
    const before = bench.shown;
    bench.betweenBlocks = async (): Promise<void> => {
      await until(() => bench.shown > before, 'the watch shows the first block as written');
      // From here on the watch lags: it shows the first block as written, and not as taken back.
      bench.isFirstHeldBack = true;
      await bench.touch(SECOND);
    };
    const told = await bench.add('second', ['10.0.0.60', 'fd00::3c']);
    expect(told).toEqual(['10.0.0.60', 'fd00::3c']);
    expect(bench.isFirstHeldBack).toBe(true);
    expect(await bench.heldBy('second')).toEqual(told);
  });
});

describe('a claimed block that the cache does not show yet', () => {
  const start = async (): Promise<Bench> => {
    const bench = await Bench.start(poolOf('more', '10.1.0.0/26', { nodeSelector: "zone == 'other'" }));
    bench.isLostAfterClaim = true;
    return bench;
  };

  it('leaves no address behind when the caller gives up', async () => {
    const bench = await start();
    const signal = AbortSignal.timeout(200);
    await expect(bench.add('second', ['10.1.0.9'], { families: '4', signal })).rejects.toMatchObject({
      name: 'TimeoutError',
    });
    expect(await bench.heldBy('second')).toEqual(['10.1.0.9']);
    // By now the cache was awaited in vain.
    await sleep(800);
    bench.isUnavailable = false;
    await expect.poll(async () => bench.heldBy('second'), { timeout: PATIENCE_MS }).toEqual([]);
  });

  it('is returned to a caller that waits, and used afterwards', async () => {
    const bench = await start();
    expect(await bench.add('second', ['10.1.0.9'], { families: '4' })).toEqual(['10.1.0.9']);
    bench.isUnavailable = false;
    expect(await bench.add('third', ['10.1.0.10'], { families: '4' })).toEqual(['10.1.0.10']);
    expect(await bench.heldBy('second')).toEqual(['10.1.0.9']);
    expect(await bench.heldBy('third')).toEqual(['10.1.0.10']);
  });
});
