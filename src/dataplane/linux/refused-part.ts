import { isNetplugError, NetplugError } from '../../base/errors.ts';
import { isPassing } from './nft-socket.ts';
import type { PolicyPart } from './plan-policy-batch.ts';

/** Reports whether the table came or went between what was read and what was written. */
export function isTableOvertaken(cause: unknown): boolean {
  if (!isNetplugError(cause, 'kernel/failed') || cause.facts['rule'] !== undefined) return false;
  return ['ENOENT', 'EEXIST'].includes(String(cause.facts['errno']));
}

/** A part of so many bytes is to blame itself when the kernel has no memory for it. */
const LARGE_BYTES = 1_000_000;

/** Returns the error of a part with its owner, when the kernel refuses what is in it: not when the table was removed. */
export function ofOwner(cause: unknown, { owner, messages }: PolicyPart): unknown {
  if (owner === undefined || !isNetplugError(cause, 'kernel/failed')) return cause;
  const { message, facts } = cause;
  const isLarge = messages.reduce((sum, { body }) => sum + body.length, 0) > LARGE_BYTES;
  if (isPassing(cause) && !(isLarge && ['ENOMEM', 'ENOBUFS'].includes(String(facts['errno'])))) return cause;
  const isMissing = facts['rule'] === undefined && facts['errno'] === 'ENOENT';
  return isMissing ? cause : new NetplugError('kernel/failed', message, { facts: { ...facts, owner }, cause });
}
