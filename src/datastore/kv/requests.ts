import {
  type Compare,
  Compare_CompareResult,
  Compare_CompareTarget,
  type KeyValue,
  type RangeRequest,
  type RequestOp,
  type TxnRequest,
  type TxnResponse,
  type WatchCreateRequest,
  type WatchRequest,
} from '../../../proto/gen/etcd.ts';
import type { KeyRange } from './keys.ts';

export type Op = RequestOp;
export type Condition = Compare;
/** A key and the etcd lease that it ends with. A lease has one holder, and its number is never used again. */
export interface LeasedKey {
  readonly key: string;
  readonly lease: bigint;
}
/** Request for a range. Fields that are left out are empty or zero, as in the protocol. */
export type RangeInit = Partial<RangeRequest>;

const EMPTY = new Uint8Array();

const encoder = new TextEncoder();
const decoder = new TextDecoder();
export const bytesOf = (text: string): Uint8Array => encoder.encode(text);
export const decodeText = (bytes: Uint8Array): string => decoder.decode(bytes);

export function rangeOf({ from, to }: KeyRange): { readonly key: Uint8Array; readonly rangeEnd: Uint8Array } {
  return { key: bytesOf(from), rangeEnd: bytesOf(to) };
}

export function get(key: string, revision?: bigint): Op {
  return getRange({ key: bytesOf(key), ...(revision === undefined ? {} : { revision }) });
}

export function getRange(range: RangeInit): Op {
  return { request: { $case: 'requestRange', value: rangeRequest(range) } };
}

export function rangeRequest(init: RangeInit): RangeRequest {
  return { key: EMPTY, rangeEnd: EMPTY, limit: 0n, revision: 0n, keysOnly: false, ...init };
}

/** With a lease, the key is deleted when the lease ends. */
export function put(key: string, value: string, lease = 0n): Op {
  return { request: { $case: 'requestPut', value: { key: bytesOf(key), value: bytesOf(value), lease } } };
}

export function remove(key: string): Op {
  return { request: { $case: 'requestDeleteRange', value: { key: bytesOf(key), rangeEnd: EMPTY } } };
}

/** The key holds what was read at that version. */
export function unchanged(key: string, version: string): Condition {
  return {
    result: Compare_CompareResult.EQUAL,
    target: Compare_CompareTarget.MOD,
    key: bytesOf(key),
    targetUnion: { $case: 'modRevision', value: revisionOf(version) },
  };
}

export function absent(key: string): Condition {
  return {
    result: Compare_CompareResult.EQUAL,
    target: Compare_CompareTarget.CREATE,
    key: bytesOf(key),
    targetUnion: { $case: 'createRevision', value: 0n },
  };
}

/** The key is there and bound to that lease. */
export function leased({ key, lease }: LeasedKey): Condition {
  return {
    result: Compare_CompareResult.EQUAL,
    target: Compare_CompareTarget.LEASE,
    key: bytesOf(key),
    targetUnion: { $case: 'lease', value: lease },
  };
}

export function present(key: string): Condition {
  return { ...absent(key), result: Compare_CompareResult.GREATER };
}

/** A watch of one key, or of a range, from a revision on. */
export function createWatch(
  init: Pick<WatchCreateRequest, 'key' | 'watchId'> & Partial<WatchCreateRequest>,
): WatchRequest {
  return {
    requestUnion: {
      $case: 'createRequest',
      value: { rangeEnd: EMPTY, startRevision: 0n, progressNotify: false, ...init },
    },
  };
}

export function cancelWatch(watchId: bigint): WatchRequest {
  return { requestUnion: { $case: 'cancelRequest', value: { watchId } } };
}

/** Maximum number of operations in one transaction of etcd, unless it is started with another limit. */
export const MAX_OPS = 128;

export function txn(parts: {
  readonly compare?: readonly Condition[];
  readonly success: readonly Op[];
  readonly failure?: readonly Op[];
}): TxnRequest {
  return { compare: [...(parts.compare ?? [])], success: [...parts.success], failure: [...(parts.failure ?? [])] };
}

/** A transaction as an operation of another one: both take effect together. */
export function nestedTxn(value: TxnRequest): Op {
  return { request: { $case: 'requestTxn', value } };
}

/** Returns what each range of a transaction found, in the order asked for. */
export function rangesIn(response: TxnResponse): KeyValue[][] {
  return response.responses.map(({ response: part }) => (part?.$case === 'responseRange' ? part.value.kvs : []));
}

/** Converts a version to a revision. A version that is not from etcd becomes -1, which matches no record. */
export function revisionOf(version: string): bigint {
  return /^[1-9]\d{0,18}$/.test(version) ? BigInt(version) : -1n;
}
