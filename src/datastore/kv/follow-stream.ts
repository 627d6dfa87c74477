import type { Channel } from '../../base/channel.ts';
import { repeat } from '../../base/clock.ts';
import { timedOut } from '../../base/timed-out.ts';
import type { WatchRequest, WatchResponse } from '../../../proto/gen/etcd.ts';
import type { EtcdEndpoint } from './etcd-endpoint.ts';
import { WATCH } from './etcd-methods.ts';
import { grpcStream } from './grpc-stream.ts';
import { DEFAULT_PREFIX } from './keys.ts';
import { bytesOf, cancelWatch, createWatch } from './requests.ts';
import { etcdError, judge } from './translate-error.ts';

/**
 * Probe: creates and cancels a watch. etcd leaves progress requests unanswered while a watch starts at a future revision.
 * The user may read the key, because etcd does not say which watch of a stream it has refused.
 */
const PROBE_ID = 1n << 62n;
const PROBE: readonly WatchRequest[] = [
  createWatch({ key: bytesOf(`${DEFAULT_PREFIX}/probe`), watchId: PROBE_ID }),
  cancelWatch(PROBE_ID),
];

/**
 * Yields the responses to the requests on a stream of watches. Probes the server while nothing arrives, and fails when it
 * has been silent for `silenceMs`. The time that the caller takes between two responses does not count.
 * @throws store/unavailable, store/refused
 */
export async function* followStream(
  { origin, connection }: Pick<EtcdEndpoint, 'origin' | 'connection'>,
  { requests, silenceMs, signal }: { requests: Channel<WatchRequest>; silenceMs: number; signal: AbortSignal },
): AsyncGenerator<WatchResponse> {
  const over = new AbortController();
  const probeMs = silenceMs / 3;
  const either = AbortSignal.any([signal, over.signal]);
  let waitingSince = performance.now();
  repeat(
    () => {
      for (const request of PROBE) requests.push(request);
      // The last answer came shortly after a probe.
      if (performance.now() - waitingSince >= silenceMs - probeMs / 2) over.abort();
    },
    probeMs,
    either,
  );
  try {
    for await (const response of grpcStream(connection, WATCH, { requests, signal: either })) {
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
