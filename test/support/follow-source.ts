// A source of records whose events a test decides, and a reader of what follows from them.
import { Channel } from '../../src/base/channel.ts';
import type { NetplugError } from '../../src/base/errors.ts';
import { RecordCache } from '../../src/cache/record-cache.ts';
import type { FollowedRecord, FollowEvent, FollowOptions, FollowStore, Query } from '../../src/datastore/follow.ts';
import { poolOf } from './fixtures.ts';

const POOLS: readonly Query[] = [{ kind: 'resources', of: 'IPPool' }];

export function followedPool(name: string, cidr = '10.0.0.0/24'): FollowedRecord {
  const which = { kind: 'IPPool', name } as const;
  return { kind: 'resource', query: 0, key: name, version: '', which, value: poolOf(name, cidr) };
}

/** A source whose events the test decides; every follow of it gets the last snapshot and what comes after. */
export class FollowSource implements FollowStore {
  version = 0;
  failure: NetplugError | undefined;
  readonly #records = new Map<string, FollowedRecord>();
  readonly #followers = new Set<Channel<FollowEvent>>();

  put(...records: FollowedRecord[]): void {
    this.version += 1;
    for (const record of records) this.#records.set(record.key, record);
    this.#emit({ kind: 'changes', records, version: String(this.version) });
  }

  delete(key: string): void {
    this.version += 1;
    const { value: _, ...record } = followedPool(key);
    this.#records.delete(key);
    this.#emit({ kind: 'changes', records: [record], version: String(this.version) });
  }

  /** Nothing has changed up to a later version. */
  bookmark(): void {
    this.version += 1;
    this.#emit({ kind: 'bookmark', version: String(this.version) });
  }

  fail(cause: NetplugError): void {
    this.failure = cause;
    for (const follower of this.#followers) follower.fail(cause);
  }

  async *follow(_: readonly Query[], { signal }: FollowOptions): AsyncGenerator<FollowEvent> {
    if (this.failure !== undefined) throw this.failure;
    const events = new Channel<FollowEvent>();
    this.#followers.add(events);
    signal.addEventListener('abort', () => events.close(), { once: true });
    events.push({ kind: 'snapshot', records: [...this.#records.values()], version: String(this.version) });
    yield* events;
  }

  #emit(event: FollowEvent): void {
    for (const follower of this.#followers) follower.push(event);
  }
}

/** Follows in the background. */
export class FollowReader {
  readonly events: FollowEvent[] = [];
  readonly cache = new RecordCache();
  error: unknown;
  /** Called after each event. */
  onEvent = (): void => undefined;
  readonly #over = new AbortController();
  readonly ended: Promise<void>;

  constructor(store: FollowStore, queries = POOLS) {
    this.ended = this.#run(store, queries);
  }

  get keys(): string[] {
    return [...this.cache.records()].map(({ key }) => key).sort();
  }

  /** Keys of records in events after the first, of which bookmarks have none. */
  get changed(): string[][] {
    return this.events
      .slice(1)
      .flatMap((event) => (event.kind === 'bookmark' ? [] : [event.records.map(({ key }) => key)]));
  }

  async end(): Promise<void> {
    this.#over.abort();
    await this.ended;
  }

  async #run(store: FollowStore, queries: readonly Query[]): Promise<void> {
    try {
      for await (const event of store.follow(queries, { signal: this.#over.signal })) {
        this.events.push(event);
        this.cache.apply(event);
        this.onEvent();
      }
    } catch (cause) {
      this.error = cause;
    }
  }
}
