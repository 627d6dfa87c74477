import { changeClusterInformation } from '../../../datastore/keep-cluster-information.ts';
import { CLUSTER_INFORMATION_ID, isLocked } from '../../../model/cluster-information.ts';
import type { Mode } from '../../../base/mode.ts';
import type { Store } from '../../../datastore/store.ts';
import { type Actor, carryOut } from '../../../plans/carry-out.ts';
import { type Plan, renderPlan } from '../../../plans/plan.ts';
import { withStoreToChange } from '../connection.ts';
import { executionOf, recordName } from '../run-plan.ts';
import { itemName, stepsByKind, type StoredItem } from './items.ts';
import type { Context, Status } from '../ports.ts';
import { counted } from '../../../base/counted.ts';
import { readContents } from './contents.ts';
import type { Exported } from './export-file.ts';
import { type ImportMark, readMark, withoutImport } from './import-mark.ts';
import { planImport } from './plan-import.ts';
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
    // Every record that was changed since is a conflict.
    const { equal, conflicts } = planImport(file, { type: datastore.type, contents });
    if (conflicts.length > 0) throw refused('undo the import', conflicts);
    const kept = new Set(mark.kept);
    const doomed = equal.filter((item) => !kept.has(itemName(item))).toReversed();
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
  const restoration = { kind: 'write', text: 'restore ClusterInformation', act: 'restore' } as const;
  return {
    stages: [
      { title: 'Remove what the import created', steps: stepsByKind('remove', doomed) },
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
