import type { Context } from '../ports.ts';
import { type Command, command, flagOption, mandatory, value } from '../command.ts';
import { readInputs } from '../inputs.ts';
import { exportDatastore } from './export-datastore.ts';
import { type Exported, readExport } from './export-file.ts';
import { importDatastore } from './import-datastore.ts';
import { lockDatastore, unlockDatastore } from './lock-datastore.ts';
import { undoImport } from './undo-import.ts';

/** A large cluster has ten thousands of records. */
const LONG_SECONDS = 1800;

export const DATASTORE_COMMANDS: readonly Command[] = [
  command({
    path: ['datastore', 'lock'],
    summary: 'Stops every change of addresses, as before an export.',
    details: `
Pods that run go on undisturbed. Until "datastore unlock" no address is assigned or released: ADD and
DEL fail with code 11, "try again later", and the runtime does. Waits up to 10 s for the agents to give
back what they have set aside.`,
    examples: ['netplugctl datastore lock'],
    run: async (context) => lockDatastore(context),
  }),
  command({
    path: ['datastore', 'unlock'],
    summary: 'Lets addresses be assigned and released again.',
    options: { force: flagOption('although an import has not ended') },
    details: `
From here on an import can no longer be undone.`,
    examples: ['netplugctl datastore unlock'],
    run: async (context, { options }) => unlockDatastore(context, options),
  }),
  command({
    path: ['datastore', 'export'],
    summary: 'Writes everything a locked datastore holds into one file.',
    options: {
      output: value('file', 'where to (default: standard output)', { completes: 'file' }),
      force: flagOption('although agents have set addresses aside that they do not give back'),
    },
    details: `
The file has every resource, block and endpoint, with counts and a checksum. The datastore stays as it
is. The command takes up to 30 minutes unless --timeout says otherwise.`,
    examples: ['netplugctl datastore export --output cluster.json'],
    timeoutSeconds: LONG_SECONDS,
    run: async (context, { options }) => exportDatastore(context, options),
  }),
  command({
    path: ['datastore', 'import'],
    summary: 'Brings the file of an export into another datastore, or takes it out again.',
    options: {
      filename: mandatory(
        value('file', 'file of an export, or "-" for standard input', { short: 'f', completes: 'file' }),
      ),
      undo: flagOption('remove exactly what the import of this file has brought'),
      dryRun: flagOption('say what would be done, and do nothing'),
    },
    details: `
The datastore must be empty or locked, and is locked afterwards. What is there already and equal is
left alone; what differs is named, and then nothing is written. After a failure repeat the command: it
goes on where it ended. At the end everything is read back and compared. Until "datastore unlock" the
import can be undone. The command takes up to 30 minutes unless --timeout says otherwise.`,
    examples: [
      'DATASTORE_TYPE=orch netplugctl datastore import -f cluster.json',
      'DATASTORE_TYPE=orch netplugctl datastore import -f cluster.json --undo',
    ],
    timeoutSeconds: LONG_SECONDS,
    run: async (context, { options: { filename, undo, dryRun } }) => {
      const file = await readFile(context, filename ?? '');
      const mode = dryRun ? 'rehearse' : 'carry-out';
      return undo ? undoImport(context, file, mode) : importDatastore(context, file, mode);
    },
  }),
];

/** @throws cli/usage, cli/export-unusable */
async function readFile(context: Context, path: string): Promise<Exported> {
  const [source = { name: path, text: '' }] = await readInputs(context, { paths: [path], folders: 'flat' });
  return readExport(source);
}
