import type { Change, Stored } from '../../datastore/allocation-store.ts';
import { type IpBlock, SLOTS_PER_WRITE } from '../../model/ip-block.ts';
import { endpointKey, isSameSpec, type WorkloadEndpoint } from '../../model/workload-endpoint.ts';
import { formatCidr } from '../../net/cidr.ts';
import { type EndpointChange, type Entry, idOf, isCleared } from './entry.ts';
import { changeSlot, insistOnSlot } from './slot-change.ts';

/** How much goes into one write; a transaction of etcd takes 128 operations. */
const WEIGHT_PER_WRITE = 96;
/** How many blocks one write changes for no other reason than their stock. */
const BLOCKS_FOR_STOCK = 16;

/** The most operations that one entry costs: a block may have an index record beside it. */
function weightOf({ slots, endpoints }: Entry): number {
  return 2 * slots.length + endpoints.length;
}

/** How many of the first entries fit into one write to these blocks; at least one. */
export function fittingEntries(entries: readonly Entry[], blocks: Published['blocks']): number {
  const written = new Set<string>();
  let weight = 0;
  let held = 0;
  const over = entries.findIndex((entry) => {
    weight += weightOf(entry);
    for (const key of entry.slots.map(({ block }) => formatCidr(block))) {
      if (!written.has(key)) held += blocks.get(key)?.value.slots.size ?? 0;
      written.add(key);
    }
    return weight > WEIGHT_PER_WRITE || held > SLOTS_PER_WRITE;
  });
  return over === -1 ? entries.length : Math.max(1, over);
}

/** The blocks that fit into one write beside those written anyway; at least one when there are none of these. */
export function fittingBlocks<B extends readonly [string, IpBlock]>(
  blocks: readonly B[],
  written: ReadonlyMap<string, IpBlock> = new Map(),
): readonly B[] {
  let held = [...written.values()].reduce((sum, { slots }) => sum + slots.size, 0);
  const fitting = blocks.filter(([key, { slots }]) => {
    if (written.has(key)) return true;
    if (held > 0 && held + slots.size > SLOTS_PER_WRITE) return false;
    held += slots.size;
    return true;
  });
  return fitting.slice(0, BLOCKS_FOR_STOCK);
}

/** The entry in parts that fit into one write each, in order. What releases many addresses need not do so at once. */
export function partsOf({ slots, endpoints }: Entry): readonly Entry[] {
  const parts: Entry[] = [];
  const most = WEIGHT_PER_WRITE / 4;
  for (let from = 0; from === 0 || from < Math.max(slots.length, endpoints.length); from += most) {
    parts.push({ slots: slots.slice(from, from + most), endpoints: endpoints.slice(from, from + most) });
  }
  return parts;
}

/** What the datastore is known to hold. */
export interface Published {
  readonly blocks: ReadonlyMap<string, Stored<IpBlock>>;
  readonly endpoints: ReadonlyMap<string, Stored<WorkloadEndpoint>>;
}

export interface Publication {
  readonly changes: readonly Change[];
  /** Entries with a slot that somebody else holds by now; nothing of theirs is in `changes`. */
  readonly lost: ReadonlySet<Entry>;
  /** Entries of callers with an address that is shown as theirs already: by a write that may have been taken back since. */
  readonly unproven: ReadonlySet<Entry>;
}

/** Has the last word on the blocks, changed or not, that are about to be written. */
export type AdjustBlocks = (
  blocks: ReadonlyMap<string, IpBlock>,
  isWritten: (key: string) => boolean,
) => ReadonlyMap<string, IpBlock>;

export interface PublicationOptions {
  readonly adjust: AdjustBlocks;
  /** Whether a pod has the addresses of the entry already, and nothing has happened since. */
  readonly isTold: (entry: Entry) => boolean;
}

/**
 * The one write that makes the entries true, in their order. Blocks and endpoints that are so already are left alone.
 */
export function planPublication(
  known: Published,
  entries: readonly Entry[],
  { adjust, isTold }: PublicationOptions,
): Publication {
  let blocks = new Map<string, IpBlock>([...known.blocks].map(([key, { value }]) => [key, value]));
  const endpoints = new Map<string, EndpointChange>();
  const lost = new Set<Entry>();
  const unproven = new Set(entries.filter((entry) => !isTold(entry) && isShown(known, entry)));
  const told = new Set<string>();
  for (const entry of entries) {
    const changed = changeBlocks(blocks, entry, isTold(entry) ? insistOnSlot : changeSlot);
    if (changed === undefined) {
      lost.add(entry);
      continue;
    }
    for (const [key, block] of changed) blocks.set(key, block);
    if (isTold(entry)) for (const slot of entry.slots) if (slot.kind === 'take') told.add(slot.allocation.id);
    for (const change of entry.endpoints) endpoints.set(endpointKey(idOf(change)), change);
  }
  blocks = new Map(adjust(blocks, (key) => blocks.get(key) !== known.blocks.get(key)?.value));
  return { changes: [...blockChanges(known, blocks, told), ...endpointChanges(known, endpoints)], lost, unproven };
}

function isShown({ blocks }: Published, { slots }: Entry): boolean {
  return slots.some(
    (slot) =>
      slot.kind === 'take' &&
      blocks.get(formatCidr(slot.block))?.value.slots.get(slot.ordinal)?.id === slot.allocation.id,
  );
}

/** The blocks as the entry leaves them; undefined when it cannot be made. A block that is gone has nothing to free. */
function changeBlocks(
  blocks: ReadonlyMap<string, IpBlock>,
  { slots }: Entry,
  apply: typeof changeSlot,
): Map<string, IpBlock> | undefined {
  const changed = new Map<string, IpBlock>();
  for (const change of slots) {
    const key = formatCidr(change.block);
    const before = changed.get(key) ?? blocks.get(key);
    if (before === undefined && change.kind === 'free') continue;
    const after = before === undefined ? undefined : apply(before, change);
    if (after === undefined) return undefined;
    changed.set(key, after);
  }
  return changed;
}

function blockChanges(
  { blocks: known }: Published,
  blocks: ReadonlyMap<string, IpBlock>,
  told: ReadonlySet<string>,
): Change[] {
  return [...blocks].flatMap(([key, after]): Change[] => {
    const before = known.get(key);
    if (before === undefined || before.value === after) return [];
    const kept = new Set([...after.slots.values()].flatMap(({ id }) => (told.has(id) ? id : [])));
    return [{ kind: 'update-block', before, after, ...(kept.size === 0 ? {} : { told: kept }) }];
  });
}

function endpointChanges(known: Published, endpoints: ReadonlyMap<string, EndpointChange>): Change[] {
  return [...endpoints].flatMap(([key, change]): Change[] => {
    const before = known.endpoints.get(key);
    if (change.kind === 'clear') {
      return before !== undefined && isCleared(before.value, change) ? [{ kind: 'delete-endpoint', before }] : [];
    }
    const isWritten = before !== undefined && isSameSpec(before.value, change.endpoint);
    return isWritten ? [] : [{ kind: 'put-endpoint', endpoint: change.endpoint }];
  });
}
