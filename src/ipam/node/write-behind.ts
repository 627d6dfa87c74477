import { timeLimit } from '../../base/clock.ts';
import { isNetplugError, reasonOf } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import { backOffConflict, backOffMs, type RetryPorts } from '../../base/back-off.ts';
import type { AllocationStore, Change, Outcome } from '../../datastore/allocation-store.ts';
import { endpointKey } from '../../model/workload-endpoint.ts';
import { formatAddress } from '../../net/address.ts';
import { addressAt } from '../../net/cidr.ts';
import { type Entry, idOf } from './entry.ts';
import { CATCH_UP_MS, type FreshEndpoints } from './fresh-endpoints.ts';
import type { Journal, Segment } from './journal.ts';
import type { LocalView } from './local-view.ts';
import type { NodeMemory } from './node-memory.ts';
import type { Notifier } from './notifier.ts';
import { type AdjustBlocks, fittingEntries, planFlush } from './plan-flush.ts';
import { isOfOwnView, isCached } from './cached-changes.ts';
import { undoEntry } from './undo-entry.ts';

/** Entries without a waiting caller gather this long, so that a burst of pods becomes few writes. */
const GATHER_MS = 20;
const WRITE_MS = 15_000;
const BACK_OFF = { firstMs: 100, maxMs: 2000, maxRefusedMs: 10_000 };
const LONGEST_LAG_MS = 64;
/** Without a reason, one with a stack would be made each time. */
const TRIGGERED = new Error('a write is urgent');

export interface WriteBehindPorts extends RetryPorts {
  readonly store: Pick<AllocationStore, 'commit'>;
  readonly memory: NodeMemory;
  readonly fresh: FreshEndpoints;
  readonly view: LocalView;
  readonly journal: Journal;
  readonly log: Log;
  /** Notifies after each change of the cache. */
  readonly learnt: Notifier;
  /** Relists the node into the cache. */
  readonly reread: (signal: AbortSignal) => Promise<void>;
  /** Called after each write with undefined, or with the reason why the datastore could not be reached. */
  readonly onReach: (problem: unknown) => void;
  /** Called with how long each entry waited, in milliseconds. */
  readonly onWritten: (ms: number) => void;
  /** Brings the warm pools to their sizes. */
  readonly adjustWarmPool: AdjustBlocks;
}

interface Item {
  readonly entry: Entry;
  /** Changes of more than slots and endpoints of this node; such an item is written alone. */
  readonly others: readonly Change[];
  /** Where the entry stands in the journal; undefined when a caller waits for it instead. */
  readonly segment: Segment | undefined;
  /** Undefined for an entry without a waiting caller, and as soon as the outcome was returned. */
  caller: { resolve(outcome: Outcome): void; reject(cause: unknown): void } | undefined;
  readonly sinceMs: number;
  hasLeft: boolean;
  /** How often the datastore refused it by itself, right after it had been read. */
  refusals: number;
}

/**
 * Writes to the datastore asynchronously what this node has decided, one write at a time: pending entries go together. An
 * entry in the journal is retried until it succeeds. A waiting caller receives the first failure, and what may have been
 * written for it is released.
 */
export class WriteBehind {
  readonly #ports: WriteBehindPorts;
  readonly #stop = new AbortController();
  #queue: Item[] = [];
  #writing: ReadonlySet<Item> = new Set();
  #wake: (() => void) | undefined;
  #isUrgent = false;
  #isStale = false;
  #oneByOne = 0;
  #failures = 0;
  #idle: (() => void)[] = [];
  readonly #ended: Promise<void>;

  constructor(ports: WriteBehindPorts) {
    this.#ports = ports;
    this.#ended = this.#run();
  }

  /** How many entries are pending. */
  get depth(): number {
    return this.#queue.length;
  }

  /** Adds an entry that is in the journal and in the view to the pending writes. */
  enqueue(entry: Entry, segment: Segment | undefined): void {
    this.#queue.push({
      entry,
      others: [],
      segment,
      caller: undefined,
      sinceMs: this.#now(),
      hasLeft: false,
      refusals: 0,
    });
    this.#wake?.();
  }

  /** Writes now, with whatever else waits. @throws store/*, and the signal's reason */
  async write(entry: Entry, others: readonly Change[], signal: AbortSignal): Promise<Outcome> {
    signal.throwIfAborted();
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        item.hasLeft = true;
        // What is being written is released when the write is known to have succeeded.
        if (!this.#writing.has(item)) this.#remove([item]);
        reject(signal.reason);
      };
      const caller = {
        resolve: (outcome: Outcome): void => {
          signal.removeEventListener('abort', leave);
          resolve(outcome);
        },
        reject: (cause: unknown): void => {
          signal.removeEventListener('abort', leave);
          reject(cause);
        },
      };
      const item: Item = {
        entry,
        others,
        segment: undefined,
        caller,
        sinceMs: this.#now(),
        hasLeft: false,
        refusals: 0,
      };
      signal.addEventListener('abort', leave, { once: true });
      this.#ports.view.add(entry);
      this.#queue.push(item);
      this.#isUrgent = true;
      this.#wake?.();
    });
  }

  /** Starts a flush even when nothing is pending: a warm pool may have to change. */
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
    this.#ports.learnt.notify();
    this.#wake?.();
    await this.#ended;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      if (this.#queue.length === 0 && !this.#isUrgent) await this.#nextCall();
      if (!this.#isUrgent && !signal.aborted) await this.#gather();
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
    this.#wake = (): void => {
      if (this.#isUrgent || this.#stop.signal.aborted) hurry.abort(TRIGGERED);
    };
    await this.#ports.clock.sleep(GATHER_MS, hurry.signal).catch(() => undefined);
    this.#wake = undefined;
  }

  /** Writes once. Returns false when the write must be planned again. */
  async #round(): Promise<boolean> {
    const { memory, fresh, store, adjustWarmPool } = this.#ports;
    const isReread = this.#isStale;
    if (this.#isStale) {
      await this.#ports.reread(AbortSignal.timeout(WRITE_MS));
      this.#isStale = false;
    }
    const batch = this.#nextBatch();
    await this.#untilShown(batch);
    const { changes, lost, unproven } = planFlush(
      memory,
      batch.map(({ entry }) => entry),
      {
        adjust: adjustWarmPool,
        isReturned: (entry) => batch.some((item) => item.entry === entry && item.caller === undefined),
      },
    );
    if (unproven.size > 0 && !isReread) {
      this.#isStale = true;
      this.#isUrgent = true;
      return false;
    }
    const outdated = batch.filter(
      ({ entry, others }) =>
        others.length > 0 && (lost.has(entry) || others.some((change) => isOfOwnView(memory, change))),
    );
    if (outdated.length > 0) {
      this.#refuse(outdated);
      return false;
    }
    const all = [...changes, ...batch.flatMap(({ others }) => others)];
    const writes = fresh.prepare(all);
    let outcome: Outcome;
    this.#writing = new Set(batch);
    try {
      using limit = timeLimit(WRITE_MS);
      outcome = all.length === 0 ? 'committed' : await store.commit(all, limit.signal);
    } catch (cause) {
      this.#ports.onReach(cause);
      this.#fail(batch, cause);
      throw cause;
    } finally {
      this.#writing = new Set();
    }
    this.#ports.onReach(undefined);
    if (outcome === 'conflict') {
      await this.#afterConflict(batch);
      return false;
    }
    this.#failures = 0;
    fresh.note(writes);
    const losers = batch.filter(({ entry, caller }) => caller !== undefined && lost.has(entry));
    const written = batch.filter((item) => !losers.includes(item));
    this.#refuse(losers);
    for (const item of written.filter(({ others }) => others.length === 0)) this.#resolve(item);
    await this.#caughtUp(all);
    // Other blocks are in no view before the cache has them.
    for (const item of written.filter(({ others }) => others.length > 0)) this.#resolve(item);
    this.#remove(written);
    for (const { segment, entry, sinceMs } of written) {
      if (segment !== undefined) this.#ports.journal.complete(segment);
      if (lost.has(entry)) this.#sayLost(entry);
      this.#ports.onWritten(this.#now() - sinceMs);
    }
    if (this.#oneByOne > 0) this.#oneByOne -= 1;
    if (this.#queue.length > 0 || batch.some(({ others }) => others.length > 0)) this.#isUrgent = true;
    return true;
  }

  #nextBatch(): Item[] {
    const [first] = this.#queue;
    if (first === undefined) return [];
    if (first.others.length > 0 || this.#oneByOne > 0) return [first];
    const end = this.#queue.findIndex(({ others }) => others.length > 0);
    const together = this.#queue.slice(0, end === -1 ? undefined : end);
    const entries = together.map(({ entry }) => entry);
    return together.slice(0, fittingEntries(entries, this.#ports.memory.blocks));
  }

  /** From here on the assignment must stay, whatever becomes of a later write of the same addresses. */
  #resolve(item: Item): void {
    const { caller, hasLeft, entry, others } = item;
    if (hasLeft) void this.#undo(entry, others);
    item.caller = undefined;
    caller?.resolve('committed');
  }

  /** Two attachments have the same address, and the user must know. */
  #sayLost({ slots }: Entry): void {
    const addresses = slots.map(({ block, ordinal }) => formatAddress(addressAt(block, ordinal)));
    this.#ports.log.error('assigned address is held by another attachment', { addresses });
  }

  async #afterConflict(batch: readonly Item[]): Promise<void> {
    this.#refuse(batch.filter(({ others }) => others.length > 0));
    const { learnt, clock, random } = this.#ports;
    this.#failures += 1;
    await learnt.next(Math.min(LONGEST_LAG_MS, 2 ** this.#failures));
    await backOffConflict({ clock, random }, this.#failures, this.#stop.signal);
    this.#isStale = this.#failures > 2;
    this.#isUrgent = true;
  }

  /** They were planned on a state that was superseded; their callers plan again. */
  #refuse(items: readonly Item[]): void {
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
      void this.#undo(item.entry, item.others);
      item.caller.reject(cause);
    }
    if (isPassing) return;
    const [item, ...more] = batch.filter(({ caller }) => caller === undefined);
    if (more.length > 0) this.#oneByOne = batch.length;
    else if (item !== undefined && item.entry.endpoints.length > 0) {
      item.refusals += 1;
      // Credentials may be refused for a while, everything with them: then the next reading fails before the next write.
      if (item.refusals > 1 || !isNetplugError(cause, 'store/refused')) this.#dropEndpoint(item, cause);
    }
  }

  /** A record that the datastore rejects for good must not block the addresses of other pods. */
  #dropEndpoint(item: Item, cause: unknown): void {
    const { log } = this.#ports;
    const endpoints = item.entry.endpoints.map((change) => endpointKey(idOf(change)));
    log.error('endpoint rejected by the datastore', { endpoints, reason: reasonOf(cause) });
    this.#remove([item]);
    this.#putFirst({ ...item, entry: { ...item.entry, endpoints: [] } });
  }

  /** What frees the same slot may wait behind it already. */
  #putFirst(item: Item): void {
    this.#ports.view.add(item.entry);
    this.#queue.unshift(item);
  }

  /** Releases what a write of unknown outcome, or for a caller that left, may have assigned. */
  async #undo(entry: Entry, others: readonly Change[]): Promise<void> {
    const back = undoEntry(entry, others);
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

  /** An endpoint can be cleared only when the cache has its version. */
  async #untilShown(batch: readonly Item[]): Promise<void> {
    const { fresh, learnt } = this.#ports;
    const clears = batch.flatMap(({ entry }) => entry.endpoints.filter(({ kind }) => kind === 'clear'));
    for (const key of clears.map((change) => endpointKey(idOf(change)))) {
      for (let leftMs = fresh.leftMs(key); leftMs > 0; leftMs = fresh.leftMs(key)) await learnt.next(leftMs);
    }
  }

  /** Waits until the cache shows what was written, so that nothing is planned on the state before. */
  async #caughtUp(changes: readonly Change[]): Promise<void> {
    const { memory, learnt, clock, reread } = this.#ports;
    const untilMs = clock.monotonic() + CATCH_UP_MS;
    while (!this.#stop.signal.aborted && !changes.every((change) => isCached(memory, change))) {
      const leftMs = untilMs - clock.monotonic();
      if (leftMs <= 0) return reread(AbortSignal.timeout(WRITE_MS));
      await learnt.next(leftMs);
    }
  }
}
