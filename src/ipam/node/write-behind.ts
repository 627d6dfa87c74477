import { timeLimit } from '../../base/clock.ts';
import { isNetplugError, reasonOf } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import { backOffConflict, backOffMs, type RetryPorts } from '../../base/back-off.ts';
import type { AllocationStore, Certainty, Change, Outcome } from '../../datastore/allocation-store.ts';
import type { Allocation } from '../../model/ip-block.ts';
import { endpointKey } from '../../model/workload-endpoint.ts';
import { formatAddress } from '../../net/address.ts';
import { addressAt } from '../../net/cidr.ts';
import { type Entry, idOf, takenBy } from './entry.ts';
import { CATCH_UP_MS, type FreshEndpoints } from './fresh-endpoints.ts';
import type { Segment } from './journal.ts';
import type { LocalView } from './local-view.ts';
import type { NodeCache } from './node-cache.ts';
import type { Notifier } from './notifier.ts';
import type { OwnJournal } from './own-journal.ts';
import { type AdjustBlocks, fittingEntries, planFlush } from './plan-flush.ts';
import { isOfOwnView, isCached } from './cached-changes.ts';
import { operationsOf, undoEntry } from './undo-entry.ts';

/** Time that entries without a waiting caller gather, so that pods that start together become one write. */
const GATHER_MS = 20;
/** Time from a write to the next one unless a caller waits: what a write costs grows little with its entries. */
const APART_MS = 100;
const WRITE_MS = 15_000;
const BACK_OFF = { firstMs: 100, maxMs: 2000, maxRefusedMs: 10_000 };
/** Time that the cache may take to show what a conflict was about. */
const LAG = { firstMs: 2, maxMs: 64 };
/** Allocations that were taken back and are remembered: a call that has seen one may be under way. */
const MOST_UNDONE = 1024;
/** Without a reason, one with a stack would be made each time. */
const TRIGGERED = new Error('a write is urgent');

export interface WriteBehindPorts extends RetryPorts {
  readonly store: Pick<AllocationStore, 'commit'>;
  readonly cache: NodeCache;
  readonly fresh: FreshEndpoints;
  readonly view: LocalView;
  readonly journal: Pick<OwnJournal, 'add' | 'complete'>;
  readonly log: Log;
  /** Notifies after each change of the cache. */
  readonly cacheChanged: Notifier;
  /** Relists the node into the cache. */
  readonly relist: (signal: AbortSignal) => Promise<void>;
  /** Called after each write with undefined, or with the reason why it failed. */
  readonly onResult: (problem: unknown) => void;
  /** Called with how long each entry waited, in milliseconds. */
  readonly onWritten: (ms: number) => void;
  /** Brings the warm pools to their sizes. */
  readonly adjustWarmPool: AdjustBlocks;
}

interface Item {
  readonly entry: Entry;
  /** Changes of more than slots and endpoints of this node; such an item is written alone. */
  readonly otherChanges: readonly Change[];
  /** The segment of the journal with the entry; undefined when a caller waits instead. */
  readonly segment: Segment | undefined;
  /** Undefined for an entry without a waiting caller, and after the outcome was returned. */
  caller: { resolve(outcome: Outcome): void; reject(cause: unknown): void } | undefined;
  readonly enqueuedMs: number;
  isAborted: boolean;
  /** Number of times that the datastore refused the item in a write of its own. */
  refusals: number;
}

/**
 * Writes the decisions of this node to the datastore asynchronously, one batch at a time. Retries an entry of the journal
 * until it succeeds. Returns the first failure to a waiting caller, and releases what may have been written for it.
 */
export class WriteBehind {
  readonly #ports: WriteBehindPorts;
  readonly #stop = new AbortController();
  #queue: Item[] = [];
  #writing: ReadonlySet<Item> = new Set();
  /** Ids of the last allocations that were taken back. */
  readonly #undone = new Set<string>();
  #wake: (() => void) | undefined;
  #isUrgent = false;
  #isStale = false;
  #singles = 0;
  #failures = 0;
  #roundEndedMs = -Infinity;
  #idle: (() => void)[] = [];
  readonly #ended: Promise<void>;

  constructor(ports: WriteBehindPorts) {
    this.#ports = ports;
    this.#ended = this.#run();
  }

  /** Number of entries that are pending. */
  get depth(): number {
    return this.#queue.length;
  }

  /** Returns how certain an allocation is by now. */
  certaintyOf({ id }: Allocation): Certainty {
    const item = this.#queue.find(({ entry, otherChanges }) =>
      takenBy(operationsOf(entry, otherChanges)).some(({ allocation }) => allocation.id === id),
    );
    if (item === undefined) return this.#undone.has(id) ? 'revocable' : 'recorded';
    return item.caller === undefined && !item.isAborted ? 'decided' : 'revocable';
  }

  /** Adds an entry that is in the journal and in the view to the pending writes. */
  enqueue(entry: Entry, segment: Segment | undefined): void {
    this.#queue.push(this.#itemOf({ entry, otherChanges: [], segment, caller: undefined }));
    this.#wake?.();
  }

  /** Writes the entry now, together with pending entries. @throws store/*, and the signal's reason */
  async write(entry: Entry, otherChanges: readonly Change[], signal: AbortSignal): Promise<Outcome> {
    signal.throwIfAborted();
    return new Promise((resolve, reject) => {
      const abandon = (): void => {
        item.isAborted = true;
        // A write in progress is undone after it has succeeded.
        if (!this.#writing.has(item)) this.#remove([item]);
        reject(signal.reason);
      };
      const caller = {
        resolve: (outcome: Outcome): void => {
          signal.removeEventListener('abort', abandon);
          resolve(outcome);
        },
        reject: (cause: unknown): void => {
          signal.removeEventListener('abort', abandon);
          reject(cause);
        },
      };
      const item = this.#itemOf({ entry, otherChanges, segment: undefined, caller });
      signal.addEventListener('abort', abandon, { once: true });
      this.#ports.view.add(entry);
      this.#queue.push(item);
      this.#isUrgent = true;
      this.#wake?.();
    });
  }

  #itemOf(asked: Pick<Item, 'entry' | 'otherChanges' | 'segment' | 'caller'>): Item {
    return { ...asked, enqueuedMs: this.#now(), isAborted: false, refusals: 0 };
  }

  /** Starts a flush even without pending entries, to adjust the warm pools. */
  trigger(): void {
    this.#wake?.();
  }

  /** Starts a flush at once. */
  triggerNow(): void {
    this.#isUrgent = true;
    this.#wake?.();
  }

  /** Resolves when nothing is pending and the warm pools have their sizes; rejects with the signal's reason. */
  async drained(signal: AbortSignal): Promise<void> {
    if (signal.aborted) throw signal.reason;
    return new Promise((resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason), { once: true });
      this.#idle.push(resolve);
      this.#isUrgent = true;
      this.#wake?.();
    });
  }

  async close(): Promise<void> {
    this.#stop.abort();
    this.#ports.cacheChanged.notify();
    this.#wake?.();
    await this.#ended;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      if (this.#queue.length === 0 && !this.#isUrgent) await this.#nextCall();
      if (!this.#isUrgent && this.#idle.length === 0 && !signal.aborted) await this.#gather();
      this.#isUrgent = false;
      try {
        const isWritten = await this.#round();
        const isIdle = isWritten && this.#queue.length === 0 && !this.#isUrgent;
        if (isIdle) for (const done of this.#idle.splice(0)) done();
      } catch (cause) {
        this.#failures += 1;
        // Warns once while the datastore is unavailable.
        const say = this.#failures === 1 ? 'warning' : 'debug';
        this.#ports.log[say]('flush failed', { reason: reasonOf(cause), waiting: this.depth });
        const { clock, random } = this.#ports;
        const waitMs = backOffMs(BACK_OFF, { failures: this.#failures, cause }, random);
        await clock.sleep(waitMs, signal).catch(() => undefined);
      }
    }
  }

  async #nextCall(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
    this.#wake = undefined;
  }

  /** Lets entries gather, unless one is urgent. */
  async #gather(): Promise<void> {
    const hurry = new AbortController();
    const gatherMs = Math.max(GATHER_MS, this.#roundEndedMs + APART_MS - this.#now());
    this.#wake = (): void => {
      if (this.#isUrgent || this.#stop.signal.aborted) hurry.abort(TRIGGERED);
    };
    await this.#ports.clock.sleep(gatherMs, hurry.signal).catch(() => undefined);
    this.#wake = undefined;
  }

  /** Writes once. Returns false when the write must be planned again. */
  async #round(): Promise<boolean> {
    const { cache, fresh, store, adjustWarmPool } = this.#ports;
    const isRelisted = this.#isStale;
    if (this.#isStale) {
      await this.#ports.relist(AbortSignal.timeout(WRITE_MS));
      this.#isStale = false;
    }
    const next = this.#nextBatch();
    await this.#untilEndpointsCached(next);
    // Callers that have given up meanwhile have taken theirs away.
    const batch = next.filter((item) => this.#queue.includes(item));
    const isPart = batch.length < this.#queue.length;
    const { changes, lost, unproven } = planFlush(
      cache,
      batch.map(({ entry }) => entry),
      {
        adjust: adjustWarmPool,
        isReturned: (entry) => batch.some((item) => item.entry === entry && item.caller === undefined),
      },
    );
    if (unproven.size > 0 && !isRelisted) {
      this.#isStale = true;
      this.#isUrgent = true;
      return false;
    }
    const outdated = batch.filter(
      ({ entry, otherChanges }) =>
        otherChanges.length > 0 && (lost.has(entry) || otherChanges.some((change) => isOfOwnView(cache, change))),
    );
    if (outdated.length > 0) {
      this.#conflict(outdated);
      return false;
    }
    const all = [...changes, ...batch.flatMap(({ otherChanges }) => otherChanges)];
    const writes = fresh.prepare(all);
    let outcome: Outcome;
    this.#writing = new Set(batch);
    try {
      using limit = timeLimit(WRITE_MS);
      outcome = all.length === 0 ? 'committed' : await store.commit(all, limit.signal);
    } catch (cause) {
      this.#writing = new Set();
      this.#ports.onResult(cause);
      this.#fail(batch, cause);
      throw cause;
    }
    this.#ports.onResult(undefined);
    if (outcome === 'conflict') {
      this.#writing = new Set();
      await this.#afterConflict(batch);
      return false;
    }
    this.#failures = 0;
    fresh.note(writes);
    const losers = batch.filter(({ entry, caller }) => caller !== undefined && lost.has(entry));
    const written = batch.filter((item) => !losers.includes(item));
    this.#conflict(losers);
    const isAlone = written.some(({ otherChanges }) => otherChanges.length > 0);
    if (!isAlone) for (const item of written) this.#resolve(item);
    try {
      await this.#untilCached(all);
    } catch (cause) {
      this.#isStale = true;
      if (isAlone) this.#remove(written);
      throw cause;
    } finally {
      this.#writing = new Set();
      // Blocks of other nodes appear in the view only when the cache has them.
      if (isAlone) for (const item of written) this.#resolve(item);
    }
    this.#remove(written);
    for (const { segment, entry, enqueuedMs } of written) {
      if (segment !== undefined) this.#ports.journal.complete(segment);
      if (lost.has(entry)) this.#logLost(entry);
      this.#ports.onWritten(this.#now() - enqueuedMs);
    }
    if (this.#singles > 0) this.#singles -= 1;
    if (isPart || batch.some(({ otherChanges }) => otherChanges.length > 0)) this.#isUrgent = true;
    this.#roundEndedMs = this.#now();
    return true;
  }

  #nextBatch(): Item[] {
    const [first] = this.#queue;
    if (first === undefined) return [];
    if (first.otherChanges.length > 0 || this.#singles > 0) return [first];
    const end = this.#queue.findIndex(({ otherChanges }) => otherChanges.length > 0);
    const together = this.#queue.slice(0, end === -1 ? undefined : end);
    const entries = together.map(({ entry }) => entry);
    return together.slice(0, fittingEntries(entries, this.#ports.cache.blocks));
  }

  /** Returns success to the caller: no later write of the same addresses may revert the assignment. */
  #resolve(item: Item): void {
    const { caller, isAborted, entry, otherChanges } = item;
    if (isAborted) void this.#undo(entry, otherChanges);
    item.caller = undefined;
    caller?.resolve('committed');
  }

  /** Reports that two attachments have the same address. */
  #logLost({ slots }: Entry): void {
    const addresses = slots.map(({ block, ordinal }) => formatAddress(addressAt(block, ordinal)));
    this.#ports.log.error('assigned address is held by another attachment', { addresses });
  }

  async #afterConflict(batch: readonly Item[]): Promise<void> {
    this.#conflict(batch.filter(({ otherChanges }) => otherChanges.length > 0));
    const { cacheChanged, clock, random } = this.#ports;
    this.#failures += 1;
    await cacheChanged.next(backOffMs(LAG, { failures: this.#failures }, random));
    await backOffConflict({ clock, random }, this.#failures, this.#stop.signal);
    this.#isStale = this.#failures > 2;
    this.#isUrgent = true;
  }

  /** Returns a conflict to the callers, which plan again: the state they planned on was superseded. */
  #conflict(items: readonly Item[]): void {
    if (items.length === 0) return;
    this.#remove(items);
    for (const { caller } of items) caller?.resolve('conflict');
    this.#isUrgent = true;
  }

  #fail(batch: readonly Item[], cause: unknown): void {
    const isPassing = isNetplugError(cause, 'store/unavailable', 'store/replaced', 'store/conflict', 'cni/deadline');
    this.#isStale = true;
    for (const item of batch) {
      if (item.caller === undefined) continue;
      this.#remove([item]);
      void this.#undo(item.entry, item.otherChanges);
      item.caller.reject(cause);
    }
    if (isPassing) return;
    const [item, ...more] = batch.filter(({ caller }) => caller === undefined);
    if (more.length > 0) this.#singles = batch.length;
    else if (item !== undefined && item.entry.endpoints.length > 0) {
      item.refusals += 1;
      // Refused credentials affect every request: then the relist fails before this write is tried again.
      if (item.refusals > 1 || !isNetplugError(cause, 'store/refused')) this.#dropEndpoint(item, cause);
    }
  }

  /** Drops an endpoint that the datastore rejects permanently, so that it does not block the addresses of other pods. */
  #dropEndpoint(item: Item, cause: unknown): void {
    const { log } = this.#ports;
    const endpoints = item.entry.endpoints.map((change) => endpointKey(idOf(change)));
    log.error('endpoint rejected by the datastore', { endpoints, reason: reasonOf(cause) });
    this.#remove([item]);
    this.#putFirst({ ...item, entry: { ...item.entry, endpoints: [] } });
  }

  /** Puts the item first, because an entry that frees the same slot may already wait behind it. */
  #putFirst(item: Item): void {
    this.#ports.view.add(item.entry);
    this.#queue.unshift(item);
  }

  /** Releases what may have been assigned by a write of unknown outcome, or for a caller that aborted. */
  async #undo(entry: Entry, otherChanges: readonly Change[]): Promise<void> {
    const back = undoEntry(entry, otherChanges);
    for (const slot of back.slots) if (slot.kind === 'free') this.#undone.add(slot.id);
    for (const id of [...this.#undone].slice(0, -MOST_UNDONE)) this.#undone.delete(id);
    if (back.slots.length === 0 && back.endpoints.length === 0) return;
    this.#ports.view.add(back);
    try {
      this.enqueue(back, await this.#ports.journal.add(back));
    } catch (cause) {
      this.#ports.log.warning('release not recorded in the journal', { reason: reasonOf(cause) });
      this.enqueue(back, undefined);
    }
  }

  #now(): number {
    return this.#ports.clock.monotonic();
  }

  #remove(items: readonly Item[]): void {
    this.#queue = this.#queue.filter((item) => !items.includes(item));
    this.#ports.view.remove(items.map(({ entry }) => entry));
  }

  /** Waits until the cache has the version of every endpoint to clear. */
  async #untilEndpointsCached(batch: readonly Item[]): Promise<void> {
    const { fresh, cacheChanged } = this.#ports;
    const clears = batch.flatMap(({ entry }) => entry.endpoints.filter(({ kind }) => kind === 'clear'));
    for (const key of clears.map((change) => endpointKey(idOf(change)))) {
      for (let leftMs = fresh.leftMs(key); leftMs > 0; leftMs = fresh.leftMs(key)) await cacheChanged.next(leftMs);
    }
  }

  /** Waits until the cache shows what was written, so that nothing is planned on the state before. */
  async #untilCached(changes: readonly Change[]): Promise<void> {
    const { cache, cacheChanged, clock, relist } = this.#ports;
    const untilMs = clock.monotonic() + CATCH_UP_MS;
    while (!this.#stop.signal.aborted && !changes.every((change) => isCached(cache, change))) {
      const leftMs = untilMs - clock.monotonic();
      if (leftMs <= 0) return relist(AbortSignal.timeout(WRITE_MS));
      await cacheChanged.next(leftMs);
    }
  }
}
