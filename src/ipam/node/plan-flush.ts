import { type Change, endpointBefore, type Stored } from '../../datastore/allocation-store.ts';
import { type IpBlock, isIdle, SLOTS_PER_WRITE } from '../../model/ip-block.ts';
import { applyOperations, BlockDraft, insistOn, type SlotOperation } from '../../model/slot-operation.ts';
import {
  endpointKey,
  holdsAddressOf,
  isOfContainer,
  isSameSpec,
  type WorkloadEndpoint,
} from '../../model/workload-endpoint.ts';
import { formatCidr } from '../../net/cidr.ts';
import { type EndpointChange, type Entry, idOf } from './entry.ts';

/** The size of one write, in operations; a transaction of etcd takes 128. */
const WEIGHT_PER_WRITE = 96;
/** The most blocks that one write changes for their warm pool alone. */
const BLOCKS_FOR_WARM_POOL = 16;

/** Returns the most operations that one entry takes: a block may have an index record. */
function weightOf({ slots, endpoints }: Entry): number {
  return 2 * slots.length + endpoints.length;
}

/** Returns how many of the first entries fit into one write to these blocks; at least one. */
export function fittingEntries(entries: readonly Entry[], blocks: KnownState['blocks']): number {
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

/** Returns the blocks that fit into one write in addition to those in `written`; at least one when `written` is empty. */
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
  return fitting.slice(0, BLOCKS_FOR_WARM_POOL);
}

/** Splits an entry into parts that fit into one write each, in order. */
export function partsOf({ slots, endpoints }: Entry): readonly Entry[] {
  const parts: Entry[] = [];
  const most = WEIGHT_PER_WRITE / 4;
  for (let from = 0; from === 0 || from < Math.max(slots.length, endpoints.length); from += most) {
    parts.push({ slots: slots.slice(from, from + most), endpoints: endpoints.slice(from, from + most) });
  }
  return parts;
}

/** The latest records of the datastore in the cache of this node. */
export interface KnownState {
  readonly blocks: ReadonlyMap<string, Stored<IpBlock>>;
  readonly endpoints: ReadonlyMap<string, Stored<WorkloadEndpoint>>;
  /** Records that could not be understood and are missing above. */
  readonly problems: readonly string[];
}

export interface Flush {
  readonly changes: readonly Change[];
  /** Entries with a slot that another attachment holds by now; nothing of theirs is in `changes`. */
  readonly lost: ReadonlySet<Entry>;
  /** Entries of waiting callers whose address is recorded already, by a write that may have been reverted since. */
  readonly unproven: ReadonlySet<Entry>;
}

/** Returns further operations on the blocks that are about to be written, changed or not. */
export type AdjustBlocks = (
  blocks: ReadonlyMap<string, IpBlock>,
  isWritten: (key: string) => boolean,
) => readonly SlotOperation[];

export interface FlushOptions {
  readonly adjust: AdjustBlocks;
  /** Reports whether the caller was informed that the entry succeeded. */
  readonly isReturned: (entry: Entry) => boolean;
}

/**
 * Plans the one write that applies the entries in order. Skips blocks and endpoints that need no change.
 */
export function planFlush(known: KnownState, entries: readonly Entry[], { adjust, isReturned }: FlushOptions): Flush {
  const drafts = new Map([...known.blocks].map(([key, { value }]) => [key, new BlockDraft(value)]));
  const endpoints: EndpointDrafts = new Map();
  const lost = new Set<Entry>();
  const unproven = new Set(entries.filter((entry) => !isReturned(entry) && isRecorded(known, entry)));
  const returned = new Set<string>();
  for (const entry of entries) {
    if (!applyEntry(drafts, entry, isReturned(entry) ? insistOn : undefined)) {
      lost.add(entry);
      continue;
    }
    if (isReturned(entry)) for (const slot of entry.slots) if (slot.kind === 'take') returned.add(slot.allocation.id);
    for (const change of entry.endpoints) applyToEndpoint(known, { drafts, endpoints }, change);
  }
  const blocks = new Map([...drafts].map(([key, { block }]) => [key, block]));
  const adjusted = adjust(blocks, (key) => drafts.get(key)?.block !== known.blocks.get(key)?.value);
  for (const [key, operations] of Map.groupBy(adjusted, ({ block }) => formatCidr(block))) {
    drafts.get(key)?.apply(operations);
  }
  return { changes: [...blockChanges(known, drafts, returned), ...endpointChanges(known, endpoints)], lost, unproven };
}

function isRecorded({ blocks }: KnownState, { slots }: Entry): boolean {
  return slots.some(
    (slot) =>
      slot.kind === 'take' &&
      blocks.get(formatCidr(slot.block))?.value.slots.get(slot.ordinal)?.id === slot.allocation.id,
  );
}

/** Applies the whole entry and returns true, or none of it and returns false. Skips releases in blocks that were deleted. */
function applyEntry(
  drafts: ReadonlyMap<string, BlockDraft>,
  { slots }: Entry,
  insist: typeof insistOn = (_block, operation) => operation,
): boolean {
  const planned = new Map<BlockDraft, { block: IpBlock; readonly operations: SlotOperation[] }>();
  for (const slot of slots) {
    const draft = drafts.get(formatCidr(slot.block));
    if (draft === undefined && slot.kind === 'free') continue;
    if (draft === undefined) return false;
    const plan = planned.get(draft) ?? { block: draft.block, operations: [] };
    const operation = insist(plan.block, slot);
    const after = applyOperations(plan.block, [operation]);
    if (after === undefined) return false;
    if (after !== plan.block) plan.operations.push(operation);
    plan.block = after;
    planned.set(draft, plan);
  }
  for (const [draft, { operations }] of planned) draft.apply(operations);
  return true;
}

function blockChanges(
  { blocks: known }: KnownState,
  drafts: ReadonlyMap<string, BlockDraft>,
  returned: ReadonlySet<string>,
): Change[] {
  return [...drafts].flatMap(([key, { block, operations }]): Change[] => {
    const before = known.get(key);
    if (before === undefined || operations.length === 0) return [];
    // A block without an owner goes with its last address.
    if (block.node === undefined && isIdle(block)) return [{ kind: 'delete-block', before }];
    const ids = operations.flatMap((each) => (each.kind === 'take' ? each.allocation.id : []));
    const kept = new Set(ids.filter((id) => returned.has(id)));
    return [{ kind: 'update-block', before, operations, ...(kept.size === 0 ? {} : { returned: kept }) }];
  });
}

/** The endpoints after the changes so far, by key; undefined once cleared. */
type EndpointDrafts = Map<string, WorkloadEndpoint | undefined>;

function applyToEndpoint(
  known: KnownState,
  { drafts, endpoints }: { readonly drafts: ReadonlyMap<string, BlockDraft>; readonly endpoints: EndpointDrafts },
  change: EndpointChange,
): void {
  const key = endpointKey(idOf(change));
  if (change.kind === 'put') {
    endpoints.set(key, change.endpoint);
    return;
  }
  const now = endpoints.has(key) ? endpoints.get(key) : known.endpoints.get(key)?.value;
  if (now === undefined || !isOfContainer(now, change)) return;
  const isHeld = change.unlessHeld === true && [...drafts.values()].some(({ block }) => holdsAddressOf(block, now));
  if (!isHeld) endpoints.set(key, undefined);
}

function endpointChanges(known: KnownState, drafts: EndpointDrafts): Change[] {
  return [...drafts].flatMap(([key, endpoint]): Change[] => {
    const before = known.endpoints.get(key);
    if (endpoint === undefined) return before === undefined ? [] : [{ kind: 'delete-endpoint', before }];
    const isWritten = before !== undefined && isSameSpec(before.value, endpoint);
    return isWritten ? [] : [{ kind: 'put-endpoint', endpoint, ...endpointBefore(before, known) }];
  });
}
