import { NetplugError, reasonOf } from '../../base/errors.ts';
import { followNode } from '../../cache/node-view.ts';
import { repeat, timeLimit } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import { BackOff } from '../../base/back-off.ts';
import type { RetryPorts } from '../../base/back-off.ts';
import type { Certainty, Change, NodeView, Outcome, Stored } from '../../datastore/allocation-store.ts';
import type { Allocation } from '../../model/ip-block.ts';
import type { Store } from '../../datastore/store.ts';
import type { NodeName } from '../../model/names.ts';
import type { LinkedPorts } from '../restore-used-addresses.ts';
import type { EndpointId, WorkloadEndpoint } from '../../model/workload-endpoint.ts';
import type { UsedRange } from '../../model/used-range.ts';
import { clusterIdIn, type DatastoreId, datastoreIdOf, datastoreReplaced } from './datastore-id.ts';
import { NodeAssertion } from './assertion.ts';
import type { Entry } from './entry.ts';
import { FreshEndpoints } from './fresh-endpoints.ts';
import type { JournalPlace } from './journal.ts';
import { LocalView } from './local-view.ts';
import { NodeCache } from './node-cache.ts';
import { Notifier } from './notifier.ts';
import type { OfferedBlock } from './offered-block.ts';
import { OtherRuns } from './other-runs.ts';
import { OwnJournal } from './own-journal.ts';
import { partsOf } from './plan-flush.ts';
import { WriteBehind } from './write-behind.ts';
import { type Host, newRunId } from './run-id.ts';
import { asStored, isReleaseBesideView, isDecidedLocally, sortChanges, takesAddresses } from './sort-changes.ts';
import { PreallocatedAddresses } from './preallocated.ts';
import type { ResidentState } from './resident-state.ts';
import type { TimePhase } from './time-phase.ts';
import { WarmPool } from './warm-pool.ts';

/** Interval at which the warm pools are checked while nothing happens. */
const CHECK_MS = 5000;
const BACK_OFF = { firstMs: 50, maxMs: 2000, maxRefusedMs: 10_000 };
const RELIST_POLL_MS = 100;
/** Without a reason, one with a stack would be made each time. */
const RESTART = new Error('the watch is restarted');
const ENDING = new NetplugError('store/unavailable', 'Cannot use the datastore: the agent is shutting down', {
  hint: 'Try again in a moment',
});
/** Time that a call waits for an unavailable datastore. */
const UNAVAILABLE_MS = 2000;

export interface ResidentPorts extends RetryPorts, LinkedPorts {
  readonly log: Log;
  readonly host: Host;
  readonly place: JournalPlace;
  /** Returns what the node itself needs, as the same list until that changes; nothing unless given. */
  readonly ownRanges?: () => readonly UsedRange[];
  /** Called with how long each call waited for the journal, in milliseconds. */
  readonly onJournalWait: (ms: number) => void;
  /** Called with how long each change waited to be written to the datastore, in milliseconds. */
  readonly onWritten: (ms: number) => void;
}

export interface ResidentOptions {
  readonly datastore: DatastoreId;
  readonly node: NodeName;
  /** Returns the number of addresses kept ready per pool even when no pod starts. */
  readonly warmPoolFloor: () => number;
}

export interface CommitOptions {
  readonly signal: AbortSignal;
  readonly time: TimePhase;
  /** Called when this node has decided the changes alone, and only waits until they survive a crash. */
  readonly onDecided?: (() => void) | undefined;
}

/**
 * The datastore of one node's agent. Reads come from a cache that a watch updates. Decisions that the node may make alone
 * (pre-allocated addresses, releases, endpoints) are written asynchronously, through a journal that survives a crash.
 * All other reads and writes go straight to the datastore.
 */
export class ResidentNode {
  /** The datastore itself. */
  readonly inner: Store;
  readonly #ports: ResidentPorts;
  readonly #options: ResidentOptions;
  readonly #preallocated: PreallocatedAddresses;
  readonly #cache: NodeCache;
  readonly #fresh: FreshEndpoints;
  readonly #view: LocalView;
  readonly #warmPool: WarmPool;
  readonly #cacheChanged: Notifier;
  readonly #otherRuns: OtherRuns;
  readonly #assertion: NodeAssertion;
  readonly #stop = new AbortController();
  readonly #journal: OwnJournal;
  #writeBehind: WriteBehind | undefined;
  #problem: unknown = new NetplugError('store/unavailable', 'Cannot use the datastore yet: it is being read', {
    hint: 'Try again in a moment',
  });
  #watch = new AbortController();
  /** Number of times that the records were listed. */
  #lists = 0;
  /** The first list is not complete, or the watch failed. */
  #isWatchDown = true;
  /** The last write failed, although the watch is up. */
  #isUnreachable = false;
  #isUntried = true;
  /** Whether orphaned journals have been replayed. */
  #hasRecovered = false;
  /** The datastore holds the records of another cluster. */
  #isReplaced = false;
  /** Whether nothing is pending and nothing pre-allocated, until the process ends. */
  #isDrained = false;
  readonly #following: Promise<void>;

  constructor(inner: Store, ports: ResidentPorts, options: ResidentOptions) {
    this.inner = inner;
    this.#ports = ports;
    this.#options = options;
    this.#preallocated = new PreallocatedAddresses(newRunId(ports.host, ports.random));
    this.#cache = new NodeCache(options.node, ports.ownRanges);
    this.#fresh = new FreshEndpoints(this.#cache, () => ports.clock.monotonic());
    this.#view = new LocalView(this.#cache, this.#fresh, this.#preallocated);
    this.#cacheChanged = new Notifier(ports.clock);
    const { datastore, node } = options;
    this.#journal = new OwnJournal(ports, { format: 2, datastore, node, run: this.#preallocated.run });
    this.#otherRuns = new OtherRuns({ ...ports, store: inner }, { ...options, ownRun: this.#preallocated.run });
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
        cache: this.#cache,
        view: this.#view,
        preallocated: this.#preallocated,
        otherRuns: this.#otherRuns,
        graceMs: () => this.#assertion.graceMs(),
        triggerNow: () => this.#writeBehind?.triggerNow(),
        write: async (change, signal) => this.#writeBehind?.write({ slots: [], endpoints: [] }, [change], signal),
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
      pool: this.#cache.poolOf(key, block.cidr)?.name ?? '',
      cidr: key,
      held: block.slots.size,
      preallocated: this.#preallocated.in(block).length,
      free: block.queue.length,
    }));
    return {
      isReady: this.#writeBehind !== undefined,
      problem: this.#isWatchDown || this.#isUnreachable ? reasonOf(this.#problem) : undefined,
      warnings: [...this.#assertion.warnings(), ...this.#journal.warnings()],
      waiting: this.#writeBehind?.depth ?? 0,
      blocks,
      pools: this.#cache.pools,
    };
  }

  async readNodeView(node: NodeName, endpoint: EndpointId | undefined, signal: AbortSignal): Promise<NodeView> {
    if (node !== this.#options.node) return this.inner.readNodeView(node, endpoint, signal);
    await this.#ready(signal);
    const view = this.#view.nodeView(endpoint, { isUnavailable: this.#isWatchDown || this.#isUnreachable });
    if (view === undefined) throw this.#problem;
    return {
      ...view,
      latest: async (limit) => this.inner.readNodeView(node, endpoint, limit),
      certaintyOf: ({ allocation }) => this.#certaintyOf(allocation),
    };
  }

  #certaintyOf(allocation: Allocation): Certainty {
    const certainty = this.#writeBehind?.certaintyOf(allocation) ?? 'recorded';
    return certainty === 'recorded' && this.#otherRuns.mayTakeBack(allocation.id) ? 'revocable' : certainty;
  }

  /** Returns the own blocks as they are offered to calls now. */
  offered(): readonly OfferedBlock[] {
    return this.#view.offered({ isUnavailable: this.#isWatchDown || this.#isUnreachable });
  }

  /** Reads records that are not cached. While the datastore is unavailable, gives up well before the deadline of a call. */
  async ask<T>(read: (signal: AbortSignal) => Promise<T>, signal: AbortSignal): Promise<T> {
    this.#refuseReplaced();
    if (!this.#isWatchDown && !this.#isUnreachable) return read(signal);
    using limit = timeLimit(UNAVAILABLE_MS);
    try {
      return await read(AbortSignal.any([signal, limit.signal]));
    } catch (cause) {
      throw limit.signal.aborted && !signal.aborted ? this.#problem : cause;
    }
  }

  /** Writes changes that were planned on a view of this node. `time` measures what the caller waits for. */
  async commit(changes: readonly Change[], { signal, time, onDecided }: CommitOptions): Promise<Outcome> {
    this.#refuseReplaced();
    if (isReleaseBesideView(changes)) return this.inner.commit(changes, signal);
    const writeBehind = this.#writeBehind;
    const sorted = sortChanges(changes, { ...this.#options, preallocated: this.#preallocated, view: this.#view });
    if (writeBehind === undefined || sorted === undefined) return this.inner.commit(changes.map(asStored), signal);
    if (sorted === 'conflict') return 'conflict';
    const { entry, otherChanges } = sorted;
    // Planned before the lock was observed. The next plan is refused.
    if (this.#cache.isLocked && entry.slots.length > 0) return 'conflict';
    const isTaking = entry.slots.some(({ kind }) => kind === 'take') || otherChanges.some(takesAddresses);
    if (isTaking && this.#assertion.graceMs() > 0) {
      await this.#ports.clock.sleep(this.#assertion.graceMs(), signal);
      return 'conflict';
    }
    for (const slot of entry.slots)
      if (slot.kind === 'take' && slot.from !== undefined) this.#preallocated.spend(slot.from);
    this.#warmPool.noteStarts(entry);
    const parts = partsOf(entry);
    if (otherChanges.length === 0 && parts.length > 1 && isDecidedLocally(entry)) {
      for (const part of parts) await this.#decide(part, { signal, time });
      return 'committed';
    }
    return otherChanges.length > 0 || !isDecidedLocally(entry)
      ? time('flush', async () => writeBehind.write(entry, otherChanges, signal))
      : this.#decide(entry, { signal, time, onDecided });
  }

  /** Records an entry that this node may decide alone. */
  async #decide(entry: Entry, { signal, time, onDecided }: CommitOptions): Promise<Outcome> {
    const writeBehind = this.#writeBehind;
    if (writeBehind === undefined) throw this.#problem;
    const startMs = this.#ports.clock.monotonic();
    // Before the journal has it, so that no concurrent call is assigned the same address.
    this.#view.add(entry);
    try {
      const written = time('journal', async () => this.#journal.add(entry));
      onDecided?.();
      writeBehind.enqueue(entry, await written);
      return 'committed';
    } catch (cause) {
      this.#view.remove([entry]);
      this.#ports.log.debug('entry not in the journal', { reason: reasonOf(cause) });
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
    try {
      await this.#writeBehind?.drained(signal);
      this.#isDrained = true;
    } catch (cause) {
      this.#ports.log.warning('pending writes left in the journal', { reason: reasonOf(cause) });
    }
  }

  /** Shuts down; pending writes stay in the journal. Idempotent. */
  async end(): Promise<void> {
    if (this.#stop.signal.aborted) return;
    this.#stop.abort();
    await this.#writeBehind?.close();
    await this.#following;
    this.#journal.close({ isNeeded: !this.#isDrained && this.#preallocated.hasAny });
    await this.inner[Symbol.asyncDispose]();
  }

  /** Resolves after the first attempt to list the node, or when the signal aborts. */
  async opened(signal: AbortSignal): Promise<void> {
    while (this.#writeBehind === undefined && this.#isUntried && !signal.aborted) await this.#cacheChanged.next(100);
  }

  /** Resolves when the node is cached. @throws the reason why it is not; the signal's reason */
  async #ready(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (this.#writeBehind === undefined) {
      await this.#cacheChanged.next(1000);
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
        if (!this.#hasRecovered) await this.#otherRuns.recover(signal);
        this.#hasRecovered = true;
        this.#journal.open();
        await this.#assertion.run(signal);
        this.#watch = new AbortController();
        const ended = AbortSignal.any([signal, this.#watch.signal]);
        for await (const change of followNode(this.inner, this.#options.node, ended)) this.#apply(change);
        if (this.#watch.signal.aborted) continue;
      } catch (cause) {
        this.#problem = signal.aborted ? ENDING : cause;
        this.#isUntried = false;
        if (backOff.fail(cause) === 1) log.warning('watch failed', { reason: reasonOf(cause) });
      }
      this.#isWatchDown = true;
      this.#cacheChanged.notify();
      await backOff.wait(signal);
    }
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

  #apply(change: Parameters<NodeCache['apply']>[0]): void {
    if (change.kind === 'block' && (change.block?.value.requested.size ?? 0) > 0) {
      this.#warmPool.noteRequest(change.cidr);
      this.#writeBehind?.triggerNow();
    }
    if (change.kind === 'all') this.#lists += 1;
    if (change.kind === 'settings') this.#checkIdentity(change.settings.clusterId);
    if (change.kind === 'all') this.#checkIdentity(change.view.clusterId);
    const lost = this.#view.lostBy(change);
    this.#assertion.noteLost(lost);
    this.#view.refresh(this.#cache.apply(change));
    // Another program released the address, or the datastore was rolled back.
    if (lost.length > 0) this.#watch.abort(RESTART);
    // Pools may have been added or removed, and a lock reclaims the warm pools.
    if (change.kind === 'settings' || change.kind === 'all') this.#writeBehind?.trigger();
    this.#isWatchDown = false;
    if (this.#writeBehind === undefined) {
      this.#writeBehind = new WriteBehind({
        ...this.#ports,
        store: {
          commit: async (changes, signal) => {
            this.#refuseReplaced();
            return this.inner.commit(changes, signal);
          },
        },
        cache: this.#cache,
        fresh: this.#fresh,
        view: this.#view,
        journal: this.#journal,
        cacheChanged: this.#cacheChanged,
        onResult: (problem) => {
          this.#isUnreachable = problem !== undefined;
          if (problem !== undefined) this.#problem = problem;
        },
        relist: async (signal) => this.#relist(signal),
        adjustWarmPool: (blocks, isWritten) => this.#warmPool.adjust(blocks, isWritten),
      });
      this.#writeBehind.trigger();
    }
    this.#cacheChanged.notify();
  }

  /** Restarts the watch. A separate read could be older than changes that the watch has reported already. */
  async #relist(signal: AbortSignal): Promise<void> {
    const before = this.#lists;
    this.#watch.abort(RESTART);
    while (this.#lists === before && !this.#stop.signal.aborted) {
      signal.throwIfAborted();
      if (this.#isWatchDown) throw this.#problem;
      await this.#cacheChanged.next(RELIST_POLL_MS);
    }
  }

  #check(): void {
    if (this.#hasRecovered) this.#journal.open();
    if (this.#assertion.isDue()) this.#watch.abort(RESTART);
    if (!this.#isWatchDown) void this.#otherRuns.recoverEnded(this.#stop.signal);
    if (this.#warmPool.hasAged()) this.#writeBehind?.trigger();
    if (!this.#isWatchDown && !this.#isUnreachable) void this.#warmPool.returnIdle();
  }
}
