import { fstatSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { type Clock, systemClock } from '../../base/clock.ts';
import { NetplugError } from '../../base/errors.ts';
import { silentLog } from '../../base/log.ts';
import { systemRandom } from '../../base/random.ts';
import { MemoryDatabase } from '../../datastore/memory/memory-database.ts';
import { type StoreFault, openMemoryStore, type Operation } from '../../datastore/memory/memory-store.ts';
import type { Store } from '../../datastore/store.ts';
import type { FollowEvent } from '../../datastore/follow.ts';
import { assign } from '../assign.ts';
import { ipamConfigurationOf, nodeName, poolOf } from '../../../test/support/fixtures.ts';
import { requestOf } from '../../../test/support/ipam-bench.ts';
import { overriding } from '../../../test/support/overriding.ts';
import { until } from '../../../test/support/until.ts';
import { callStore } from './call-store.ts';
import { datastoreIdOf } from './datastore-id.ts';
import { ResidentNode } from './resident-node.ts';

const NODE = nodeName('n1');
const never = new AbortController().signal;

/** Factor by which the clock of the node runs faster than the clock of the machine. */
const SPEED = 20;
const MINUTE_MS = 60_000;
const fastClock: Clock = {
  now: () => systemClock.now(),
  monotonic: () => systemClock.monotonic() * SPEED,
  sleep: async (ms, signal) => systemClock.sleep(ms / SPEED, signal),
};

const ends: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

/** A node with one pod and pre-allocated addresses, on a datastore that counts its requests. */
class Bench {
  readonly counts = new Map<Operation, number>();
  readonly node: ResidentNode;
  /** Returns the fault of an operation from now on. */
  fault: (operation: Operation) => StoreFault | undefined = () => undefined;
  /** Whether the datastore lists, and refuses the watch that follows. */
  isWatchRefused = false;

  private constructor(database: MemoryDatabase, folder: string) {
    const store = openMemoryStore(database, {
      pause: async (operation) => {
        this.counts.set(operation, (this.counts.get(operation) ?? 0) + 1);
        await Promise.resolve();
      },
      fault: (operation) => this.fault(operation),
    });
    const ports = {
      clock: fastClock,
      random: systemRandom,
      log: silentLog,
      place: { folder, tryLock: (fd: number) => fstatSync(fd).isFile() },
      host: { machine: 'm', boot: 'b' },
      listAttached: () => new Set<string>(),
      listAddressesInUse: async () => Promise.resolve([]),
      onJournalWait: () => undefined,
      onWritten: () => undefined,
    };
    const datastore = datastoreIdOf('kvv3', 'one');
    const watched = overriding(store, { follow: (...asked) => this.#watch(store, ...asked) });
    this.node = new ResidentNode(watched, ports, { datastore, node: NODE, warmPoolFloor: () => 4 });
  }

  static async start(): Promise<Bench> {
    const database = new MemoryDatabase();
    const plain = openMemoryStore(database);
    await plain.createResource(poolOf('v4', '10.0.0.0/24', { blockSize: 26 }), never);
    await plain.createResource(ipamConfigurationOf({ strictAffinity: false }), never);
    const folder = await mkdtemp(join(tmpdir(), 'netplug-refused-'));
    const bench = new Bench(database, folder);
    ends.push(async () => {
      bench.fault = () => undefined;
      await bench.node.end();
      await rm(folder, { recursive: true, force: true });
    });
    await bench.add('first');
    await until(
      () => bench.node.state.blocks.some(({ preallocated }) => preallocated >= 4),
      'addresses are pre-allocated',
    );
    return bench;
  }

  async add(container: string): Promise<void> {
    const store = callStore(
      { inner: this.node.inner, resolve: async () => Promise.resolve(this.node) },
      async (_phase, work) => work(),
    );
    const ports = { store, clock: fastClock, random: systemRandom, log: silentLog };
    await assign(ports, requestOf(container, { node: NODE }), { signal: never, cleanupSignal: never });
  }

  /** Returns how often the operation is requested within a minute of the node's clock, which must be `atLeast` in the end. */
  async duringMinute(operation: Operation, { atLeast }: { readonly atLeast: number }): Promise<number> {
    const count = (): number => this.counts.get(operation) ?? 0;
    this.counts.clear();
    await fastClock.sleep(MINUTE_MS, never);
    const counted = count();
    // On a busy machine, the node may have done less within the minute.
    await until(() => count() >= atLeast, `${operation} is requested ${String(atLeast)} times`);
    return counted;
  }

  async *#watch(store: Store, ...asked: Parameters<Store['follow']>): AsyncGenerator<FollowEvent> {
    for await (const event of store.follow(...asked)) {
      yield event;
      if (this.isWatchRefused) {
        throw new NetplugError('store/refused', 'Cannot watch: the user has no rights', { hint: 'None' });
      }
    }
  }
}

describe('a resident node whose datastore goes on refusing', () => {
  it('tries a write less than 20 times a minute, and again until it succeeds', async () => {
    const bench = await Bench.start();
    bench.fault = (operation) => (operation === 'commit' ? { kind: 'refused' } : undefined);
    await bench.add('a');
    expect(await bench.duringMinute('commit', { atLeast: 6 })).toBeLessThan(20);
    bench.fault = () => undefined;
    await until(() => bench.node.state.waiting === 0, 'the address is written');
  });

  it('tries a write that always finds a conflict less than 150 times a minute', async () => {
    const bench = await Bench.start();
    bench.fault = (operation) => (operation === 'commit' ? { kind: 'conflict' } : undefined);
    await bench.add('a');
    expect(await bench.duringMinute('commit', { atLeast: 21 })).toBeLessThan(150);
  });

  it('lists the node less than 20 times a minute while it may list and not watch', async () => {
    const bench = await Bench.start();
    bench.isWatchRefused = true;
    // Whatever changes is told, and refused after that.
    await bench.add('a');
    await until(() => bench.node.state.problem !== undefined, 'the watch is lost');
    expect(await bench.duringMinute('follow', { atLeast: 4 })).toBeLessThan(20);
  });
});
