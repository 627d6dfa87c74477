import { changeClusterInformation } from '../../../datastore/keep-cluster-information.ts';
import { CLUSTER_INFORMATION_ID, isLocked } from '../../../model/cluster-information.ts';
import { withStoreToChange } from '../connection.ts';
import type { Context, Status } from '../ports.ts';
import { counted } from '../table.ts';
import { readContents } from './contents.ts';
import type { Exported } from './export-file.ts';
import { readMark, withoutImport } from './import-mark.ts';
import { planUndo } from './plan-undo.ts';
import { progressBar } from './progress.ts';
import { refused } from './refused.ts';
import { removeItems } from './write-items.ts';

/**
 * Removes what the import of this file has brought, and nothing else, as long as the datastore has not been unlocked
 * since. Repeating it goes on where it ended. @throws cli/import-refused
 */
export async function undoImport(context: Context, file: Exported, mode: 'rehearse' | 'carry-out'): Promise<Status> {
  const { ports, io, signal } = context;
  return withStoreToChange(context, { mode, access: 'write-locked' }, async (store, { type }) => {
    const contents = await readContents(store, signal);
    const mark = readMark(contents.cluster);
    if (mark === undefined || !isLocked(contents.cluster)) {
      throw refused('undo the import', ['nothing was imported since the datastore was unlocked last']);
    }
    if (mark.checksum !== file.checksum) throw refused('undo the import', ['it was another file that was imported']);
    const { doomed, conflicts } = planUndo(file, { type, contents }, mark);
    if (conflicts.length > 0) throw refused('undo the import', conflicts);
    if (mode === 'rehearse') {
      io.stdout(`nothing is changed yet: ${counted(doomed.length, 'record')} to be removed\n`);
      return 0;
    }
    {
      using progress = progressBar({ io, what: 'undoing', total: doomed.length });
      await removeItems({ store, signal, onDone: progress.step }, doomed, contents);
    }
    if (mark.before === undefined) await store.deleteResource(CLUSTER_INFORMATION_ID, signal);
    else {
      const restore = (cluster: typeof contents.cluster): typeof contents.cluster =>
        cluster === undefined ? undefined : withoutImport(cluster, mark);
      await changeClusterInformation({ ...ports, store }, restore, signal);
    }
    io.stdout(`removed ${counted(doomed.length, 'record')}; the datastore is as it was before the import\n`);
    return 0;
  });
}
