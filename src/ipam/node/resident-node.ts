import { isNetplugError, NetplugError, reasonOf } from '../../base/errors.ts';
import { followNode } from '../../cache/node-view.ts';
import { repeat, timeLimit } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import { BackOff } from '../../base/back-off.ts';
import type { RetryPorts } from '../../base/back-off.ts';
import type { Change, NodeView, Outcome, Stored } from '../../datastore/allocation-store.ts';
import type { Store } from '../../datastore/store.ts';
import type { NodeName } from '../../model/names.ts';
import type { LivingAddress } from '../plan-assertion.ts';
import type { EndpointId, WorkloadEndpoint } from '../../model/workload-endpoint.ts';
import { formatCidr } from '../../net/cidr.ts';
import { clusterIdIn, type DatastoreId, datastoreIdOf, datastoreReplaced } from './datastore-id.ts';
import { NodeAssertion } from './assertion.ts';
import type { Entry } from './entry.ts';
import { FreshEndpoints } from './fresh-endpoints.ts';
import { Journal, type JournalPlace } from './journal.ts';
import { LocalView } from './local-view.ts';
import { NodeMemory } from './node-memory.ts';
import { Notifier } from './notifier.ts';
import type { OfferedBlock } from './offered-block.ts';
import { OtherRuns } from './other-runs.ts';
import { partsOf } from './plan-flush.ts';
import { WriteBehind } from './write-behind.ts';
import { type Host, newRunId } from './run-id.ts';
import { isReleaseBesideView, isDecidedLocally, sortChanges, takesAddresses } from './sort-changes.ts';
import { PreallocatedAddresses } from './preallocated.ts';
import { WarmPool } from './warm-pool.ts';

/** How often the warm pools are checked while nothing happens. */
const CHECK_MS = 5000;
const BACK_OFF = { firstMs: 50, maxMs: 2000, maxRefusedMs: 10_000 };
const LEARNT_MS = 100;
/** Without a reason, one with a stack would be made each time. */
const RESTART = new Error('the watch is restarted');
const ENDING = new NetplugError('store/unavailable', 'Cannot use the datastore: the agent is shutting down', {
  hint: 'Try again in a moment',
});
/** How long a call waits for an unavailable datastore. */
const UNAVAILABLE_MS = 2000;

export interface ResidentPorts extends RetryPorts {
  readonly log: Log;
  readonly host: Host;
  readonly place: JournalPlace;
  /** `<containerId>/<ifName>` of every pod link the kernel has. */
  readonly listAttached: () => ReadonlySet<string>;
  /** The addresses that the kernel routes to links of pods. */
  readonly listLiving: () => Promise<readonly LivingAddress[]>;
  /** Called with how long each call waited for the journal, in milliseconds. */
  readonly onJournalWait: (ms: number) => void;
  /** Called with how long each change waited to be written to the datastore, in milliseconds. */
  readonly onWritten: (ms: number) => void;
}

export interface ResidentOptions {
  readonly datastore: DatastoreId;
  readonly node: NodeName;
  /** Addresses kept ready per pool even when no pod starts. */
  readonly warmPoolFloor: number;
}

export interface CommitOptions {
  readonly signal: AbortSignal;
  readonly time: TimePhase;
}

/** Awaits work as a phase of the call it belongs to. */
export type TimePhase = <T>(phase: string, work: () => Promise<T>) => Promise<T>;

/** The state of a resident node, for metrics and STATUS. */
export interface ResidentState {
  readonly isReady: boolean;
  /** Why it is not ready or cut off; undefined when all is well. */
  readonly problem: string | undefined;
  readonly waiting: number;
  readonly blocks: readonly {
    readonly pool: string;
    readonly cidr: string;
    held: number;
    stock: number;
    free: number;
  }[];
}

/**
 * The datastore as one node's agent uses it. Reads come from a cache that a watch updates. What the node may decide alone
 * (pre-allocated addresses, releases, endpoints) is written asynchronously, through a journal that survives a crash.
 * Everything else, and every other node, goes straight to the datastore.
 */
export class ResidentNode {
  /** The datastore itself. */
  readonly inner: Store;
  readonly #ports: ResidentPorts;
  readonly #options: ResidentOptions;
  readonly #stock: PreallocatedAddresses;
  readonly #memory: NodeMemory;
  readonly #fresh: FreshEndpoints;
  readonly #view: LocalView;
  readonly #warmPool: WarmPool;
  readonly #learnt: Notifier;
  readonly #others: OtherRuns;
  readonly #assertion: NodeAssertion;
  readonly #stop = new AbortController();
  #journal: Journal | undefined;
  #writeBehind: WriteBehind | undefined;
  #problem: unknown = new NetplugError('store/unavailable', 'Cannot use the datastore yet: it is being read', {
    hint: 'Try again in a moment',
  });
  #watch = new AbortController();
  /** How often everything was read. */
  #readings = 0;
  /** Nothing was learnt yet, or nothing can be learnt at the moment. */
  #isCutOff = true;
  /** The last write did not get through, although the watch still stands. */
  #isUnreachable = false;
  #isUntried = true;
  /** The datastore holds the records of another cluster. */
  #isReplaced = false;
  readonly #following: Promise<void>;

  constructor(inner: Store, ports: ResidentPorts, options: ResidentOptions) {
    this.inner = inner;
    this.#ports = ports;
    this.#options = options;
    this.#stock = new PreallocatedAddresses(newRunId(ports.host, ports.random));
    this.#memory = new NodeMemory(options.node);
    this.#fresh = new FreshEndpoints(this.#memory, () => ports.clock.monotonic());
    this.#view = new LocalView(this.#memory, this.#fresh, this.#stock);
    this.#learnt = new Notifier(ports.clock);
    this.#others = new OtherRuns({ ...ports, store: inner }, { ...options, except: this.#stock.run });
    this.#assertion = new NodeAssertion(
      {
        ...ports,
        store: inner,
        view: this.#view,
        checkIdentity: (clusterId) => this.#checkIdentity(clusterId),
        onGraceEnd: () => this.#writeBehind?.trigger(),
      },
      options,
    );
    this.#warmPool = new WarmPool(
      {
        ...ports,
        store: inner,
        memory: this.#memory,
        view: this.#view,
        stock: this.#stock,
        others: this.#others,
        graceMs: () => this.#assertion.graceMs(),
        triggerNow: () => this.#writeBehind?.triggerNow(),
        claim: async (create, signal) => this.#writeBehind?.write({ slots: [], endpoints: [] }, [create], signal),
      },
      options,
    );
    this.#following = this.#follow();
  }

  get clusterId(): string {
    return clusterIdIn(this.#options.datastore);
  }

  get state(): ResidentState {
    const blocks = [...this.#view.ownBlocks()].map(([key, block]) => ({
      pool: this.#memory.poolOf(key, block.cidr)?.name ?? '',
      cidr: key,
      held: block.slots.size,
      stock: this.#stock.in(block).length,
      free: block.queue.length,
    }));
    return {
      isReady: this.#writeBehind !== undefined,
      problem: this.#isCutOff || this.#isUnreachable ? reasonOf(this.#problem) : undefined,
      waiting: this.#writeBehind?.depth ?? 0,
      blocks,
    };
  }

  async readNodeView(node: NodeName, endpoint: EndpointId | undefined, signal: AbortSignal): Promise<NodeView> {
    if (node !== this.#options.node) return this.inner.readNodeView(node, endpoint, signal);
    await this.#ready(signal);
    const view = this.#view.nodeView(endpoint, { isCutOff: this.#isCutOff || this.#isUnreachable });
    if (view === undefined) throw this.#problem;
    return { ...view, latest: async (limit) => this.inner.readNodeView(node, endpoint, limit) };
  }

  /** The own blocks as calls are offered them now. */
  offered(): readonly OfferedBlock[] {
    return this.#view.offered({ isCutOff: this.#isCutOff || this.#isUnreachable });
  }

  /** Reads what only the datastore knows. While it is unavailable, the call does not spend its whole deadline on it. */
  async ask<T>(read: (signal: AbortSignal) => Promise<T>, signal: AbortSignal): Promise<T> {
    this.#refuseReplaced();
    if (!this.#isCutOff && !this.#isUnreachable) return read(signal);
    using limit = timeLimit(UNAVAILABLE_MS);
    try {
      return await read(AbortSignal.any([signal, limit.signal]));
    } catch (cause) {
      throw limit.signal.aborted && !signal.aborted ? this.#problem : cause;
    }
  }

  /** Writes changes that were planned on a view of this node. `time` measures what the caller waits for. */
  async commit(changes: readonly Change[], { signal, time }: CommitOptions): Promise<Outcome> {
    this.#refuseReplaced();
    if (isReleaseBesideView(changes)) return this.inner.commit(changes, signal);
    const writeBehind = this.#writeBehind;
    const sorted = sortChanges(changes, { node: this.#options.node, stock: this.#stock, view: this.#view });
    if (writeBehind === undefined || sorted === undefined) return this.inner.commit(changes, signal);
    if (sorted === 'conflict') return 'conflict';
    const { entry, others } = sorted;
    // Planned before the lock was seen: planning again is refused.
    if (this.#memory.isLocked && entry.slots.length > 0) return 'conflict';
    const isTaking = entry.slots.some(({ kind }) => kind === 'take') || others.some(takesAddresses);
    if (isTaking && this.#assertion.graceMs() > 0) {
      await this.#ports.clock.sleep(this.#assertion.graceMs(), signal);
      return 'conflict';
    }
    for (const slot of entry.slots) if (slot.kind === 'take' && slot.from !== undefined) this.#stock.spend(slot.from);
    this.#warmPool.noteStarts(entry);
    const parts = partsOf(entry);
    if (others.length === 0 && parts.length > 1 && isDecidedLocally(entry)) {
      for (const part of parts) await this.#decide(part, { signal, time });
      return 'committed';
    }
    return others.length > 0 || !isDecidedLocally(entry)
      ? time('flush', async () => writeBehind.write(entry, others, signal))
      : this.#decide(entry, { signal, time });
  }

  /** Records an entry that this node may decide alone. */
  async #decide(entry: Entry, { signal, time }: CommitOptions): Promise<Outcome> {
    const writeBehind = this.#writeBehind;
    if (writeBehind === undefined) throw this.#problem;
    const startMs = this.#ports.clock.monotonic();
    // Counted before it is on disk, so that no other call is assigned the same address meanwhile.
    this.#view.add(entry);
    try {
      writeBehind.enqueue(entry, await time('journal', async () => this.#journal?.add(entry)));
      return 'committed';
    } catch (cause) {
      this.#view.remove([entry]);
      this.#ports.log.error('journal failed', { reason: reasonOf(cause) });
      return await time('flush', async () => writeBehind.write(entry, [], signal));
    } finally {
      this.#ports.onJournalWait(this.#ports.clock.monotonic() - startMs);
    }
  }

  async listEndpoints(
    node: NodeName | undefined,
    signal: AbortSignal,
  ): Promise<{ endpoints: readonly Stored<WorkloadEndpoint>[]; problems: readonly string[] }> {
    if (node !== this.#options.node) return this.inner.listEndpoints(node, signal);
    await this.#ready(signal);
    return { endpoints: this.#view.endpoints(), problems: [] };
  }

  /** Flushes pending writes and reclaims the warm pools until the signal aborts. The rest stays in the journal. */
  async drain(signal: AbortSignal): Promise<void> {
    this.#warmPool.close();
    await this.#writeBehind?.drained(signal).catch((cause: unknown) => {
      this.#ports.log.warning('pending writes left in the journal', { reason: reasonOf(cause) });
    });
  }

  /** Shuts down; pending writes stay in the journal. Idempotent. */
  async end(): Promise<void> {
    if (this.#stop.signal.aborted) return;
    this.#stop.abort();
    await this.#writeBehind?.close();
    await this.#following;
    this.#journal?.close();
    await this.inner[Symbol.asyncDispose]();
  }

  /** Resolves when the node is known, or when it cannot be known now, or the signal ends the waiting. */
  async opened(signal: AbortSignal): Promise<void> {
    while (this.#writeBehind === undefined && this.#isUntried && !signal.aborted) await this.#learnt.next(100);
  }

  /** Every call would fail without a journal. @throws agent/journal-failed when none could be begun */
  assertJournal(): void {
    if (this.#writeBehind === undefined && isNetplugError(this.#problem, 'agent/journal-failed')) throw this.#problem;
  }

  /** Resolves when the node is known. @throws the reason why it is not; the signal's reason */
  async #ready(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (this.#writeBehind === undefined) {
      await this.#learnt.next(1000);
      signal.throwIfAborted();
    }
    if (this.#writeBehind === undefined) throw this.#problem;
  }

  async #follow(): Promise<void> {
    const { signal } = this.#stop;
    const { log } = this.#ports;
    const backOff = new BackOff(this.#ports, BACK_OFF);
    repeat(() => this.#check(), CHECK_MS, signal);
    while (!signal.aborted) {
      backOff.start();
      try {
        if (this.#journal === undefined) await this.#begin(signal);
        await this.#assertion.run(signal);
        this.#watch = new AbortController();
        const ended = AbortSignal.any([signal, this.#watch.signal]);
        for await (const change of followNode(this.inner, this.#options.node, ended)) this.#learn(change);
        if (this.#watch.signal.aborted) continue;
      } catch (cause) {
        this.#problem = signal.aborted ? ENDING : cause;
        this.#isUntried = false;
        if (backOff.fail(cause) === 1) log.warning('watch failed', { reason: reasonOf(cause) });
      }
      this.#isCutOff = true;
      this.#learnt.notify();
      await backOff.wait(signal);
    }
  }

  async #begin(signal: AbortSignal): Promise<void> {
    const { datastore, node } = this.#options;
    await this.#others.recover(signal);
    this.#journal = Journal.open(this.#ports.place, { format: 2, datastore, node, run: this.#stock.run });
  }

  /** @throws store/replaced */
  #checkIdentity(clusterId: string | undefined): void {
    const { datastore } = this.#options;
    if (clusterId === undefined) return;
    const found = datastoreIdOf(datastore, clusterId);
    this.#isReplaced = found !== datastore;
    if (this.#isReplaced) throw datastoreReplaced(datastore, found);
  }

  #refuseReplaced(): void {
    if (this.#isReplaced) throw this.#problem;
  }

  #learn(change: Parameters<NodeMemory['learn']>[0]): void {
    if (change.kind === 'block' && (change.block?.value.requested.size ?? 0) > 0) {
      this.#warmPool.noteRequest(change.cidr);
      this.#writeBehind?.triggerNow();
    }
    if (change.kind === 'all') this.#readings += 1;
    if (change.kind === 'settings') this.#checkIdentity(change.settings.clusterId);
    if (change.kind === 'all') this.#checkIdentity(change.view.clusterId);
    const hasLost = change.kind === 'block' && this.#view.loses(formatCidr(change.cidr), change.block?.value);
    this.#view.refresh(this.#memory.learn(change));
    // Not by this process: by a tool, or because the datastore is older now.
    if (hasLost) this.#watch.abort(RESTART);
    // Pools may have been added or removed, and a lock reclaims the warm pools.
    if (change.kind === 'settings' || change.kind === 'all') this.#writeBehind?.trigger();
    this.#isCutOff = false;
    if (this.#writeBehind === undefined && this.#journal !== undefined) {
      this.#writeBehind = new WriteBehind({
        ...this.#ports,
        store: {
          commit: async (changes, signal) => {
            this.#refuseReplaced();
            return this.inner.commit(changes, signal);
          },
        },
        memory: this.#memory,
        fresh: this.#fresh,
        view: this.#view,
        journal: this.#journal,
        learnt: this.#learnt,
        onReach: (problem) => {
          this.#isUnreachable = problem !== undefined;
          if (problem !== undefined) this.#problem = problem;
        },
        reread: async (signal) => this.#reread(signal),
        adjustWarmPool: (blocks, isWritten) => this.#warmPool.adjust(blocks, isWritten),
      });
      this.#writeBehind.trigger();
    }
    this.#learnt.notify();
  }

  /** Begins the watch anew, for a reading beside it could be older than what it has told already. */
  async #reread(signal: AbortSignal): Promise<void> {
    const before = this.#readings;
    this.#watch.abort(RESTART);
    while (this.#readings === before && !this.#stop.signal.aborted) {
      signal.throwIfAborted();
      if (this.#isCutOff) throw this.#problem;
      await this.#learnt.next(LEARNT_MS);
    }
  }

  #check(): void {
    if (!this.#isCutOff) void this.#others.recoverEnded(this.#stop.signal);
    if (this.#warmPool.hasAged()) this.#writeBehind?.trigger();
  }
}
