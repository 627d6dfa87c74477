// Many agents of netplug-typha in one process: a thousand that count what they receive and read none of it, or some that apply
// everything as an agent does.
import { createHash } from 'node:crypto';
import type { TLSSocket } from 'node:tls';
import { systemClock } from '../../src/base/clock.ts';
import { forEachLimit } from '../../src/base/for-each-limit.ts';
import { isNetplugError } from '../../src/base/errors.ts';
import { RecordCache } from '../../src/cache/record-cache.ts';
import type { FollowStore } from '../../src/datastore/follow.ts';
import {
  FOLLOW_FORMATS,
  FOLLOW_PROTOCOL,
  followFrame,
  readServerFrame,
  SERVER_BYTES,
} from '../../src/datastore/typha/follow-frames.ts';
import { FANNED_OUT, type FollowTopic, isStoredTopic, queryOfTopic } from '../../src/datastore/typha/topics.ts';
import { ALIVE, type ServerEntry } from '../../src/stream/handshake.ts';
import { openStream } from '../../src/stream/open-stream.ts';
import type { StreamPeer } from '../../src/stream/peer.ts';
import type { StreamFrame } from '../../src/stream/stream-frames.ts';
import { connectTo } from '../../src/stream/tls-client.ts';

const COMPLETE = followFrame({ kind: 'complete', topic: '' }).readUInt8(4);
const BEAT = followFrame({ kind: 'beat', topics: {} }).readUInt8(4);
const HEAD_BYTES = 5;
/** Handshakes that one process can carry on before the first ones time out. */
const AT_ONCE = 200;
/** As agents do. */
const ACK_MS = 1000;
const ALIVE_MS = 10_000;
/** A part begins with this byte when it is not compressed. */
const PLAIN = 0;

/** What is waited for to reach every client. */
interface Mark {
  readonly text: string;
  readonly atNs: bigint[];
  readonly all: PromiseWithResolvers<void>;
}

/** Clients that count frames, and acknowledge them as agents do. */
export class CountingSwarm implements Disposable {
  readonly counts = { connected: 0, failed: 0, complete: 0, frames: 0, bytes: 0 };
  /** When the last client was complete, by CLOCK_MONOTONIC. */
  completeNs = 0n;
  readonly #server: ServerEntry;
  readonly #sockets: TLSSocket[] = [];
  readonly #over = new AbortController();
  #mark: Mark | undefined;

  constructor(server: ServerEntry) {
    this.#server = server;
  }

  /** Connects so many clients, each of a node of its own and as many at once as one process can. Resolves when all are welcome. */
  async connect(count: number): Promise<void> {
    const first = this.counts.connected;
    this.counts.connected += count;
    const numbers = Array.from({ length: count }, (_, index) => first + index);
    await forEachLimit(numbers, AT_ONCE, async (number) => this.#connectOne(number));
  }

  /** Resolves with the times at which the mark reached each client, in order. Call it before the mark is written. */
  async arrivals(text: string): Promise<readonly bigint[]> {
    const mark: Mark = { text, atNs: [], all: Promise.withResolvers() };
    this.#mark = mark;
    await mark.all.promise;
    return mark.atNs;
  }

  /** The last clients read no more. */
  stopReading(count: number): void {
    for (const socket of this.#sockets.slice(-count)) socket.pause();
  }

  [Symbol.dispose](): void {
    this.#over.abort();
    for (const socket of this.#sockets) socket.destroy();
  }

  async #connectOne(number: number): Promise<void> {
    const socket = await this.#open();
    this.#sockets.push(socket);
    const client = new CountingClient((frame) => this.#take(frame), number);
    const { peer } = await openStream(
      socket,
      {
        hello: {
          token: `elsewhere-${String(number)}`,
          release: '1',
          formats: FOLLOW_FORMATS,
          about: { usesPodCidrs: false },
        },
        limitBytes: SERVER_BYTES,
        clock: systemClock,
        listener: { onFrame: (frame) => client.receive(frame), onDrain: () => undefined, onEnd: () => undefined },
      },
      this.#over.signal,
    );
    client.begin(peer, () => {
      this.counts.complete += 1;
      this.completeNs = process.hrtime.bigint();
    });
  }

  /** Tries again as an agent does: on busy cores TLS may take longer than a client waits. */
  async #open(): Promise<TLSSocket> {
    for (;;) {
      try {
        return await connectTo(this.#server, FOLLOW_PROTOCOL, this.#over.signal);
      } catch (cause) {
        if (this.#over.signal.aborted) throw cause;
        this.counts.failed += 1;
      }
    }
  }

  #take({ type, payload }: StreamFrame): void {
    this.counts.frames += 1;
    this.counts.bytes += HEAD_BYTES + payload.length;
    const mark = this.#mark;
    if (mark === undefined || type === BEAT || payload[0] !== PLAIN || !payload.includes(mark.text)) return;
    mark.atNs.push(process.hrtime.bigint());
    if (mark.atNs.length < this.counts.connected) return;
    this.#mark = undefined;
    mark.all.resolve();
  }
}

class CountingClient {
  readonly #onFrame: (frame: StreamFrame) => void;
  #peer: StreamPeer | undefined;
  #onComplete: () => void = () => undefined;
  #missing = FANNED_OUT.length;
  #positions: Readonly<Record<FollowTopic, number>> = {};
  #isAckDue = false;
  #ackedMs: number;

  constructor(onFrame: (frame: StreamFrame) => void, number: number) {
    this.#onFrame = onFrame;
    // Agents do not start at the same moment.
    this.#ackedMs = systemClock.monotonic() + (number % ACK_MS);
  }

  begin(peer: StreamPeer, onComplete: () => void): void {
    this.#peer = peer;
    this.#onComplete = onComplete;
    for (const topic of FANNED_OUT) peer.send(followFrame({ kind: 'begin', topic, changed: undefined }));
  }

  receive(frame: StreamFrame): void {
    this.#onFrame(frame);
    if (frame.type === COMPLETE) {
      this.#missing -= 1;
      if (this.#missing === 0) this.#onComplete();
    } else if (frame.type === BEAT) this.#beat(frame);
    else this.#isAckDue = true;
    if (this.#isAckDue && systemClock.monotonic() - this.#ackedMs >= ACK_MS) this.#acknowledge();
  }

  #beat(frame: StreamFrame): void {
    const message = readServerFrame(frame);
    if (message.kind !== 'beat') return;
    this.#positions = Object.fromEntries(
      Object.entries(message.topics).map(([topic, { position }]) => [topic, position]),
    );
    if (this.#isAckDue || systemClock.monotonic() - this.#ackedMs < ALIVE_MS) return;
    this.#ackedMs = systemClock.monotonic();
    this.#peer?.send(ALIVE);
  }

  #acknowledge(): void {
    this.#isAckDue = false;
    this.#ackedMs = systemClock.monotonic();
    this.#peer?.send(followFrame({ kind: 'ack', positions: this.#positions }));
  }
}

export interface RecordsDigest {
  readonly count: number;
  readonly hash: string;
}

/** A client that applies what it receives. */
export class ApplyingClient {
  readonly #cache = new RecordCache();
  readonly #over = new AbortController();
  readonly #ended: Promise<void>;
  isComplete = false;

  constructor(store: FollowStore) {
    this.#ended = this.#run(store);
  }

  /** The number of records, and a hash that is the same for the same records. */
  digest(): RecordsDigest {
    const texts = [...this.#cache.records()].map(({ version: _version, stored: _stored, ...record }) =>
      JSON.stringify(record, plain),
    );
    const hash = createHash('sha256');
    for (const text of texts.toSorted()) hash.update(text).update('\n');
    return { count: texts.length, hash: hash.digest('hex') };
  }

  async end(): Promise<void> {
    this.#over.abort();
    await this.#ended;
  }

  async #run(store: FollowStore): Promise<void> {
    // Topics of stored objects are no queries of a follower.
    const queries = FANNED_OUT.flatMap((topic) => (isStoredTopic(topic) ? [] : (queryOfTopic(topic) ?? [])));
    while (!this.#over.signal.aborted) {
      try {
        for await (const event of store.follow(queries, { signal: this.#over.signal })) {
          this.#cache.apply(event);
          this.isComplete = true;
        }
      } catch (cause) {
        // As an agent, it begins again.
        if (!isNetplugError(cause, 'store/unavailable')) throw cause;
      }
    }
  }
}

/** Fields in one order, and no versions of objects: what crosses as stored has none. */
function plain(key: string, value: unknown): unknown {
  if (key === 'resourceVersion' || key === 'generation' || key === 'managedFields') return undefined;
  if (value instanceof Map) return [...value];
  if (typeof value === 'bigint') return String(value);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}
