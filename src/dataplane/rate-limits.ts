// Limits of the rate of pods: how much passes at once before a limit holds, and how much waits.
import type { LinkOwner } from './kernel.ts';

/** More than the longest frame of a link, of an MTU of 65 535 bytes: the kernel drops frames above the burst. */
const FLOOR_BYTES = 66_000;
/** The kernel counts a burst as the time that it takes at the rate: 32 bits of 64 ns. */
const LONGEST_SECONDS = 270;
/** What the kernel and the standard plugin accept. */
const LARGEST_BYTES = 2 ** 32 - 2;
/** Time that packets may wait beyond the burst, as in the standard plugin. */
const QUEUE_SECONDS = 0.025;
/** A burst that a person has chosen takes no longer at the rate. */
const SANE_SECONDS = 1;

/** The limit of the rate of a pod in one direction, as the kernel has it. */
export interface RateLimit {
  /** The device of the host that has it: the pod's link, or for what the pod sends a device of its own. */
  readonly device: string;
  readonly deviceIndex: number;
  readonly owner: LinkOwner;
  /** `ingress` is what the pod receives. */
  readonly direction: 'ingress' | 'egress';
  readonly bytesPerSecond: number;
  /** What passes at once. */
  readonly burstBytes: number;
  /** What passes or waits; undefined when another program has replaced the queue. */
  readonly queueBytes: number | undefined;
  /** Whether `boundRate` has bounded it. */
  readonly isBounded: boolean;
}

export interface RateBounds {
  readonly burstBytes: number;
  readonly queueBytes: number;
}

/** The limits of the rates of pods in the kernel, which the standard bandwidth plugin makes. */
export interface RateLimits {
  /** Returns the limits on the links of netplug's pods, in no particular order. @throws kernel/failed */
  listRateLimits(): Promise<readonly RateLimit[]>;

  /**
   * Bounds what passes at once and what waits. Rate and burst stay as they were set, so that CHECK of the plugin finds what its
   * ADD made. Does nothing when the limit has gone. @throws kernel/failed
   */
  boundRate(limit: Pick<RateLimit, 'device' | 'deviceIndex'>, bounds: RateBounds): Promise<void>;
}

/** Returns what may pass at once, and pass or wait, at a rate whose burst takes so long. */
export function boundsFor(bytesPerSecond: number, burstMs: number): RateBounds {
  const burst = Math.max((bytesPerSecond * burstMs) / 1000, floorFor(bytesPerSecond));
  const burstBytes = Math.min(Math.floor(burst), LARGEST_BYTES);
  const queueBytes = Math.min(Math.floor(burstBytes + bytesPerSecond * QUEUE_SECONDS), LARGEST_BYTES);
  return { burstBytes, queueBytes };
}

/** Returns the bounds that the limit needs; undefined when it has them, or when a user has set others. */
export function neededBounds(limit: RateLimit, burstMs: number): RateBounds | undefined {
  if (!limit.isBounded && !isUnbounded(limit)) return undefined;
  const bounds = boundsFor(limit.bytesPerSecond, burstMs);
  return limit.isBounded && hasBounds(limit, bounds) ? undefined : bounds;
}

/** Reports whether more than the rate of a second passes or waits, as with the burst that runtimes pass when none is set. */
export function isUnbounded({ bytesPerSecond, burstBytes, queueBytes = burstBytes }: RateLimit): boolean {
  const sane = Math.max(bytesPerSecond * SANE_SECONDS, floorFor(bytesPerSecond));
  return Math.max(burstBytes, queueBytes - burstBytes) > sane;
}

export function describeRateLimit({ device, owner, direction, bytesPerSecond, burstBytes }: RateLimit): string {
  const what = direction === 'ingress' ? 'receives' : 'sends';
  const rate = `${String((bytesPerSecond * 8) / 1e6)} Mbit/s`;
  return `interface "${device}" of container "${owner.containerId}": it ${what} ${rate}, and ${String(Math.ceil(burstBytes / 1000))} kB at once`;
}

function floorFor(bytesPerSecond: number): number {
  return Math.min(FLOOR_BYTES, bytesPerSecond * LONGEST_SECONDS);
}

/** The kernel keeps the burst in units of 64 ns. */
function hasBounds({ bytesPerSecond, burstBytes, queueBytes }: RateLimit, bounds: RateBounds): boolean {
  const tolerance = 1 + bytesPerSecond * 2e-7 + bounds.burstBytes / 10_000;
  return (
    Math.abs(burstBytes - bounds.burstBytes) <= tolerance &&
    (queueBytes === undefined || queueBytes === bounds.queueBytes)
  );
}
