import { errorData } from '../base/error-data.ts';
import { toNetplugError } from '../base/errors.ts';
import { type FollowedRecord, followedKey, type FollowEvent, type FollowStore, type Query } from './follow.ts';
import { type FollowAnswer, type FollowRequest, PARTS_AHEAD } from './follow-messages.ts';

/** Records of one message: cloning them must not hold up the process that serves calls. */
const PART_RECORDS = 200;

/** Serves a FollowStore to a follower in another process or isolate, over messages. */
export class FollowServer {
  readonly #store: FollowStore;
  readonly #send: (answer: FollowAnswer) => void;
  readonly #streams = new Map<number, ServedStream>();
  #isClosed = false;

  constructor(store: FollowStore, send: (answer: FollowAnswer) => void) {
    this.#store = store;
    this.#send = send;
  }

  receive(request: FollowRequest): void {
    // A request of a follower that has ended may arrive after the news of its end.
    if (this.#isClosed) return;
    const { id } = request;
    if (request.kind === 'follow-begin') {
      const stream = new ServedStream(id, this.#send);
      this.#streams.set(id, stream);
      void stream.serve(this.#store, request).then(() => this.#streams.delete(id));
    } else if (request.kind === 'follow-next') this.#streams.get(id)?.sendNext();
    else this.#streams.get(id)?.end();
  }

  /** Ends all streams, when the follower is gone. */
  close(): void {
    this.#isClosed = true;
    for (const stream of this.#streams.values()) stream.end();
  }
}

/**
 * One stream. Sends a few parts ahead of a follower; what a slow follower has not received yet is merged, so that the
 * memory for it is bounded by the number of records.
 */
class ServedStream {
  readonly #id: number;
  readonly #send: (answer: FollowAnswer) => void;
  readonly #over = new AbortController();
  /** Number of parts that may be sent before the follower asks for more. */
  #credit = PARTS_AHEAD;
  /** The rest of the event that is being sent. */
  #parts: Iterator<FollowAnswer> | undefined;
  #snapshot: FollowEvent | undefined;
  /** Changes after that snapshot, or after what was sent. */
  readonly #changes = new Map<string, FollowedRecord>();
  /** The version of the changes; undefined when there is nothing to send. */
  #version: string | undefined;

  constructor(id: number, send: (answer: FollowAnswer) => void) {
    this.#id = id;
    this.#send = send;
  }

  async serve(
    store: FollowStore,
    { queries, from }: { readonly queries: readonly Query[]; readonly from: string | undefined },
  ): Promise<void> {
    const { signal } = this.#over;
    try {
      for await (const event of store.follow(queries, { signal, ...(from === undefined ? {} : { from }) })) {
        this.#merge(event);
        this.#flush();
      }
    } catch (cause) {
      if (!signal.aborted) this.#send({ kind: 'follow-failed', id: this.#id, error: errorData(toNetplugError(cause)) });
    }
  }

  sendNext(): void {
    this.#credit += 1;
    this.#flush();
  }

  end(): void {
    this.#over.abort();
  }

  #merge(event: FollowEvent): void {
    if (event.kind === 'snapshot') {
      this.#snapshot = event;
      this.#changes.clear();
      this.#version = undefined;
      return;
    }
    this.#version = event.version;
    if (event.kind === 'changes') for (const record of event.records) this.#changes.set(followedKey(record), record);
  }

  #flush(): void {
    while (this.#credit > 0 && !this.#over.signal.aborted) {
      this.#parts ??= this.#next();
      if (this.#parts === undefined) return;
      const { value, done } = this.#parts.next();
      if (done === true) {
        this.#parts = undefined;
        continue;
      }
      this.#credit -= 1;
      this.#send(value);
    }
  }

  /** Returns the parts of the next event; undefined when everything was sent. */
  #next(): Iterator<FollowAnswer> | undefined {
    const snapshot = this.#snapshot;
    if (snapshot !== undefined) {
      this.#snapshot = undefined;
      return partsOf(this.#id, snapshot);
    }
    const version = this.#version;
    if (version === undefined) return undefined;
    const records = [...this.#changes.values()];
    this.#changes.clear();
    this.#version = undefined;
    return partsOf(
      this.#id,
      records.length === 0 ? { kind: 'bookmark', version } : { kind: 'changes', records, version },
    );
  }
}

function* partsOf(id: number, event: FollowEvent): Generator<FollowAnswer> {
  if (event.kind === 'bookmark') {
    yield { kind: 'follow-part', id, part: event, isLast: true };
    return;
  }
  const { records } = event;
  for (let start = 0; start === 0 || start < records.length; start += PART_RECORDS) {
    const part = { ...event, records: records.slice(start, start + PART_RECORDS) };
    yield { kind: 'follow-part', id, part, isLast: start + PART_RECORDS >= records.length };
  }
}
