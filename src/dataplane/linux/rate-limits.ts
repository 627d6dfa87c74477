// The token buckets that the standard bandwidth plugin puts on the link of a pod, and on the device through which it leads what the
// pod sends. A second bucket of the same size in time, the peak rate, bounds what the first one lets pass at once.
import { shaperOf } from '../chained-state.ts';
import type { RateBounds, RateLimit } from '../rate-limits.ts';
import { decodeLink, type Link, listLinks } from './link-messages.ts';
import { isHostSide, toHostLink } from './links.ts';
import {
  decodeFifoLimit,
  decodeQueue,
  decodeTokenBucket,
  insideOf,
  listQueues,
  putFifo,
  type Queue,
  setPeak,
} from './queue-messages.ts';
import { type RouteSocket, refusal } from './route-socket.ts';

/** ENOENT, ENODEV: the limit or its device has gone. */
const GONE: ReadonlySet<number> = new Set([2, 19]);

/** See RateLimits.listRateLimits. */
export async function listRateLimits(host: RouteSocket): Promise<readonly RateLimit[]> {
  const queues = await readQueues(host);
  const buckets = queues.filter(isLimit);
  if (buckets.length === 0) return [];
  const limited = limitedDevices(host.list('list the interfaces of the host', listLinks()).map(decodeLink));
  return buckets.flatMap((queue) => {
    const { deviceIndex } = queue;
    const ofPod = limited.get(deviceIndex);
    const bucket = decodeTokenBucket(queue);
    if (ofPod === undefined || bucket === undefined) return [];
    const isBounded = bucket.peakRate === peakOf(bucket.rate);
    // A person has chosen the peak rate.
    if (bucket.peakRate > 0 && !isBounded) return [];
    const burstBytes = isBounded ? bucket.peakBurst : bucket.burst;
    const queueBytes = queueOf(queues, queue, bucket.limit);
    return [{ ...ofPod, deviceIndex, bytesPerSecond: bucket.rate, burstBytes, queueBytes, isBounded }];
  });
}

/** See RateLimits.boundRate. */
export async function boundRate(
  host: RouteSocket,
  { device, deviceIndex }: Pick<RateLimit, 'device' | 'deviceIndex'>,
  { burstBytes, queueBytes }: RateBounds,
): Promise<void> {
  const queues = await readQueues(host);
  const queue = queues.find((each) => each.deviceIndex === deviceIndex && isLimit(each));
  const bucket = queue && decodeTokenBucket(queue);
  if (queue === undefined || bucket === undefined) return;
  const messages = [
    setPeak(queue, { rate: peakOf(bucket.rate), burst: burstBytes }),
    // After the bucket, which sets the limit of a queue of this kind inside of it.
    ...(queueOf(queues, queue, 0) === undefined ? [] : [putFifo(queue, queueBytes)]),
  ] as const;
  for (const reply of await host.askOnWorker(messages))
    if (reply.errno !== 0 && !GONE.has(reply.errno))
      throw refusal(`bound the rate limit of interface "${device}"`, reply);
}

async function readQueues(host: RouteSocket): Promise<readonly Queue[]> {
  return (await host.listOnWorker('list the queues of the host', listQueues())).map(decodeQueue);
}

function isLimit({ kind, isRoot }: Queue): boolean {
  return isRoot && kind === 'tbf';
}

/** The kernel asks for a peak rate above the rate. */
function peakOf(rate: number): number {
  return rate + 1;
}

/** Returns the limit of the queue inside the bucket, which is that of the bucket unless one was put there; undefined for one of another kind. */
function queueOf(queues: readonly Queue[], { deviceIndex, handle }: Queue, limit: number): number | undefined {
  const inner = queues.find((each) => each.deviceIndex === deviceIndex && each.parent === insideOf(handle));
  if (inner === undefined) return limit;
  return inner.kind === 'bfifo' ? decodeFifoLimit(inner) : undefined;
}

type Limited = Pick<RateLimit, 'device' | 'owner' | 'direction'>;

/** Returns the devices on which the plugin limits the pods of netplug, by index. */
function limitedDevices(links: readonly Link[]): ReadonlyMap<number, Limited> {
  const limited = new Map<number, Limited>();
  const named = new Map(links.filter(({ kind }) => kind === 'ifb').map(({ name, index }) => [name, index]));
  for (const { name: device, index, owner } of links.filter(isHostSide).map(toHostLink)) {
    if (owner === undefined) continue;
    limited.set(index, { device, owner, direction: 'ingress' });
    const shaper = shaperOf(owner);
    const shaperIndex = named.get(shaper);
    if (shaperIndex !== undefined) limited.set(shaperIndex, { device: shaper, owner, direction: 'egress' });
  }
  return limited;
}
