// A datastore without transactions, made of one that has them: what the API of the orchestrator does with a commit, one
// write after the other, so that a crash, an absence or another writer can come between any two.
import { updateTo } from './block-edits.ts';
import { overriding } from './overriding.ts';
import { isDeepStrictEqual } from 'node:util';
import { revertSlots } from '../../src/datastore/orch/write-block.ts';
import type { Change, Outcome } from '../../src/datastore/allocation-store.ts';
import type { Store } from '../../src/datastore/store.ts';
import { blockAfter } from '../../src/datastore/block-after.ts';
import type { IpBlock } from '../../src/model/ip-block.ts';
import { type Cidr, compareCidrs } from '../../src/net/cidr.ts';

type BlockChange = Extract<Change, { kind: 'create-block' | 'update-block' | 'delete-block' }>;

const UNDO_TRIES = 16;

export function piecewiseStore(inner: Store): Store {
  return overriding(inner, { commit: async (changes, signal) => commit(inner, changes, signal) });
}

async function commit(store: Store, changes: readonly Change[], signal: AbortSignal): Promise<Outcome> {
  const gone = changes.filter(({ kind }) => kind === 'delete-endpoint');
  const blocks = changes.filter(isBlockChange).toSorted((a, b) => compareCidrs(cidrOf(a), cidrOf(b)));
  const others = changes.filter((change) => !isBlockChange(change) && change.kind !== 'delete-endpoint');
  for (const change of gone) if ((await store.commit([change], signal)) === 'conflict') return 'conflict';
  const written: BlockChange[] = [];
  for (const change of blocks) {
    if ((await store.commit([change], signal)) === 'conflict') {
      for (const each of written.toReversed()) await takeBack(store, each, signal);
      return 'conflict';
    }
    written.push(change);
  }
  for (const change of others) if ((await store.commit([change], signal)) === 'conflict') return 'conflict';
  return 'committed';
}

/** As the adapter of the orchestrator does it. */
async function takeBack(store: Store, change: BlockChange, signal: AbortSignal): Promise<void> {
  const [before, after] = [beforeOf(change), afterOf(change)];
  if (after === undefined) return;
  const { returned = new Set<string>() } = { returned: undefined, ...change };
  const isSameOwner = before !== undefined && before.node === after.node;
  for (let attempt = 0; attempt < UNDO_TRIES; attempt += 1) {
    const [now] = await store.getBlocks([cidrOf(change)], signal);
    if (now === undefined) return;
    const isUndone = !isSameOwner && returned.size === 0 && isDeepStrictEqual(now.value, after);
    const wanted = isUndone ? before : revertSlots(now.value, { before, after, returned });
    if (wanted === now.value) return;
    const undo: Change = wanted === undefined ? { kind: 'delete-block', before: now } : updateTo(now, wanted);
    if ((await store.commit([undo], signal)) === 'committed') return;
  }
}

function isBlockChange(change: Change): change is BlockChange {
  return change.kind === 'create-block' || change.kind === 'update-block' || change.kind === 'delete-block';
}

function beforeOf(change: BlockChange): IpBlock | undefined {
  return change.kind === 'create-block' ? undefined : change.before.value;
}

function afterOf(change: BlockChange): IpBlock | undefined {
  return change.kind === 'delete-block' ? undefined : blockAfter(change);
}

function cidrOf(change: BlockChange): Cidr {
  return (afterOf(change) ?? beforeOf(change)!).cidr;
}
