import type {
  LeaseGrantResponse,
  LeaseRevokeResponse,
  RangeRequest,
  RangeResponse,
  TxnRequest,
  TxnResponse,
} from '../../../proto/gen/etcd.ts';
import { LEASE_GRANT, LEASE_REVOKE, RANGE, TXN } from './etcd-methods.ts';
import {
  expectGrpc,
  expectSuccess,
  framed,
  GRPC_HEADERS,
  GrpcCode,
  GrpcError,
  GrpcFrames,
  type GrpcMethod,
} from './grpc.ts';
import type { Http2Connection, UnaryResponse } from './http2-connection.ts';

/** etcd's KV service over one connection. Answers with an error status reject with a GrpcError. */
export interface UnaryKv {
  range(request: RangeRequest, signal: AbortSignal): Promise<RangeResponse>;
  txn(request: TxnRequest, signal: AbortSignal): Promise<TxnResponse>;
}

/** etcd's Lease service, likewise. */
export interface UnaryLease {
  grant(ttlS: bigint, signal: AbortSignal): Promise<LeaseGrantResponse>;
  revoke(id: bigint, signal: AbortSignal): Promise<LeaseRevokeResponse>;
}

type Connection = Pick<Http2Connection, 'post'>;

export function unaryKv(connection: Connection): UnaryKv {
  return {
    range: async (request, signal) => call(connection, RANGE, { request, signal }),
    txn: async (request, signal) => call(connection, TXN, { request, signal }),
  };
}

export function unaryLease(connection: Connection): UnaryLease {
  return {
    // etcd chooses the id.
    grant: async (ttlS, signal) => call(connection, LEASE_GRANT, { request: { TTL: ttlS, ID: 0n }, signal }),
    revoke: async (id, signal) => call(connection, LEASE_REVOKE, { request: { ID: id }, signal }),
  };
}

async function call<I, O>(
  connection: Connection,
  { path, encode, decode }: GrpcMethod<I, O>,
  { request, signal }: { readonly request: I; readonly signal: AbortSignal },
): Promise<O> {
  const body = framed(encode(request));
  return decode(messageIn(await connection.post(path, { headers: GRPC_HEADERS, body, signal })));
}

/** @throws GrpcError with the status that the server gave, or for an answer that is not one message of gRPC */
function messageIn(response: UnaryResponse): Uint8Array {
  expectGrpc(response.headers);
  expectSuccess(response);
  const frames = new GrpcFrames();
  const [message, ...more] = frames.take(response.body);
  frames.end();
  if (message === undefined || more.length > 0)
    throw new GrpcError('protocol error: the answer is not one message', GrpcCode.Internal);
  return message;
}
