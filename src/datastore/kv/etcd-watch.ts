import { Channel } from '../../base/channel.ts';
import type { EtcdClient } from './etcd-client.ts';
import { type Event, Event_EventType, type WatchRequest, type WatchResponse } from '../../../proto/gen/etcd.ts';
import { GrpcCode, GrpcError } from './grpc.ts';
import type { KeyRange } from './keys.ts';
import { bytesOf, cancelWatch, createWatch, rangeOf } from './requests.ts';
import { etcdError, judgeText } from './translate-error.ts';

/** Changes of one followed range at one revision or several, in their order; none when etcd says that there were none. */
export interface Batch<T> {
  readonly topic: T;
  readonly events: readonly Event[];
  /** Every change of the range up to this revision has been yielded. */
  readonly revision: bigint;
}

/** Id that etcd answers in place of the id of a watch that the user may not have. */
const REFUSED_ID = -1n;

/** Several ranges followed over one stream, each under a topic. */
export class EtcdWatch<T> {
  readonly #client: EtcdClient;
  readonly #requests = new Channel<WatchRequest>();
  readonly #topics = new Map<bigint, T>();
  #lastId = 0n;

  constructor(client: EtcdClient) {
    this.#client = client;
  }

  /**
   * Follows one key or a range of keys from the revision after `after` on; returns what `leave` takes. etcd reports the
   * progress of an idle watch each 10 minutes unless it is started with another interval.
   */
  follow(topic: T, keys: string | KeyRange, after: bigint): bigint {
    this.#lastId += 1n;
    this.#topics.set(this.#lastId, topic);
    const range = typeof keys === 'string' ? { key: bytesOf(keys) } : rangeOf(keys);
    const from = { startRevision: after + 1n, progressNotify: true };
    this.#requests.push(createWatch({ ...range, ...from, watchId: this.#lastId }));
    return this.#lastId;
  }

  leave(id: bigint): void {
    if (!this.#topics.delete(id)) return;
    this.#requests.push(cancelWatch(id));
  }

  /** Yields what happens, until it throws: store/unavailable also when etcd has forgotten the revision to begin at. */
  async *batches(signal: AbortSignal): AsyncGenerator<Batch<T>> {
    try {
      for await (const response of this.#client.watch(this.#requests, signal)) {
        const topic = this.#topics.get(response.watchId);
        const isRefused = response.canceled && response.watchId === REFUSED_ID;
        // Responses to a watch that was cancelled, or was only a probe, may still arrive.
        if (topic === undefined && !isRefused) continue;
        if (topic === undefined || response.canceled) throw lost(response);
        const { created, events, header } = response;
        const revision = events.at(-1)?.kv?.modRevision ?? header?.revision ?? 0n;
        if (!created) yield { topic, events, revision };
      }
    } finally {
      this.#requests.close();
    }
  }
}

export function isPut({ type }: Event): boolean {
  return type === Event_EventType.PUT;
}

function lost({ compactRevision, cancelReason }: WatchResponse): Error {
  const compacted = `the history that the watch needs is compacted up to revision ${String(compactRevision)}`;
  if (compactRevision === 0n) return etcdError(judgeText(cancelReason), 'for a watch');
  return etcdError(judgeText(compacted), 'for a watch', new GrpcError(compacted, GrpcCode.OutOfRange));
}
