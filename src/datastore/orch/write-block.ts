import { isDeepStrictEqual } from 'node:util';
import { invariant, NetplugError } from '../../base/errors.ts';
import { encodeBlock } from '../../model/ip-block-codec.ts';
import type { IpBlock } from '../../model/ip-block.ts';
import { type Cidr, formatCidr } from '../../net/cidr.ts';
import type { ApiAnswer } from '../../kube/answers.ts';
import type { ApiObject } from '../../kube/objects.ts';
import type { OrchApi } from '../../kube/orch-api.ts';
import type { Outcome, Stored } from '../allocation-store.ts';
import { blockObject, BLOCKS, formatVersion, parseVersion, readBlock, versionOf } from './block-objects.ts';
import { blockObjectName } from './names.ts';
import { Unreadable } from '../unreadable.ts';

/** One block to be written: made when there is no `before`, deleted when there is no `after`. */
export interface BlockWrite {
  readonly cidr: Cidr;
  readonly before: Stored<IpBlock> | undefined;
  readonly after: IpBlock | undefined;
  /** Allocations in `after` that were returned to a caller, and are never reverted. */
  readonly returned?: ReadonlySet<string>;
}

/** Facts for reverting a write: the object as the API has it now, none when the block is gone. */
export interface Written extends BlockWrite {
  readonly object: ApiObject | undefined;
}

/** Number of times that the revert is tried while other writers change the block. */
const UNDO_TRIES = 16;

/** Writes one block if it is still as it was read. The name decides creation, uid and resourceVersion the rest. */
export async function writeBlock(api: OrchApi, write: BlockWrite, signal: AbortSignal): Promise<Written | 'conflict'> {
  const { cidr, before, after } = write;
  if (after === undefined) {
    if (before === undefined) return { ...write, object: undefined };
    const name = blockObjectName(cidr);
    const answer = await api.delete({ collection: BLOCKS, name, preconditions: parseVersion(before.version) }, signal);
    const isGone = answer.outcome === 'ok' || (answer.outcome === 'not-found' && answer.mayBeOurs);
    return isGone ? { ...write, object: undefined } : decided(answer, 'conflict');
  }
  if (before === undefined) {
    return settle(
      api,
      { ...write, after, answer: await api.create({ collection: BLOCKS, object: blockObject(after) }, signal) },
      signal,
    );
  }
  const object = blockObject(after, parseVersion(before.version));
  const answer = await api.replace({ collection: BLOCKS, object }, signal);
  return settle(api, { ...write, after, answer }, signal);
}

/**
 * Reverts a write. A block that was made, deleted or taken over is as before again, unless another writer has changed
 * it or an allocation was returned to a caller. Of any other block only the slots that the write took and that were not
 * returned are reverted: watches have shown the rest, and a process may have acted on a release or a pre-allocation.
 */
export async function revertWrite(api: OrchApi, write: Written, signal: AbortSignal): Promise<void> {
  const { cidr, before, after, returned = new Set() } = write;
  const isSameOwner = before !== undefined && after !== undefined && before.value.node === after.node;
  if (!isSameOwner && returned.size === 0 && (await undoExactly(api, write, signal)) === 'committed') return;
  if (after === undefined) return;
  for (let attempt = 0; attempt < UNDO_TRIES; attempt += 1) {
    const answer = await api.get(BLOCKS, blockObjectName(cidr), signal);
    const now = answer.outcome === 'ok' ? readBlock(answer.value) : undefined;
    if (now === undefined || now instanceof Unreadable) return;
    const reverted = revertSlots(now.value, { before: before?.value, after, returned });
    if (reverted === now.value) return;
    if ((await writeBlock(api, { cidr, before: now, after: reverted }, signal)) !== 'conflict') return;
  }
  throw new NetplugError('store/conflict', `Cannot revert block ${formatCidr(cidr)}: other writers keep changing it`, {
    hint: 'The next ADD, DEL or "netplugctl ipam check" of the node finds what is left',
  });
}

/** The block with the slots that `after` took as `before` has them, unless another writer or a caller has them now. */
export function revertSlots(
  now: IpBlock,
  {
    before,
    after,
    returned,
  }: { readonly before: IpBlock | undefined; readonly after: IpBlock; readonly returned: ReadonlySet<string> },
): IpBlock {
  const slots = new Map(now.slots);
  const preallocated = new Map(now.preallocated);
  const free: number[] = [];
  for (const [ordinal, { id }] of after.slots) {
    const earlier = before?.slots.get(ordinal);
    if (earlier?.id === id || returned.has(id) || slots.get(ordinal)?.id !== id) continue;
    const preallocationId = before?.preallocated.get(ordinal);
    if (earlier === undefined) slots.delete(ordinal);
    else slots.set(ordinal, earlier);
    if (earlier === undefined && preallocationId !== undefined) preallocated.set(ordinal, preallocationId);
    if (earlier === undefined && preallocationId === undefined) free.push(ordinal);
  }
  const isSame = [...after.slots].every(([ordinal]) => slots.get(ordinal) === now.slots.get(ordinal));
  return isSame ? now : { ...now, slots, preallocated, queue: [...now.queue, ...free] };
}

async function undoExactly(
  api: OrchApi,
  { cidr, before, after, object }: Written,
  signal: AbortSignal,
): Promise<Outcome> {
  const now =
    after === undefined || object === undefined
      ? undefined
      : { value: after, version: formatVersion(versionOf(object)) };
  const undone = await writeBlock(api, { cidr, before: now, after: before?.value }, signal);
  return undone === 'conflict' ? 'conflict' : 'committed';
}

/**
 * Returns what an answer to a creation or an update means. After an unanswered try the conflict may be with that try itself:
 * the block is read, and ours if it says what we wrote, for allocation ids never repeat.
 */
async function settle(
  api: OrchApi,
  { answer, ...write }: BlockWrite & { readonly after: IpBlock; readonly answer: ApiAnswer<ApiObject> },
  signal: AbortSignal,
): Promise<Written | 'conflict'> {
  if (answer.outcome === 'ok') return { ...write, object: answer.value };
  if (!answer.mayBeOurs) return decided(answer, 'conflict');
  const now = await api.get(BLOCKS, blockObjectName(write.cidr), signal);
  if (now.outcome !== 'ok' || !isDeepStrictEqual(now.value['spec'], encodeBlock(write.after))) return 'conflict';
  return { ...write, object: now.value };
}

/** Lost races are outcomes; an object that the API finds invalid is our mistake. */
function decided<T>(answer: Exclude<ApiAnswer<unknown>, { outcome: 'ok' }>, conflict: T): T {
  invariant(answer.outcome !== 'invalid', `the API finds a block of ours invalid: ${answer.message}`);
  return conflict;
}
