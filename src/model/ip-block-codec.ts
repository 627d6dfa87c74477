import * as v from 'valibot';
import { foreignRecord } from '../base/foreign-record.ts';
import { type Cidr, cidrSize, formatCidr, tryReadCidr } from '../net/cidr.ts';
import { type Allocation, blockFaults, CHOSEN_BY, type IpBlock, type LastRelease } from './ip-block.ts';
import type { Handle, NodeName } from './names.ts';
import { issueText } from './read-schema.ts';

/** A block as stored in the datastore. `free` is the queue in order, with ascending runs abbreviated: `3-63,0,2`. */
export interface BlockRecord {
  readonly format: 1;
  readonly cidr: string;
  readonly node?: NodeName;
  readonly slots: Readonly<Record<string, Allocation>>;
  /** Absent when no address is pre-allocated. */
  readonly preallocated?: Readonly<Record<string, string>>;
  /** Absent when no address is requested. */
  readonly requested?: readonly number[];
  readonly free: string;
  /** Absent when none is known. */
  readonly released?: Readonly<Record<string, LastRelease>>;
}

/** Far above the largest allowed block; bounds the memory that a malicious record can use. */
const MAX_BLOCK_SIZE = 65_536n;

export function encodeBlock(block: IpBlock): BlockRecord {
  return {
    format: 1,
    cidr: formatCidr(block.cidr),
    ...(block.node === undefined ? {} : { node: block.node }),
    slots: Object.fromEntries([...block.slots].map(([ordinal, allocation]) => [String(ordinal), allocation])),
    ...(block.preallocated.size === 0 ? {} : { preallocated: Object.fromEntries(block.preallocated) }),
    ...(block.requested.size === 0 ? {} : { requested: [...block.requested] }),
    free: encodeRuns(block.queue),
    ...(block.released.size === 0 ? {} : { released: Object.fromEntries(block.released) }),
  };
}

/** Decodes a block, or returns every problem of the record. Never throws. */
export function decodeBlock(raw: unknown): { readonly block: IpBlock } | { readonly problems: readonly string[] } {
  const shape = v.safeParse(blockRecord, raw);
  if (!shape.success) return { problems: shape.issues.map(issueText) };
  const { node, slots, stock, wanted, preallocated = stock, requested = wanted, free, released } = shape.output;
  const cidr = readBlockCidr(shape.output.cidr);
  if (typeof cidr === 'string') return { problems: [cidr] };
  const queue = decodeRuns(free, Number(cidrSize(cidr)));
  if (typeof queue === 'string') return { problems: [queue] };
  const block: IpBlock = {
    cidr,
    node,
    slots: byOrdinal(slots),
    preallocated: byOrdinal(preallocated),
    requested: new Set(requested),
    queue,
    released: byOrdinal(released),
  };
  const problems = blockFaults(block);
  return problems.length === 0 ? { block } : { problems };
}

// Only a decoder creates a branded value.
const nodeName = v.pipe(
  v.string(),
  v.minLength(1),
  v.transform((text) => text as NodeName),
);
export const handle = v.pipe(
  v.string(),
  v.minLength(1),
  v.transform((text) => text as Handle),
);

/** Loose, so that an older release keeps fields written by a newer one. */
export const allocation = v.looseObject({
  id: v.pipe(v.string(), v.minLength(1)),
  handle,
  node: nodeName,
  network: v.string(),
  containerId: v.string(),
  ifName: v.string(),
  namespace: v.exactOptional(v.string()),
  pod: v.exactOptional(v.string()),
  podUid: v.exactOptional(v.string()),
  at: v.string(),
  chosenBy: v.picklist(CHOSEN_BY),
  considered: v.exactOptional(v.array(v.string())),
});

const ordinalKey = v.pipe(v.string(), v.regex(/^(0|[1-9]\d{0,5})$/, 'A slot is keyed by its ordinal'));

const preallocatedIds = foreignRecord(ordinalKey, v.pipe(v.string(), v.minLength(1)));
const ordinals = v.array(v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(65_535)));

const lastRelease = v.looseObject({ at: v.pipe(v.number(), v.integer()), holder: v.string() });

const blockRecord = v.object({
  format: v.literal(1),
  cidr: v.string(),
  node: v.exactOptional(nodeName),
  slots: foreignRecord(ordinalKey, allocation),
  preallocated: v.exactOptional(preallocatedIds),
  requested: v.exactOptional(ordinals),
  /** The names that the first builds gave `preallocated` and `requested`. */
  stock: v.exactOptional(preallocatedIds, {}),
  wanted: v.exactOptional(ordinals, []),
  free: v.string(),
  released: v.exactOptional(foreignRecord(ordinalKey, lastRelease), {}),
});

function byOrdinal<T>(record: Readonly<Record<string, T>>): ReadonlyMap<number, T> {
  return new Map(Object.entries(record).map(([ordinal, value]) => [Number(ordinal), value]));
}

function readBlockCidr(text: string): Cidr | string {
  const reading = tryReadCidr(text);
  if (reading === undefined || reading.hostBits || formatCidr(reading.cidr) !== text) {
    return `cidr: "${text}" is not a canonical CIDR`;
  }
  return cidrSize(reading.cidr) > MAX_BLOCK_SIZE ? `cidr: "${text}" is too large for a block` : reading.cidr;
}

function encodeRuns(queue: readonly number[]): string {
  const runs: { first: number; last: number }[] = [];
  for (const ordinal of queue) {
    const run = runs.at(-1);
    if (run !== undefined && run.last + 1 === ordinal) run.last = ordinal;
    else runs.push({ first: ordinal, last: ordinal });
  }
  return runs.map(({ first, last }) => (first === last ? String(first) : `${String(first)}-${String(last)}`)).join(',');
}

/** Expands the runs. Checks each run first, because the text is not trusted. */
function decodeRuns(text: string, size: number): readonly number[] | string {
  const queue: number[] = [];
  for (const run of text === '' ? [] : text.split(',')) {
    const match = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(run);
    const first = Number(match?.[1]);
    const last = match?.[2] === undefined ? first : Number(match[2]);
    if (match === null || last < first || last >= size) return `free: "${run}" is not a run of ordinals of the block`;
    if (queue.length + last - first >= size) return 'free: more ordinals than the block has';
    for (let ordinal = first; ordinal <= last; ordinal += 1) queue.push(ordinal);
  }
  return queue;
}
