import type { Allocation, IpBlock, LastRelease } from './ip-block.ts';

/** The cool-down of an address that was released, in seconds, unless the IPAMConfiguration sets another one; 0 is none. */
export const DEFAULT_COOL_DOWN_SECONDS = 30;
export const MAX_COOL_DOWN_SECONDS = 3600;

/** How far the clock of the node that released an address may be ahead. A later time is that of a clock that was changed. */
const CLOCK_SKEW_SECONDS = 5;

/** The time of the question, in milliseconds since 1970, and for how long an address cools down. */
export interface CoolDown {
  readonly nowMs: number;
  readonly seconds: number;
}

/** Returns the time of a release as blocks record it. Rounded up, so that no cool-down is cut short. */
export function releaseTime({ now }: { readonly now: () => number }): number {
  return Math.ceil(now() / 1000);
}

/** Names the pod of an allocation, `namespace/name`, or its handle where no pod is known. */
export function lastHolderOf({ namespace, pod, handle }: Pick<Allocation, 'namespace' | 'pod' | 'handle'>): string {
  return pod === undefined ? handle : `${namespace ?? ''}/${pod}`;
}

/** Records a release, and drops those that are over whatever the setting, or from before a clock was changed. */
export function noteRelease(released: Map<number, LastRelease>, ordinal: number, latest: LastRelease): void {
  for (const [each, { at }] of released) if (Math.abs(latest.at - at) >= MAX_COOL_DOWN_SECONDS) released.delete(each);
  released.set(ordinal, latest);
}

/** Returns until when a free address cools down, in seconds since 1970; undefined when it does not. */
export function coolsUntil(
  { released }: Pick<IpBlock, 'released'>,
  ordinal: number,
  { nowMs, seconds }: CoolDown,
): number | undefined {
  const at = released.get(ordinal)?.at;
  if (at === undefined) return undefined;
  const age = nowMs / 1000 - at;
  return age >= -CLOCK_SKEW_SECONDS && age < seconds ? at + seconds : undefined;
}

/** Returns how many free addresses of the block cool down. */
export function countCooling(block: IpBlock, coolDown: CoolDown): number {
  if (block.released.size === 0) return 0;
  return block.queue.filter((ordinal) => coolsUntil(block, ordinal, coolDown) !== undefined).length;
}
