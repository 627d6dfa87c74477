// Queueing disciplines of the kernel, of which netplug reads and changes `tbf`, the token bucket, and the queue inside of it.
import {
  type Message,
  NLM_F_ACK,
  NLM_F_CREATE,
  NLM_F_DUMP,
  NLM_F_REPLACE,
  attribute,
  decodeAttributes,
  nested,
  textAttribute,
  textOfAttribute,
  u32Attribute,
  u32Of,
} from './netlink.ts';

export const RTM_NEWQDISC = 36;
const RTM_GETQDISC = 38;
const TCMSG_BYTES = 20;
const TC_H_ROOT = 0xff_ff_ff_ff;
const TCA_KIND = 1;
const TCA_OPTIONS = 2;
const TCA_TBF_PARMS = 1;
const TCA_TBF_RATE64 = 4;
const TCA_TBF_PRATE64 = 5;
const TCA_TBF_PBURST = 7;
/** struct tc_tbf_qopt: rate and peak rate, whose last field is the rate, limit, burst of the rate, and of the peak rate. */
const TBF_PARMS_BYTES = 36;
const RATE_AT = 8;
const PEAK_AT = 20;
const LIMIT_AT = 24;
const BURST_AT = 28;
const PEAK_BURST_AT = 32;
const LARGEST_U32 = 0xff_ff_ff_ff;
const SECONDS_PER_TICK = 64e-9;

/** One queueing discipline as the kernel reports it. */
export interface Queue {
  readonly deviceIndex: number;
  readonly kind: string;
  readonly handle: number;
  readonly isRoot: boolean;
  readonly parent: number;
  readonly options: Buffer;
}

/** Parameters of a token bucket; bytes, and bytes per second. */
export interface TokenBucket {
  readonly rate: number;
  readonly burst: number;
  /** 0 without one. */
  readonly peakRate: number;
  readonly peakBurst: number;
  readonly limit: number;
}

export function listQueues(): Message {
  return { type: RTM_GETQDISC, flags: NLM_F_DUMP, body: Buffer.alloc(TCMSG_BYTES) };
}

export function decodeQueue(body: Buffer): Queue {
  const attributes = decodeAttributes(body.subarray(TCMSG_BYTES));
  const parent = body.readUInt32LE(12);
  return {
    deviceIndex: body.readInt32LE(4),
    kind: textOfAttribute(attributes, TCA_KIND),
    handle: body.readUInt32LE(8),
    isRoot: parent === TC_H_ROOT,
    parent,
    options: attributes.get(TCA_OPTIONS) ?? Buffer.alloc(0),
  };
}

/** Returns the parameters of a queue of kind `tbf`; undefined when the kernel reports none. */
export function decodeTokenBucket({ options }: Queue): TokenBucket | undefined {
  const attributes = decodeAttributes(options);
  const parms = attributes.get(TCA_TBF_PARMS);
  if (parms === undefined || parms.length < TBF_PARMS_BYTES) return undefined;
  const rate = u64Of(attributes.get(TCA_TBF_RATE64)) ?? parms.readUInt32LE(RATE_AT);
  const peakRate = u64Of(attributes.get(TCA_TBF_PRATE64)) ?? parms.readUInt32LE(PEAK_AT);
  return {
    rate,
    burst: parms.readUInt32LE(BURST_AT) * SECONDS_PER_TICK * rate,
    peakRate,
    peakBurst: parms.readUInt32LE(PEAK_BURST_AT) * SECONDS_PER_TICK * peakRate,
    limit: parms.readUInt32LE(LIMIT_AT),
  };
}

/** Returns the limit, in bytes, of a queue of kind `bfifo`. */
export function decodeFifoLimit({ options }: Queue): number | undefined {
  return u32Of(options);
}

/** Sets peak rate and peak burst of a token bucket, and leaves all else as it is. */
export function setPeak(queue: Queue, peak: { readonly rate: number; readonly burst: number }): Message {
  const attributes = decodeAttributes(queue.options);
  const parms = Buffer.from(attributes.get(TCA_TBF_PARMS) ?? Buffer.alloc(TBF_PARMS_BYTES));
  parms.writeUInt32LE(Math.min(peak.rate, LARGEST_U32), PEAK_AT);
  const rate64 = attributes.get(TCA_TBF_RATE64);
  const options = [
    attribute(TCA_TBF_PARMS, parms),
    ...(rate64 === undefined ? [] : [attribute(TCA_TBF_RATE64, rate64)]),
    ...(peak.rate < LARGEST_U32 ? [] : [attribute(TCA_TBF_PRATE64, u64Bytes(peak.rate))]),
    u32Attribute(TCA_TBF_PBURST, peak.burst),
  ];
  const body = [tcMessage(queue), textAttribute(TCA_KIND, 'tbf'), nested(TCA_OPTIONS, options)];
  return { type: RTM_NEWQDISC, flags: NLM_F_ACK, body: Buffer.concat(body) };
}

/** Puts a queue of so many bytes into a token bucket, or changes the one that was put there. */
export function putFifo({ deviceIndex, handle }: Queue, limitBytes: number): Message {
  // The kernel chooses a handle, by which the queue differs from the one that it makes by itself and cannot change.
  const header = tcMessage({ deviceIndex, handle: 0, parent: insideOf(handle) });
  const body = [header, textAttribute(TCA_KIND, 'bfifo'), u32Attribute(TCA_OPTIONS, limitBytes)];
  return { type: RTM_NEWQDISC, flags: NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE, body: Buffer.concat(body) };
}

/** Returns the parent of the queue inside a token bucket with that handle. */
export function insideOf(handle: number): number {
  return (handle | 1) >>> 0;
}

function tcMessage({ deviceIndex, handle, parent }: Pick<Queue, 'deviceIndex' | 'handle' | 'parent'>): Buffer {
  const bytes = Buffer.alloc(TCMSG_BYTES);
  bytes.writeInt32LE(deviceIndex, 4);
  bytes.writeUInt32LE(handle, 8);
  bytes.writeUInt32LE(parent, 12);
  return bytes;
}

function u64Of(payload: Buffer | undefined): number | undefined {
  return payload === undefined || payload.length < 8 ? undefined : Number(payload.readBigUInt64LE(0));
}

function u64Bytes(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value), 0);
  return bytes;
}
