import { changeClusterInformation } from '../../../datastore/keep-cluster-information.ts';
import { CLUSTER_INFORMATION_ID, isLocked } from '../../../model/cluster-information.ts';
import type { Mode } from '../../../base/mode.ts';
import type { Store } from '../../../datastore/store.ts';
import { type Actor, carryOut } from '../../../plans/carry-out.ts';
import { type Plan, renderPlan } from '../../../plans/plan.ts';
import { withStoreToChange } from '../connection.ts';
import { executionOf, recordName } from '../run-plan.ts';
import { countItems, itemName, type StoredItem } from './items.ts';
import type { Context, Status } from '../ports.ts';
import { counted } from '../../../base/counted.ts';
import { readContents } from './contents.ts';
import type { Exported } from './export-file.ts';
import { type ImportMark, readMark, withoutImport } from './import-mark.ts';
import { type ImportTarget, planImport } from './plan-import.ts';
import { progressBar } from './progress.ts';
import { refused } from './refused.ts';
import { removeItems } from './write-items.ts';

/** A step of undoing an import. The items to remove come from the file. */
type UndoAction =
  | { readonly act: 'restore' }
  | { readonly act: 'remove'; readonly items: StoredItem['kind']; readonly count: number };

/**
 * Removes exactly what the import of this file created, unless the datastore was unlocked since. Resumes an interrupted
 * undo. @throws cli/import-refused
 */
export async function undoImport(context: Context, file: Exported, mode: Mode): Promise<Status> {
  const { io, signal } = context;
  return withStoreToChange(context, { mode, access: 'write-locked' }, async (store, datastore) => {
    const contents = await readContents(store, signal);
    const mark = readMark(contents.cluster);
    if (mark === undefined || !isLocked(contents.cluster)) {
      throw refused('undo the import', ['nothing was imported since the datastore was last unlocked']);
    }
    if (mark.checksum !== file.checksum) throw refused('undo the import', ['another file was imported']);
    const { doomed, conflicts } = planImportUndo(file, { type: datastore.type, contents }, mark);
    if (conflicts.length > 0) throw refused('undo the import', conflicts);
    const plan = stepsOf(doomed);
    if (mode === 'dry-run') {
      io.stdout(`dry run: ${counted(doomed.length, 'record')} to be removed\n${renderPlan(plan)}`);
      return 0;
    }
    using progress = progressBar({ io, what: 'undoing', total: doomed.length });
    const isDoomed = (step: UndoAction): boolean =>
      step.act === 'restore' || doomed.some(({ kind }) => kind === step.items);
    const actor: Actor<UndoAction> = {
      inspect: async (step) => Promise.resolve(isDoomed(step) ? 'before' : 'after'),
      apply: async (step) => {
        if (step.act === 'restore') return restore(context, store, mark);
        const items = doomed.filter(({ kind }) => kind === step.items);
        return removeItems({ store, signal, onDone: progress.step }, items, contents);
      },
    };
    const execution = executionOf(context, {
      name: recordName('datastore-import-undo', { datastore, checksum: file.checksum }),
      actor,
    });
    // A new plan goes on where an interrupted undo stopped: it is made of what the datastore still has.
    await carryOut(execution, plan);
    io.stdout(`removed ${counted(doomed.length, 'record')}; the datastore is as it was before the import\n`);
    return 0;
  });
}

function stepsOf(doomed: readonly StoredItem[]): Plan<UndoAction> {
  const kinds = [...new Set(doomed.map(({ kind }) => kind))];
  const removals = kinds.map((items) => {
    const count = doomed.filter(({ kind }) => kind === items).length;
    return { kind: 'write', text: `remove ${countItems(items, count)}`, act: 'remove', items, count } as const;
  });
  const restoration = { kind: 'write', text: 'restore ClusterInformation', act: 'restore' } as const;
  return {
    stages: [
      { title: 'Remove what the import created', steps: removals },
      { title: 'Remove the import record', steps: [restoration] },
    ],
    notes: [],
  };
}

async function restore({ ports, signal }: Context, store: Store, mark: ImportMark): Promise<void> {
  if (mark.before === undefined) return store.deleteResource(CLUSTER_INFORMATION_ID, signal);
  await changeClusterInformation(
    { ...ports, store },
    (cluster) => (cluster === undefined ? undefined : withoutImport(cluster, mark)),
    signal,
  );
}

interface UndoPlan {
  /** In the order in which they are removed. */
  readonly doomed: readonly StoredItem[];
  /** Reasons why the undo is refused, a sentence each. */
  readonly conflicts: readonly string[];
}

/** Selects what the import created. Every record that was changed since is a conflict. */
function planImportUndo(file: Exported, target: ImportTarget, { kept }: ImportMark): UndoPlan {
  const { equal, conflicts } = planImport(file, target);
  const stays = new Set(kept);
  return { doomed: equal.filter((item) => !stays.has(itemName(item))).toReversed(), conflicts };
}
