import type { Channel } from '../../base/channel.ts';
import { timedOut } from '../../base/timed-out.ts';
import type { LeaseKeepAliveRequest, LeaseKeepAliveResponse } from '../../../proto/gen/etcd.ts';
import type { EtcdEndpoint } from './etcd-endpoint.ts';
import { LEASE_KEEP_ALIVE } from './etcd-methods.ts';
import { grpcStream } from './grpc-stream.ts';
import { etcdError, judge } from './translate-error.ts';

/** Yields the responses to the renewals on a stream, one each. It ends only with an error. @throws store/unavailable, store/refused */
export async function* renewalStream(
  { origin, connection }: Pick<EtcdEndpoint, 'origin' | 'connection'>,
  { requests, signal }: { readonly requests: Channel<LeaseKeepAliveRequest>; readonly signal: AbortSignal },
): AsyncGenerator<LeaseKeepAliveResponse> {
  try {
    yield* grpcStream(connection, LEASE_KEEP_ALIVE, { requests, signal });
  } catch (cause) {
    if (!signal.aborted) throw etcdError(judge(cause), `at ${origin}`, cause);
    connection.suspect();
    throw timedOut(signal, `renewing a lease at ${origin}`);
  }
  throw etcdError({ code: 'store/unavailable', reason: 'it ended the renewals' }, `at ${origin}`);
}
