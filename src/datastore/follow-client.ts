import { Channel } from '../base/channel.ts';
import { errorOf } from '../base/error-data.ts';
import type { FollowAnswer, FollowRequest } from './follow-messages.ts';
import type { FollowedRecord, FollowEvent, FollowOptions, FollowStore, Query } from './follow.ts';

interface Stream {
  readonly events: Channel<FollowEvent>;
  /** The records of the parts of an event that is not complete yet. */
  records: FollowedRecord[];
}

/** Follows a datastore by messages to a FollowServer. */
export class FollowClient implements FollowStore {
  readonly #send: (request: FollowRequest) => void;
  readonly #streams = new Map<number, Stream>();
  #lastId = 0;

  constructor(send: (request: FollowRequest) => void) {
    this.#send = send;
  }

  async *follow(queries: readonly Query[], { from, signal }: FollowOptions): AsyncGenerator<FollowEvent> {
    if (signal.aborted) return;
    this.#lastId += 1;
    const id = this.#lastId;
    const events = new Channel<FollowEvent>();
    const close = (): void => events.close();
    signal.addEventListener('abort', close, { once: true });
    this.#streams.set(id, { events, records: [] });
    this.#send({ kind: 'follow-begin', id, queries, from });
    try {
      for await (const event of events) {
        yield event;
        this.#send({ kind: 'follow-next', id });
      }
    } finally {
      signal.removeEventListener('abort', close);
      this.#streams.delete(id);
      this.#send({ kind: 'follow-end', id });
    }
  }

  receive(answer: FollowAnswer): void {
    const stream = this.#streams.get(answer.id);
    if (stream === undefined) return;
    if (answer.kind === 'follow-failed') {
      stream.events.fail(errorOf(answer.error));
      return;
    }
    const { part, isLast } = answer;
    if (part.kind !== 'bookmark') for (const record of part.records) stream.records.push(record);
    if (!isLast) {
      this.#send({ kind: 'follow-next', id: answer.id });
      return;
    }
    stream.events.push(part.kind === 'bookmark' ? part : { ...part, records: stream.records });
    stream.records = [];
  }
}
