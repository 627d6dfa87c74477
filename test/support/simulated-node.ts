// One node of a simulated cluster: an agent's resident store, crashes of it, and the standalone program, on one
// database. Its kernel is a set of attachments.
import { fstatSync } from 'node:fs';
import { OneAtATime } from '../../src/agent/one-at-a-time.ts';
import { systemClock } from '../../src/base/clock.ts';
import { isNetplugError } from '../../src/base/errors.ts';
import { silentLog } from '../../src/base/log.ts';
import { systemRandom } from '../../src/base/random.ts';
import type { MemoryDatabase } from '../../src/datastore/memory/memory-database.ts';
import { openMemoryStore } from '../../src/datastore/memory/memory-store.ts';
import type { Store } from '../../src/datastore/store.ts';
import { assign, type AssignRequest } from '../../src/ipam/assign.ts';
import { endpointOf, release } from '../../src/ipam/release.ts';
import { handleOf } from '../../src/model/names.ts';
import { endpointIdOf, type WorkloadEndpoint } from '../../src/model/workload-endpoint.ts';
import { type Address, formatAddress, formatAddress as text } from '../../src/net/address.ts';
import type { LivingAddress } from '../../src/ipam/plan-assertion.ts';
import { callStore } from '../../src/resident/call-store.ts';
import { datastoreIdOf } from '../../src/resident/datastore-id.ts';
import { recoverForCall } from '../../src/resident/recover.ts';
import { ResidentNode } from '../../src/resident/resident-node.ts';
import type { Host } from '../../src/resident/run-id.ts';
import { nodeName } from './fixtures.ts';
import { attachmentOf, requestOf } from './ipam-bench.ts';
import { piecewiseStore } from './piecewise-store.ts';

const DATASTORE = datastoreIdOf('kvv3', 'simulated');

/** A process: what it has locked is free when it is dead, and a dead one has no more effects. */
interface Process {
  isAlive: boolean;
}

/** Locks of files among the simulated processes. */
export class FileLocks {
  readonly #owners = new Map<number, Process>();

  tryLock(fd: number, process: Process): boolean {
    const { ino } = fstatSync(fd);
    const owner = this.#owners.get(ino);
    if (owner !== undefined && owner !== process && owner.isAlive) return false;
    this.#owners.set(ino, process);
    return true;
  }
}

export interface Cluster {
  readonly database: MemoryDatabase;
  readonly locks: FileLocks;
  readonly folder: string;
  isStoreAway: boolean;
  /** Whether the datastore has transactions. */
  readonly commits: 'at once' | 'in pieces';
  /** Addresses that pods have been told, by node and container: no two may be the same. */
  readonly inUse: Map<string, readonly string[]>;
}

export class SimulatedNode {
  readonly #cluster: Cluster;
  readonly #name: string;
  /** By `<containerId>/<ifName>`. */
  readonly #links = new Map<string, readonly LivingAddress[]>();
  #agent: { readonly process: Process; readonly store: ResidentNode; readonly order: OneAtATime } | undefined;

  constructor(cluster: Cluster, name: string) {
    this.#cluster = cluster;
    this.#name = name;
  }

  get agent(): ResidentNode | undefined {
    return this.#agent?.store;
  }

  startAgent(): void {
    const process = { isAlive: true };
    const store = new ResidentNode(
      this.#storeFor(process),
      {
        ...this.#portsFor(process),
        onJournalWait: () => undefined,
        onPublished: () => undefined,
      },
      { datastore: DATASTORE, node: nodeName(this.#name), stockFloor: 3 },
    );
    const order = new OneAtATime(systemClock.monotonic, () => undefined);
    this.#agent = { process, store, order };
  }

  /** As SIGKILL does: whatever it was doing ends where it was. */
  killAgent(): void {
    if (this.#agent !== undefined) this.#agent.process.isAlive = false;
    this.#agent = undefined;
  }

  async stopAgent(signal: AbortSignal): Promise<void> {
    const agent = this.#agent;
    this.#agent = undefined;
    await agent?.store.drain(signal);
    await agent?.store.end();
    if (agent !== undefined) agent.process.isAlive = false;
  }

  /** Adds a pod; `dies` names the moment at which whoever serves the call is killed. */
  async add(container: string, dies: 'never' | 'before-link' | 'after-link', signal: AbortSignal): Promise<void> {
    await this.#serve(container, signal, async (store, process) => {
      const leases = await assign(
        { store, clock: systemClock, random: systemRandom, log: silentLog },
        this.#requestOf(container),
        { signal, cleanupSignal: signal },
      );
      // Killed while another call of it was under way: nothing more happens here.
      if (!process.isAlive) await new Promise(() => undefined);
      if (dies === 'before-link') return this.killAgent();
      const owner = attachmentOf(container);
      this.#links.set(
        `${container}/eth0`,
        leases.map(({ address }) => ({ address, owner })),
      );
      if (dies === 'after-link') return this.killAgent();
      this.#tell(
        container,
        leases.map(({ address }) => formatAddress(address)),
      );
    });
  }

  async remove(container: string, signal: AbortSignal): Promise<void> {
    await this.#serve(container, signal, async (store) => {
      this.#links.delete(`${container}/eth0`);
      this.#cluster.inUse.delete(`${this.#name}/${container}`);
      const attachment = attachmentOf(container);
      const handle = handleOf(attachment);
      await release(
        { store, clock: systemClock, random: systemRandom, log: silentLog },
        {
          node: nodeName(this.#name),
          which: (held) => held.handle === handle,
          ...endpointOf(endpointIdOf(this.#endpointOf(container, [])), attachment),
        },
        signal,
      );
    });
  }

  /** By the agent when there is one, otherwise by the standalone program. */
  async #serve(
    container: string,
    signal: AbortSignal,
    work: (store: Store, process: Process) => Promise<void>,
  ): Promise<void> {
    const process = this.#agent?.process ?? { isAlive: true };
    try {
      if (this.#agent !== undefined) {
        const { store, order } = this.#agent;
        const used = callStore(
          { inner: store.inner, resolve: async () => Promise.resolve(store) },
          async (_phase, wait) => wait(),
        );
        await order.run(container, async () => work(used, process));
      } else {
        const store = this.#storeFor(process);
        const leftover = { datastore: DATASTORE, node: nodeName(this.#name) };
        const call = { handle: handleOf(attachmentOf(container)), signal };
        await recoverForCall({ ...this.#portsFor(process), store }, leftover, call);
        await work(store, process);
      }
    } catch (cause) {
      if (!isNetplugError(cause, 'ipam/exhausted', 'store/unavailable', 'store/conflict', 'agent/busy')) throw cause;
    } finally {
      if (process !== this.#agent?.process) process.isAlive = false;
    }
  }

  #tell(container: string, addresses: readonly string[]): void {
    const { inUse } = this.#cluster;
    const me = `${this.#name}/${container}`;
    for (const [other, theirs] of inUse) {
      const twice = other === me ? undefined : theirs.find((address) => addresses.includes(address));
      if (twice !== undefined) throw new Error(`${twice} was given to ${other} and to ${me}`);
    }
    inUse.set(me, addresses);
  }

  #portsFor(process: Process): {
    clock: typeof systemClock;
    random: typeof systemRandom;
    log: typeof silentLog;
    place: { folder: string; tryLock: (fd: number) => boolean };
    host: Host;
    listAttached: () => ReadonlySet<string>;
    listLiving: () => Promise<readonly LivingAddress[]>;
  } {
    return {
      clock: systemClock,
      random: systemRandom,
      log: silentLog,
      place: {
        folder: `${this.#cluster.folder}/${this.#name}`,
        tryLock: (fd) => this.#cluster.locks.tryLock(fd, process),
      },
      host: { machine: this.#name, boot: 'one' },
      listAttached: () => new Set(this.#links.keys()),
      listLiving: async () => Promise.resolve([...this.#links.values()].flat()),
    };
  }

  #storeFor(process: Process): Store {
    const store = openMemoryStore(this.#cluster.database, {
      pause: async () => {
        await new Promise((resolve) => setTimeout(resolve, Math.random() * 3));
        if (!process.isAlive) await new Promise(() => undefined);
      },
      fault: () => {
        if (!this.#cluster.isStoreAway) return undefined;
        return Math.random() < 0.5 ? { kind: 'unavailable-before' } : { kind: 'unavailable-after' };
      },
    });
    return this.#cluster.commits === 'at once' ? store : piecewiseStore(store);
  }

  #requestOf(container: string): AssignRequest {
    return {
      ...requestOf(container, { node: this.#name }),
      endpoint: (leases) =>
        this.#endpointOf(
          container,
          leases.map(({ address }) => address),
        ),
    };
  }

  #endpointOf(container: string, addresses: readonly Address[]): WorkloadEndpoint {
    return {
      apiVersion: 'netplug.io/v3',
      kind: 'WorkloadEndpoint',
      metadata: { name: `${this.#name}-cni-${container}-eth0`, namespace: 'default' },
      spec: {
        orchestrator: 'cni',
        node: this.#name,
        network: 'net',
        containerID: container,
        endpoint: 'eth0',
        interfaceName: `npl${container}`,
        mac: 'ee:ee:ee:ee:ee:ee',
        ipNetworks: addresses.map((address) => `${text(address)}/32`),
        profiles: [],
        ipam: 'netplug-ipam',
      },
    };
  }
}
