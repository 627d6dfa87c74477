import { writeFileAtomically } from '../../../base/atomic-file.ts';
import { NetplugError, reasonOf } from '../../../base/errors.ts';
import { VERSION } from '../../../base/version.ts';
import { isLocked } from '../../../model/cluster-information.ts';
import { withStore } from '../connection.ts';
import type { Context, Status } from '../ports.ts';
import { readContents } from './contents.ts';
import { describeCounts, readExport, renderExport } from './export-file.ts';
import { describeStock, readStock } from './lock-datastore.ts';

export interface ExportOptions {
  /** Standard output unless given. */
  readonly output: string | undefined;
  /** Although agents have set addresses aside. */
  readonly force: boolean;
}

/** Writes everything a locked datastore holds into one file, and changes nothing there. */
export async function exportDatastore(context: Context, { output, force }: ExportOptions): Promise<Status> {
  const { ports, io, signal } = context;
  return withStore(context, 'read', async (store, { type }) => {
    const { cluster, ...contents } = await readContents(store, signal);
    if (cluster === undefined || !isLocked(cluster)) throw notLocked();
    const stock = await readStock(store, signal);
    if (stock.size > 0 && !force) throw stockOut(describeStock(stock));
    const at = new Date(ports.clock.now()).toISOString();
    const text = renderExport({ cluster, ...contents }, { at, by: VERSION, datastore: type });
    // What cannot be read back is no export.
    const { counts } = readExport({ name: output ?? 'standard output', text });
    if (output === undefined) io.stdout(text);
    else {
      // Who may read it sees which pod has which address.
      await writeFileAtomically(output, { text, mode: 0o600 }).catch((cause: unknown) => {
        throw unwritable(output, cause);
      });
    }
    io.stderr(`exported ${describeCounts(counts)}\n`);
    return 0;
  });
}

function notLocked(): NetplugError {
  return new NetplugError('cli/usage', 'Cannot export: the datastore is not locked, and would change meanwhile', {
    hint: 'Run "netplugctl datastore lock" first',
  });
}

function stockOut(stock: string): NetplugError {
  return new NetplugError('resource/in-use', `Cannot export: ${stock}`, {
    hint: 'An agent that is cut off may hand them out: start it, or stop it for good, and then use --force',
  });
}

function unwritable(path: string, cause: unknown): NetplugError {
  return new NetplugError('cli/usage', `Cannot write "${path}": ${reasonOf(cause)}`, {
    hint: 'Name a file in a folder that you may write, or leave --output out for standard output',
    cause,
  });
}
