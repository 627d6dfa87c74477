// One node of a simulated cluster: an agent, crashes of it, and the standalone program, on one database. Its kernel is a
// set of links. Everything random comes from the cluster's seed, and time is simulated.
import { readlinkSync } from 'node:fs';
import { SerialQueue } from '../../src/base/serial-queue.ts';
import { ResidentNodes } from '../../src/apps/agent/resident-nodes.ts';
import { systemClock } from '../../src/base/clock.ts';
import { isNetplugError } from '../../src/base/errors.ts';
import { type Log, silentLog } from '../../src/base/log.ts';
import type { Random } from '../../src/base/random.ts';
import type { MemoryDatabase } from '../../src/datastore/memory/memory-database.ts';
import { openMemoryStore } from '../../src/datastore/memory/memory-store.ts';
import type { AllocationStore } from '../../src/datastore/allocation-store.ts';
import type { Store } from '../../src/datastore/store.ts';
import { assign, type AssignRequest } from '../../src/ipam/assign.ts';
import type { AddressInUse } from '../../src/ipam/plan-assertion.ts';
import { endpointOf, release } from '../../src/ipam/release.ts';
import { handleOf, interfaceKey } from '../../src/model/names.ts';
import { endpointIdOf, type WorkloadEndpoint } from '../../src/model/workload-endpoint.ts';
import { type Address, formatAddress, sameAddress } from '../../src/net/address.ts';
import type { Datastore } from '../../src/config/connection.ts';
import { callStore } from '../../src/ipam/node/call-store.ts';
import type { JournalPlace } from '../../src/ipam/node/journal.ts';
import type { Host } from '../../src/ipam/node/run-id.ts';
import { recoverBeforeCall } from '../../src/ipam/node/recover-before-call.ts';
import { nodeName } from './fixtures.ts';
import { attachmentOf, requestOf } from './ipam-bench.ts';
import { overriding } from './overriding.ts';
import { piecewiseStore } from './piecewise-store.ts';

/** The same datastore, as two configurations write it. */
const SPELLINGS = [['http://simulated'], ['http://localhost', 'http://simulated']].map((urls): Datastore => {
  const endpoints = { from: 'list', urls } as const;
  return { type: 'kvv3', connection: { endpoints, keyFile: undefined, certFile: undefined, caCertFile: undefined } };
});

/** A process: what it has locked is free when it is dead, and a dead one has no more effects. */
interface Process {
  isAlive: boolean;
  /** It dies when its next commit has been made. */
  diesAfterCommit: boolean;
}

/** Locks of files among the simulated processes. */
export class FileLocks {
  readonly #owners = new Map<string, Process>();

  tryLock(fd: number, process: Process): boolean {
    // A segment is locked before it has its name.
    const path = readlinkSync(`/proc/self/fd/${String(fd)}`).replace(/\.new$/, '');
    const owner = this.#owners.get(path);
    if (owner !== undefined && owner !== process && owner.isAlive) return false;
    this.#owners.set(path, process);
    return true;
  }
}

export interface Cluster {
  readonly database: MemoryDatabase;
  readonly locks: FileLocks;
  readonly folder: string;
  readonly random: Random;
  isStoreAway: boolean;
  /** Whether the datastore was ever put back to a backup. */
  hasRestored: boolean;
  /** Whether the datastore has transactions. */
  readonly commits: 'at once' | 'in pieces';
  /** Addresses that pods have received, by node and container. */
  readonly inUse: Map<string, readonly string[]>;
  /** What the simulation did, in order, to compare two runs of it. */
  readonly course: string[];
}

/** The moment at which the process that serves a call is killed. */
export type Death = 'never' | 'after-commit' | 'before-link' | 'after-link';

export class SimulatedNode {
  readonly #cluster: Cluster;
  readonly name: string;
  /** By `<containerId>/<ifName>`. */
  readonly #links = new Map<string, readonly AddressInUse[]>();
  /** Conflicts that were reported for this node. */
  readonly reported: string[] = [];
  #agent: { readonly process: Process; readonly nodes: ResidentNodes; readonly calls: SerialQueue } | undefined;

  constructor(cluster: Cluster, name: string) {
    this.#cluster = cluster;
    this.name = name;
  }

  get hasAgent(): boolean {
    return this.#agent !== undefined;
  }

  /** What the kernel routes to pods of the node. */
  get living(): readonly AddressInUse[] {
    return [...this.#links.values()].flat();
  }

  startAgent(): void {
    const process = { isAlive: true, diesAfterCommit: false };
    const nodes = new ResidentNodes(
      () => this.#storeFor(process),
      { ...this.#portsFor(process), onJournalWait: () => undefined, onWritten: () => undefined },
      {
        node: nodeName(this.name),
        machine: { id: this.name, runs: [this.name], hostName: this.name },
        warmPoolFloor: () => 256,
      },
    );
    nodes.get(SPELLINGS[0]!);
    this.#agent = { process, nodes, calls: new SerialQueue() };
  }

  /** As SIGKILL does: whatever it was doing ends where it was. */
  killAgent(): void {
    if (this.#agent !== undefined) this.#agent.process.isAlive = false;
    this.#agent = undefined;
  }

  async stopAgent(signal: AbortSignal): Promise<void> {
    const agent = this.#agent;
    this.#agent = undefined;
    await agent?.nodes.drain(signal);
    await agent?.nodes[Symbol.asyncDispose]();
    if (agent !== undefined) agent.process.isAlive = false;
  }

  /** Adds a pod. Returns whether it received its addresses. */
  async add(container: string, dies: Death, { spelling, signal }: CallOptions): Promise<boolean> {
    return this.#serve(container, { spelling, signal, isAdd: true }, async (store, process) => {
      process.diesAfterCommit = dies === 'after-commit';
      const ports = { store, clock: systemClock, random: this.#cluster.random, log: silentLog };
      const assigned = await assign(ports, this.#requestOf(container), { signal, cleanupSignal: signal });
      process.diesAfterCommit = false;
      // Killed while another call of it was under way: nothing more happens here.
      if (!process.isAlive) await new Promise(() => undefined);
      if (dies === 'before-link') await this.#die(process);
      const owner = attachmentOf(container);
      const mine = assigned.map(({ address }) => ({ address, owner }));
      if (this.#isUsedByOther(container, mine)) {
        // The kernel refuses the route.
        const taken = new Set(assigned.filter(({ isNew }) => isNew).map(({ allocation }) => allocation.id));
        await release(ports, { node: nodeName(this.name), which: ({ id }) => taken.has(id) }, signal);
        return false;
      }
      this.#links.set(interfaceKey(owner), mine);
      if (dies === 'after-link') await this.#die(process);
      this.#tell(container, mine);
      return true;
    });
  }

  async remove(container: string, { spelling, signal }: CallOptions): Promise<boolean> {
    return this.#serve(container, { spelling, signal, isAdd: false }, async (store) => {
      this.#links.delete(interfaceKey(attachmentOf(container)));
      this.#cluster.inUse.delete(`${this.name}/${container}`);
      const attachment = attachmentOf(container);
      const handle = handleOf(attachment);
      await release(
        { store, clock: systemClock, random: this.#cluster.random, log: silentLog },
        {
          node: nodeName(this.name),
          which: (held) => held.handle === handle,
          ...endpointOf(endpointIdOf(this.#endpointOf(container, [])), attachment),
        },
        signal,
      );
      return true;
    });
  }

  /** By the agent when there is one, otherwise by the standalone program. */
  async #serve(
    container: string,
    { spelling, signal, isAdd }: CallOptions & { readonly isAdd: boolean },
    work: (store: AllocationStore, process: Process) => Promise<boolean>,
  ): Promise<boolean> {
    const alone = { isAlive: true, diesAfterCommit: false };
    const process = this.#agent?.process ?? alone;
    const datastore = SPELLINGS[spelling]!;
    try {
      if (this.#agent !== undefined) {
        const { nodes, calls } = this.#agent;
        const used = callStore(nodes.get(datastore), async (_phase, wait) => wait());
        return await calls.run(async () => work(used, process), container);
      }
      const store = this.#storeFor(process);
      const call = { node: nodeName(this.name), attachment: attachmentOf(container), type: 'kvv3', isAdd } as const;
      await recoverBeforeCall({ ...this.#portsFor(process), store }, call, signal);
      return await work(store, process);
    } catch (cause) {
      if (
        !isNetplugError(
          cause,
          'ipam/exhausted',
          'ipam/pre-allocated',
          'store/unavailable',
          'store/conflict',
          'agent/busy',
        )
      )
        throw cause;
      return false;
    } finally {
      alone.isAlive = false;
    }
  }

  /** The process that serves the call ends here. */
  async #die(process: Process): Promise<never> {
    process.isAlive = false;
    if (this.#agent?.process === process) this.#agent = undefined;
    return new Promise<never>(() => undefined);
  }

  #isUsedByOther(container: string, addresses: readonly AddressInUse[]): boolean {
    return this.living.some(
      ({ address, owner }) =>
        owner.containerId !== container && addresses.some((mine) => sameAddress(mine.address, address)),
    );
  }

  /** Two pods of a cluster may receive one address only when a backup was restored, and never two of one node. */
  #tell(container: string, living: readonly AddressInUse[]): void {
    const { inUse, hasRestored, course } = this.#cluster;
    const me = `${this.name}/${container}`;
    const addresses = living.map(({ address }) => formatAddress(address));
    for (const [other, theirs] of inUse) {
      const twice = other === me ? undefined : theirs.find((address) => addresses.includes(address));
      if (twice === undefined || (hasRestored && !other.startsWith(`${this.name}/`))) continue;
      throw new Error(`${twice} was given to ${other} and to ${me}`);
    }
    inUse.set(me, addresses);
    course.push(`${me} ${addresses.join(' ')}`);
  }

  #portsFor(process: Process): {
    clock: typeof systemClock;
    random: Random;
    log: Log;
    place: JournalPlace;
    host: Host;
    listAttached: () => ReadonlySet<string>;
    listAddressesInUse: () => Promise<readonly AddressInUse[]>;
  } {
    const { folder, locks, random } = this.#cluster;
    return {
      clock: systemClock,
      random,
      log: {
        ...silentLog,
        error: (event, facts = {}) => void this.reported.push(`${event} ${String(facts['address'])}`),
      },
      place: {
        folder: `${folder}/${this.name}`,
        tryLock: (fd) => locks.tryLock(fd, process),
        syncData: async () => this.#pause(process, 2),
      },
      host: { machine: this.name, boot: 'one' },
      listAttached: () => new Set(this.#links.keys()),
      listAddressesInUse: async () => Promise.resolve(this.living),
    };
  }

  #storeFor(process: Process): Store {
    const { database, random, commits } = this.#cluster;
    const store = openMemoryStore(database, {
      random,
      pause: async () => this.#pause(process, 4),
      fault: () => {
        if (!this.#cluster.isStoreAway) return undefined;
        return random.int(2) === 0 ? { kind: 'unavailable-before' } : { kind: 'unavailable-after' };
      },
    });
    const dying = overriding(store, {
      commit: async (changes, signal) => {
        const outcome = await store.commit(changes, signal);
        if (outcome === 'committed' && process.diesAfterCommit) await this.#die(process);
        return outcome;
      },
    });
    return commits === 'at once' ? dying : piecewiseStore(dying);
  }

  /** A dead process does nothing any more. */
  async #pause(process: Process, belowMs: number): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, this.#cluster.random.int(belowMs)));
    if (!process.isAlive) await new Promise(() => undefined);
  }

  #requestOf(container: string): AssignRequest {
    return {
      ...requestOf(container, { node: this.name }),
      endpoint: {
        id: endpointIdOf(this.#endpointOf(container, [])),
        withAddresses: (assigned) =>
          this.#endpointOf(
            container,
            assigned.map(({ address }) => address),
          ),
      },
    };
  }

  #endpointOf(container: string, addresses: readonly Address[]): WorkloadEndpoint {
    return {
      apiVersion: 'netplug.io/v3',
      kind: 'WorkloadEndpoint',
      metadata: { name: `${this.name}-cni-${container}-eth0`, namespace: 'default' },
      spec: {
        orchestrator: 'cni',
        node: this.name,
        network: 'net',
        containerID: container,
        endpoint: 'eth0',
        interfaceName: `npl${container}`,
        mac: 'ee:ee:ee:ee:ee:ee',
        ipNetworks: addresses.map((address) => `${formatAddress(address)}/32`),
        profiles: [],
        ipam: 'netplug-ipam',
      },
    };
  }
}

export interface CallOptions {
  /** Which way of writing the datastore the call uses. */
  readonly spelling: 0 | 1;
  readonly signal: AbortSignal;
}
