import { invariant, never } from '../../base/errors.ts';
import { slicesOf } from '../../base/slices.ts';
import { encodeBlock } from '../../model/ip-block-codec.ts';
import type { IpBlock } from '../../model/ip-block.ts';
import { endpointIdOf } from '../../model/workload-endpoint.ts';
import { blockAfter } from '../block-after.ts';
import { borrowerChange } from '../borrowers.ts';
import { encodeBorrowed } from './borrowed-records.ts';
import { storedEndpoint } from '../stored-resource.ts';
import type { Change } from '../allocation-store.ts';
import type { TxnRequest } from '../../../proto/gen/etcd.ts';
import type { Keys } from './keys.ts';
import { absent, type Condition, MAX_OPS, nestedTxn, type Op, put, remove, txn, unchanged } from './requests.ts';

/**
 * In one nested transaction: etcd allows it what the outer one leaves of `MAX_OPS`, so half is most in all. The outer one may
 * get a condition more, that of a leader.
 */
const MAX_NESTED_OPS = MAX_OPS / 2 - 1;

/**
 * The one transaction that carries all the changes, or none when something is not as they expect. A block that changes its
 * owner has an index key for each borrower, which may be more than etcd takes in a transaction that is not nested.
 */
export function planCommit(keys: Keys, changes: readonly Change[]): TxnRequest {
  const parts = changes.map((change) => planChange(keys, change));
  const compare = parts.flatMap((part) => part.compare);
  const ops = parts.flatMap((part) => part.ops);
  const isNested = ops.length > MAX_OPS;
  const success = isNested ? slicesOf(ops, MAX_NESTED_OPS).map((some) => nestedTxn(txn({ success: some }))) : ops;
  const limit = isNested ? MAX_OPS / 2 : MAX_OPS;
  invariant(
    Math.max(compare.length, success.length) <= limit,
    `a commit of ${String(compare.length)} conditions and ${String(ops.length)} operations is more than etcd takes`,
  );
  return txn({ compare, success });
}

interface Part {
  readonly compare: readonly Condition[];
  readonly ops: readonly Op[];
}

function planChange(keys: Keys, change: Change): Part {
  switch (change.kind) {
    case 'create-block': {
      const { pool } = change;
      const block = blockAfter(change);
      const asRead =
        pool === undefined
          ? []
          : [unchanged(keys.resource({ kind: 'IPPool', name: pool.value.metadata.name }), pool.version)];
      return {
        compare: [absent(keys.claim(block.cidr)), ...asRead],
        ops: [put(keys.claim(block.cidr), block.node ?? ''), ...blockOps(keys, undefined, block)],
      };
    }
    case 'update-block': {
      const { before } = change;
      const after = blockAfter(change);
      const isMoved = before.value.node !== after.node;
      return {
        compare: [unchanged(keys.block(after.cidr, before.value.node), before.version)],
        ops: [
          ...(isMoved ? [put(keys.claim(after.cidr), after.node ?? '')] : []),
          ...(isMoved ? [remove(keys.block(after.cidr, before.value.node))] : []),
          ...blockOps(keys, before.value, after),
        ],
      };
    }
    case 'delete-block': {
      const { value, version } = change.before;
      const key = keys.block(value.cidr, value.node);
      return {
        compare: [unchanged(key, version)],
        ops: [remove(key), remove(keys.claim(value.cidr)), ...borrowedOps(keys, value, undefined)],
      };
    }
    case 'put-endpoint': {
      const key = keys.endpoint(endpointIdOf(change.endpoint));
      const { over } = change;
      const asRead = over === 'none' ? [absent(key)] : over === undefined ? [] : [unchanged(key, over.version)];
      return {
        compare: asRead,
        ops: [put(key, JSON.stringify(storedEndpoint(change.endpoint)))],
      };
    }
    case 'delete-endpoint':
      return deletion(keys.endpoint(endpointIdOf(change.before.value)), change.before.version);
    case 'delete-pool':
      return deletion(
        keys.resource({ kind: 'IPPool', name: change.before.value.metadata.name }),
        change.before.version,
      );
    default:
      return never(change);
  }
}

function deletion(key: string, version: string): Part {
  return { compare: [unchanged(key, version)], ops: [remove(key)] };
}

function blockOps(keys: Keys, before: IpBlock | undefined, after: IpBlock): Op[] {
  return [
    put(keys.block(after.cidr, after.node), JSON.stringify(encodeBlock(after))),
    ...borrowedOps(keys, before, after),
  ];
}

function borrowedOps(keys: Keys, before: IpBlock | undefined, after: IpBlock | undefined): Op[] {
  const block = after ?? before;
  if (block === undefined) return [];
  const { updated, removed } = borrowerChange(before, after);
  return [
    ...[...updated].map(([node, ordinals]) =>
      put(keys.borrowed(node, block.cidr), encodeBorrowed({ owner: after?.node, ordinals })),
    ),
    ...removed.map((node) => remove(keys.borrowed(node, block.cidr))),
  ];
}
