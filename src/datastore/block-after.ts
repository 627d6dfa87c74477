import { invariant } from '../base/errors.ts';
import type { IpBlock } from '../model/ip-block.ts';
import { applyOperations } from '../model/slot-operation.ts';
import { formatCidr } from '../net/cidr.ts';
import type { Change } from './allocation-store.ts';

/** Returns the block that the change writes. Its operations were planned on the block that it names. */
export function blockAfter(change: Extract<Change, { kind: 'create-block' | 'update-block' }>): IpBlock {
  const before = change.kind === 'create-block' ? change.block : change.before.value;
  const after = applyOperations(before, change.operations ?? []);
  invariant(after !== undefined, `an operation does not fit block ${formatCidr(before.cidr)}`);
  return after;
}
