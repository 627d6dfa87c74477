import type { MessageInitShape } from '@bufbuild/protobuf';
import type { Channel } from '../../base/channel.ts';
import { timedOut } from '../../base/timed-out.ts';
import type { LeaseKeepAliveRequestSchema, LeaseKeepAliveResponse } from '../../../proto/gen/etcd_pb.js';
import type { EtcdEndpoint } from './etcd-endpoint.ts';
import { LEADER_ONLY } from './follow-stream.ts';
import { etcdError, judge } from './translate-error.ts';

export type RenewalInit = MessageInitShape<typeof LeaseKeepAliveRequestSchema>;

/** Yields the responses to the renewals on a stream, one each. It ends only with an error. @throws store/unavailable, store/refused */
export async function* renewalStream(
  { origin, connection, renewal }: Pick<EtcdEndpoint, 'origin' | 'connection' | 'renewal'>,
  { requests, signal }: { readonly requests: Channel<RenewalInit>; readonly signal: AbortSignal },
): AsyncGenerator<LeaseKeepAliveResponse> {
  try {
    yield* renewal.leaseKeepAlive(requests, { signal, headers: LEADER_ONLY });
  } catch (cause) {
    if (!signal.aborted) throw etcdError(judge(cause), `at ${origin}`, cause);
    connection.suspect();
    throw timedOut(signal, `renewing a lease at ${origin}`);
  }
  throw etcdError({ code: 'store/unavailable', reason: 'it ended the renewals' }, `at ${origin}`);
}
