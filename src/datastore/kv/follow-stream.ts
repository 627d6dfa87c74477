import type { MessageInitShape } from '@bufbuild/protobuf';
import type { Client } from '@connectrpc/connect';
import type { Channel } from '../../base/channel.ts';
import { repeat } from '../../base/clock.ts';
import { timedOut } from '../../base/timed-out.ts';
import type { Watch, WatchRequestSchema, WatchResponse } from '../../../proto/gen/etcd_pb.js';
import type { Http2Connection } from './http2-connection.ts';
import { DEFAULT_PREFIX } from './keys.ts';
import { bytesOf } from './requests.ts';
import { etcdError, judge } from './translate-error.ts';

export type WatchInit = MessageInitShape<typeof WatchRequestSchema>;

/** The server and connection of a stream of watches. */
export interface WatchTarget {
  readonly origin: string;
  readonly connection: Http2Connection;
  readonly watch: Client<typeof Watch>;
}

/** Makes a member that has lost its leader, and so receives no changes, close the stream. */
export const LEADER_ONLY = { hasleader: 'true' };

/**
 * Probe: creates and cancels a watch. etcd leaves progress requests unanswered while a watch starts at a future revision.
 * The user may read the key, because etcd does not say which watch of a stream it has refused.
 */
const PROBE_ID = 1n << 62n;
const PROBE: readonly WatchInit[] = [
  { requestUnion: { case: 'createRequest', value: { key: bytesOf(`${DEFAULT_PREFIX}/probe`), watchId: PROBE_ID } } },
  { requestUnion: { case: 'cancelRequest', value: { watchId: PROBE_ID } } },
];

/**
 * Yields the responses to the requests on a stream of watches. Probes the server while nothing arrives, and fails when it
 * has been silent for `silenceMs`. The time that the caller takes between two responses does not count.
 * @throws store/unavailable, store/refused
 */
export async function* followStream(
  { origin, connection, watch }: WatchTarget,
  { requests, silenceMs, signal }: { requests: Channel<WatchInit>; silenceMs: number; signal: AbortSignal },
): AsyncGenerator<WatchResponse> {
  const over = new AbortController();
  const either = AbortSignal.any([signal, over.signal]);
  let waitingSince = performance.now();
  repeat(
    () => {
      for (const request of PROBE) requests.push(request);
      if (performance.now() - waitingSince >= silenceMs) over.abort();
    },
    silenceMs / 3,
    either,
  );
  try {
    for await (const response of watch.watch(requests, { signal: either, headers: LEADER_ONLY })) {
      waitingSince = Number.POSITIVE_INFINITY;
      yield response;
      waitingSince = performance.now();
    }
  } catch (error) {
    if (signal.aborted) throw timedOut(signal, `watching ${origin}`);
    const isSilent = over.signal.aborted;
    if (isSilent) connection.suspect();
    const cause = isSilent ? new Error(`no data received for ${String(silenceMs)} ms`, { cause: error }) : error;
    throw etcdError(judge(cause), `at ${origin}`, cause);
  } finally {
    over.abort();
  }
  throw etcdError({ code: 'store/unavailable', reason: 'it ended the watch' }, `at ${origin}`);
}
