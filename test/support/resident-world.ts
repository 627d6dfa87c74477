// A datastore in memory that counts and can be unavailable, and resident nodes on it whose kernel is a list of links.
import { fstatSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Clock, systemClock } from '../../src/base/clock.ts';
import { given } from '../../src/base/given.ts';
import { type Log, silentLog } from '../../src/base/log.ts';
import { systemRandom } from '../../src/base/random.ts';
import { MemoryDatabase, UNREADABLE } from '../../src/datastore/memory/memory-database.ts';
import { openMemoryStore, type Operation } from '../../src/datastore/memory/memory-store.ts';
import type { CallStore, Store } from '../../src/datastore/store.ts';
import { assign } from '../../src/ipam/assign.ts';
import type { AddressInUse } from '../../src/ipam/plan-assertion.ts';
import { release } from '../../src/ipam/release.ts';
import { heldAddresses, type IpBlock } from '../../src/model/ip-block.ts';
import { handleOf, interfaceKey } from '../../src/model/names.ts';
import { formatAddress, parseAddress } from '../../src/net/address.ts';
import { callStore } from '../../src/ipam/node/call-store.ts';
import { type DatastoreId, datastoreIdOf } from '../../src/ipam/node/datastore-id.ts';
import { ResidentNode } from '../../src/ipam/node/resident-node.ts';
import type { Host } from '../../src/ipam/node/run-id.ts';
import { ipamConfigurationOf, nodeName, poolOf } from './fixtures.ts';
import { attachmentOf, requestOf } from './ipam-bench.ts';

export class World {
  readonly database = new MemoryDatabase();
  readonly calls: Operation[] = [];
  isAway = false;
  readonly #ends: (() => Promise<void>)[] = [];

  store(): Store {
    return openMemoryStore(this.database, {
      pause: async (operation) => {
        if (operation !== 'follow') this.calls.push(operation);
        await Promise.resolve();
      },
      fault: () => (this.isAway ? { kind: 'unavailable-before' } : undefined),
    });
  }

  blocks(): IpBlock[] {
    return [...this.database.state().blocks.values()].flatMap(({ value }) => (value === UNREADABLE ? [] : [value]));
  }

  /** Addresses that blocks say are held. */
  held(): string[] {
    return this.blocks().flatMap((block) => heldAddresses(block).map(({ address }) => formatAddress(address)));
  }

  /** `<container> <address>` of everything that blocks say is held. */
  holders(): string[] {
    const held = this.blocks().flatMap((block) => heldAddresses(block));
    return held.map(({ address, allocation }) => `${allocation.containerId} ${formatAddress(address)}`).sort();
  }

  preallocated(): number {
    return this.blocks().reduce((sum, { preallocated }) => sum + preallocated.size, 0);
  }

  onEnd(end: () => Promise<void>): void {
    this.#ends.push(end);
  }

  async end(): Promise<void> {
    this.isAway = false;
    for (const end of this.#ends.splice(0).reverse()) await end();
  }
}

export async function worldWith(cidr: string, blockSize: number, strictAffinity = false): Promise<World> {
  const { signal } = new AbortController();
  const world = new World();
  const store = openMemoryStore(world.database);
  await store.createResource(poolOf('v4', cidr, { blockSize }), signal);
  await store.createResource(ipamConfigurationOf({ strictAffinity }), signal);
  return world;
}

export interface Resident {
  readonly node: ResidentNode;
  readonly store: CallStore;
  readonly folder: string;
  /** Links of pods, by `<containerId>/<ifName>`; an ADD through `addPod` makes one. */
  readonly links: Map<string, AddressInUse[]>;
  /** Assigns, without a link. */
  add(container: string, ip?: string): Promise<string[]>;
  /** Assigns and makes a link, as a whole ADD does. */
  addPod(container: string, pod?: string): Promise<string>;
  /** Releases, and removes the link if there is one. */
  remove(container: string): Promise<void>;
  /** Ends it as SIGKILL would: what is not published stays in the journal. */
  kill(): Promise<void>;
}

export interface ResidentOptions {
  /** The datastore; that of the world unless given. */
  readonly inner?: Store;
  readonly name?: string;
  readonly warmPoolFloor?: number | (() => number);
  /** State that outlives the agent. */
  readonly of?: Pick<Resident, 'folder' | 'links'>;
  readonly host?: Host;
  readonly datastore?: DatastoreId;
  readonly log?: Log;
  readonly clock?: Clock;
  /** Locks every journal unless given. */
  readonly tryLock?: (fd: number) => boolean;
}

export async function residentOn(
  world: World,
  {
    inner = world.store(),
    name = 'n1',
    warmPoolFloor = 4,
    of,
    host,
    datastore,
    log,
    clock = systemClock,
    tryLock = (fd: number): boolean => fstatSync(fd).isFile(),
  }: ResidentOptions = {},
): Promise<Resident> {
  const { signal } = new AbortController();
  const folder = of?.folder ?? (await mkdtemp(join(tmpdir(), 'netplug-resident-')));
  const links = of?.links ?? new Map<string, AddressInUse[]>();
  let isAlive = true;
  const node = new ResidentNode(
    inner,
    {
      clock,
      random: systemRandom,
      log: log ?? silentLog,
      host: host ?? { machine: name, boot: 'one' },
      place: { folder, tryLock },
      listAttached: () => new Set(links.keys()),
      listAddressesInUse: async () => Promise.resolve([...links.values()].flat()),
      onJournalWait: () => undefined,
      onWritten: () => undefined,
    },
    {
      datastore: datastore ?? datastoreIdOf('kvv3', 'one'),
      node: nodeName(name),
      warmPoolFloor: typeof warmPoolFloor === 'number' ? () => warmPoolFloor : warmPoolFloor,
    },
  );
  const kill = async (): Promise<void> => {
    if (!isAlive) return;
    isAlive = false;
    await node.end();
  };
  world.onEnd(async () => {
    await kill();
    await rm(folder, { recursive: true, force: true });
  });
  const store = callStore({ inner, resolve: async () => Promise.resolve(node) }, async (_phase, work) => work());
  const ports = { store, clock, random: systemRandom, log: silentLog };
  const add = async (container: string, ip?: string, pod?: string): Promise<string[]> => {
    const request = requestOf(container, { node: name, ...given({ ip, pod }) });
    const assigned = await assign(ports, request, { signal, cleanupSignal: signal });
    return assigned.map(({ address }) => formatAddress(address));
  };
  return {
    node,
    store,
    folder,
    links,
    add,
    addPod: async (container, pod) => {
      const addresses = await add(container, undefined, pod);
      const owner = attachmentOf(container);
      links.set(
        interfaceKey(owner),
        addresses.map((address) => ({ address: parseAddress(address), owner })),
      );
      return addresses.join(' ');
    },
    remove: async (container) => {
      links.delete(interfaceKey(attachmentOf(container)));
      const handle = handleOf(attachmentOf(container));
      await release(ports, { node: nodeName(name), which: (held) => held.handle === handle }, signal);
    },
    kill,
  };
}
