import type { BinaryReader, BinaryWriter } from '@bufbuild/protobuf/wire';
import {
  LeaseGrantRequest,
  LeaseGrantResponse,
  LeaseKeepAliveRequest,
  LeaseKeepAliveResponse,
  LeaseRevokeRequest,
  LeaseRevokeResponse,
  RangeRequest,
  RangeResponse,
  TxnRequest,
  TxnResponse,
  WatchRequest,
  WatchResponse,
} from '../../../proto/gen/etcd.ts';
import type { GrpcMethod } from './grpc.ts';

interface Message<T> {
  readonly encode: (message: T) => BinaryWriter;
  readonly decode: (input: BinaryReader | Uint8Array) => T;
}

export const RANGE = method('KV/Range', RangeRequest, RangeResponse);
export const TXN = method('KV/Txn', TxnRequest, TxnResponse);
export const LEASE_GRANT = method('Lease/LeaseGrant', LeaseGrantRequest, LeaseGrantResponse);
export const LEASE_REVOKE = method('Lease/LeaseRevoke', LeaseRevokeRequest, LeaseRevokeResponse);
export const LEASE_KEEP_ALIVE = method('Lease/LeaseKeepAlive', LeaseKeepAliveRequest, LeaseKeepAliveResponse);
export const WATCH = method('Watch/Watch', WatchRequest, WatchResponse);

function method<I, O>(name: string, request: Message<I>, response: Message<O>): GrpcMethod<I, O> {
  return {
    path: `/etcdserverpb.${name}`,
    encode: (message) => request.encode(message).finish(),
    decode: (bytes) => response.decode(bytes),
  };
}
