import { writeFileAtomically } from '../../../base/atomic-file.ts';
import { NetplugError, reasonOf } from '../../../base/errors.ts';
import { VERSION } from '../../../base/version.ts';
import { isLocked } from '../../../model/cluster-information.ts';
import { withStore } from '../connection.ts';
import type { Context, Status } from '../ports.ts';
import { readContents } from './contents.ts';
import { describeCounts, readExport, renderExport } from './export-file.ts';
import { describePreallocated, readPreallocated } from './lock-datastore.ts';

export interface ExportOptions {
  /** Standard output unless given. */
  readonly output: string | undefined;
  /** Export although agents hold pre-allocated addresses. */
  readonly force: boolean;
}

/** Writes the contents of a locked datastore into one file. Does not change the datastore. */
export async function exportDatastore(context: Context, { output, force }: ExportOptions): Promise<Status> {
  const { ports, io, signal } = context;
  return withStore(context, 'read', async (store, { type }) => {
    const { cluster, ...contents } = await readContents(store, signal);
    if (cluster === undefined || !isLocked(cluster)) throw notLocked();
    const preallocated = await readPreallocated(store, signal);
    if (preallocated.size > 0 && !force) throw addressesOutstanding(describePreallocated(preallocated));
    const at = new Date(ports.clock.now()).toISOString();
    const text = renderExport({ cluster, ...contents }, { at, by: VERSION, datastore: type });
    // Verifies that the export can be read.
    const { counts } = readExport({ name: output ?? 'standard output', text });
    if (output === undefined) io.stdout(text);
    else {
      // Private: the file shows the address of each pod.
      await writeFileAtomically(output, { text, mode: 0o600 }).catch((cause: unknown) => {
        throw unwritable(output, cause);
      });
    }
    io.stderr(`exported ${describeCounts(counts)}\n`);
    return 0;
  });
}

function notLocked(): NetplugError {
  return new NetplugError(
    'cli/usage',
    'Cannot export: the datastore is not locked, so that it could change during the export',
    {
      hint: 'Run "netplugctl datastore lock"',
    },
  );
}

function addressesOutstanding(reason: string): NetplugError {
  return new NetplugError('resource/in-use', `Cannot export: ${reason}`, {
    hint: 'A disconnected agent may assign these addresses. Start it, or stop it permanently and use --force',
  });
}

function unwritable(path: string, cause: unknown): NetplugError {
  return new NetplugError('cli/usage', `Cannot write "${path}": ${reasonOf(cause)}`, {
    hint: 'Give a file in a writable folder, or omit --output for standard output',
    cause,
  });
}
