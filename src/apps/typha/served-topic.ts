import { keepRunning, type RetryPorts } from '../../base/back-off.ts';
import { type ErrorData, errorData } from '../../base/error-data.ts';
import { toNetplugError } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import { slices } from '../../base/slices.ts';
import type { FollowedRecord, FollowEvent, FollowStore, Query } from '../../datastore/follow.ts';
import type { TopicState } from '../../datastore/typha/follow-frames.ts';
import { recordText } from '../../datastore/typha/record-text.ts';
import { type FollowTopic, isStoredTopic, OWN_BLOCKS } from '../../datastore/typha/topics.ts';
import { ownMarksOf } from '../../datastore/typha/stored-objects.ts';
import { Relist } from './topic-log.ts';
import { OwnRecords, SharedRecords, type TopicEntry, type TopicRecords } from './topic-records.ts';

/** A list that a client needs is not repeated sooner after its end, however many need it. */
const RELIST_MS = 5000;

/** Number of records that one turn of the event loop encodes. */
const SLICE = 200;

export interface ServedTopicPorts extends RetryPorts {
  readonly store: FollowStore;
  readonly log: Log;
  /** Returns up to which version of the source an event has everything; undefined where versions cannot be compared. */
  readonly versionOf: (version: string) => number | undefined;
  /** Called when the topic has changed, has failed or is back. */
  readonly onChange: (topic: FollowTopic) => void;
}

/** A topic that is followed once, for all clients. */
export class ServedTopic {
  readonly topic: FollowTopic;
  readonly records: TopicRecords;
  readonly #ports: ServedTopicPorts;
  readonly #query: Query;
  /** Why the source is not followed now; undefined while it is. */
  failure: ErrorData | undefined;
  /** Whether all records have been listed once. */
  isLoaded = false;
  /** The version of the source up to which nothing is missing. */
  through: number | undefined;
  /** The version of the source up to which everything is in frames. */
  #flushedThrough: number | undefined;
  /** When the source was last heard of. */
  #heardMs = 0;
  #relistedMs = Number.NEGATIVE_INFINITY;
  /** Whether a list for a client is under way: another one would end it. */
  #isRelisting = false;
  #following = new AbortController();

  constructor(topic: FollowTopic, query: Query, ports: ServedTopicPorts) {
    this.topic = topic;
    this.#query = query;
    this.#ports = ports;
    const Records = isOwn(topic) ? OwnRecords : SharedRecords;
    this.records = new Records(topic, () => ports.clock.monotonic());
  }

  get isCurrent(): boolean {
    return this.isLoaded && this.failure === undefined;
  }

  /** Where the clients that have received everything stand. */
  get state(): TopicState {
    const { flushed, changed, isChanged } = this.records;
    const ageMs = Math.max(0, Math.round(this.#ports.clock.monotonic() - this.#heardMs));
    const through = isStoredTopic(this.topic) && this.isCurrent ? this.#flushedThrough : undefined;
    return { position: flushed, changed: isChanged ? undefined : changed, through, ageMs };
  }

  /** Makes frames of what has changed since the last flush. */
  flush(): void {
    this.records.flush();
    this.#flushedThrough = this.through;
  }

  /** Notes that nothing has changed since the last flush, if so. */
  settle(): void {
    if (!this.records.isChanged) this.#flushedThrough = this.through;
  }

  /**
   * Lists the records again: a source of which nothing changes says once a minute up to which version that is so, and a client
   * may have a list that is newer.
   */
  relist(): void {
    const nowMs = this.#ports.clock.monotonic();
    if (this.#isRelisting || nowMs - this.#relistedMs < RELIST_MS) return;
    this.#isRelisting = true;
    this.#following.abort();
  }

  /** Follows the source until the signal aborts, again and again. */
  async run(signal: AbortSignal): Promise<void> {
    const { store, log } = this.#ports;
    await keepRunning(
      this.#ports,
      {
        work: async () => {
          // A cached list after a failure may be older than what clients have.
          for (let isFresh = this.isLoaded; !signal.aborted; isFresh = true) {
            this.#following = new AbortController();
            const either = AbortSignal.any([signal, this.#following.signal]);
            for await (const event of store.follow([this.#query], { signal: either, isFresh })) await this.#take(event);
            if (!this.#following.signal.aborted) return;
          }
        },
        onFailure: (cause, failures) => {
          const error = toNetplugError(cause);
          if (failures === 1)
            log.warning('topic failed', { topic: this.topic, code: error.code, cause: error.message });
          this.failure = errorData(error);
          this.#isRelisting = false;
          this.#ports.onChange(this.topic);
        },
      },
      signal,
    );
  }

  async #take(event: FollowEvent): Promise<void> {
    const { clock, versionOf, onChange } = this.#ports;
    const isRecovered = this.failure !== undefined || !this.isLoaded;
    if (event.kind === 'snapshot') await this.#relist(event.records);
    else if (event.kind === 'changes') for (const record of event.records) this.#put(record);
    const version = versionOf(event.version);
    this.through = version;
    if (event.kind !== 'bookmark') this.records.changed = version;
    this.#heardMs = clock.monotonic();
    if (event.kind === 'snapshot' && !this.#following.signal.aborted && this.#isRelisting) {
      this.#isRelisting = false;
      this.#relistedMs = this.#heardMs;
    }
    this.isLoaded = true;
    this.failure = undefined;
    if (isRecovered || event.kind !== 'bookmark') onChange(this.topic);
  }

  async #relist(records: readonly FollowedRecord[]): Promise<void> {
    const listed = new Relist(this.records);
    for await (const slice of slices(records, SLICE))
      for (const record of slice) listed.put(record.key, this.#entryOf(record), this.#ports.clock.monotonic());
    listed.end(this.#ports.clock.monotonic());
  }

  #put(record: FollowedRecord): void {
    const nowMs = this.#ports.clock.monotonic();
    const isDeleted = record.value === undefined && record.problem === undefined;
    if (isDeleted) this.records.delete(record.key, nowMs);
    else this.records.put(record.key, this.#entryOf(record), nowMs);
  }

  #entryOf(record: FollowedRecord): TopicEntry {
    return { text: recordText(this.topic, record), marks: isOwn(this.topic) ? ownMarksOf(record) : [] };
  }
}

function isOwn(topic: FollowTopic): boolean {
  return topic === OWN_BLOCKS;
}
