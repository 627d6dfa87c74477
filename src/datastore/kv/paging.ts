import type { EtcdClient } from './etcd-client.ts';
import type { KeyValue } from '../../../proto/gen/etcd.ts';
import { GrpcCode, GrpcError } from './grpc.ts';
import type { KeyRange } from './keys.ts';
import { bytesOf, rangeOf } from './requests.ts';

export interface RangeListing {
  readonly kvs: readonly KeyValue[];
  /** The revision at which all of it was true. */
  readonly revision: bigint;
}

/** Everything in the range at one revision, fetched a page at a time so that no answer grows without bound. */
export async function listRange(
  client: EtcdClient,
  range: KeyRange,
  { pageSize, revision, signal }: { pageSize: number; revision?: bigint; signal: AbortSignal },
): Promise<RangeListing> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await listOnce(client, range, { pageSize, revision: revision ?? 0n, signal });
    } catch (cause) {
      // etcd forgot the revision between two pages: begin again with a newer one.
      if (attempt === 3 || revision !== undefined || !isCompacted(cause)) throw cause;
    }
  }
}

export function isCompacted(cause: unknown): boolean {
  const answer = cause instanceof Error ? cause.cause : undefined;
  return answer instanceof GrpcError && answer.code === GrpcCode.OutOfRange;
}

async function listOnce(
  client: EtcdClient,
  range: KeyRange,
  { pageSize, revision, signal }: { pageSize: number; revision: bigint; signal: AbortSignal },
): Promise<RangeListing> {
  const whole = rangeOf(range);
  const kvs: KeyValue[] = [];
  let key = bytesOf(range.from);
  let at = revision;
  for (;;) {
    const page = await client.range({ ...whole, key, revision: at, limit: BigInt(pageSize) }, signal);
    at = at === 0n ? (page.header?.revision ?? 0n) : at;
    kvs.push(...page.kvs);
    const last = page.kvs.at(-1);
    if (!page.more || last === undefined) return { kvs, revision: at };
    // The smallest key that follows: the same with a zero byte.
    key = Uint8Array.from([...last.key, 0]);
  }
}
