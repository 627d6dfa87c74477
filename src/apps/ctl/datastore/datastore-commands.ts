import { type Command, command, flagOption, mandatory, value } from '../command.ts';
import { readInputs } from '../inputs.ts';
import { exportDatastore } from './export-datastore.ts';
import { readExport } from './export-file.ts';
import { acceptCluster, readClusterUid } from './accept-cluster.ts';
import { importDatastore } from './import-datastore.ts';
import { lockDatastore, unlockDatastore } from './lock-datastore.ts';
import { undoImport } from './undo-import.ts';

/** A large cluster has tens of thousands of records. */
const LONG_SECONDS = 1800;

export const DATASTORE_COMMANDS: readonly Command[] = [
  command({
    path: ['datastore', 'lock'],
    summary: 'Locks the datastore for maintenance: no address is assigned or released.',
    details: `
Running pods are not affected. Until "datastore unlock", ADD and DEL fail with code 11, "try again
later", and the runtime retries them. The command waits up to 10 s for the agents to return their
pre-allocated addresses.`,
    examples: ['netplugctl datastore lock'],
    run: async (context) => lockDatastore(context),
  }),
  command({
    path: ['datastore', 'unlock'],
    summary: 'Unlocks the datastore: addresses are assigned and released again.',
    options: { force: flagOption('unlock although an import is unfinished') },
    details: `
Afterwards an import can no longer be undone.`,
    examples: ['netplugctl datastore unlock'],
    run: async (context, { options }) => unlockDatastore(context, options),
  }),
  command({
    path: ['datastore', 'accept-cluster'],
    summary: 'Makes the records in etcd those of another cluster.',
    options: {
      uid: value('uid', 'uid of the namespace kube-system of that cluster (default: that of the API server)', {
        read: readClusterUid,
      }),
    },
    details: `
The controllers note in ClusterInformation which cluster the records are of, and change nothing while
their API server is of another one: every pod and node would seem to be gone. Run this command after
the cluster was built anew on the same etcd. It reads the uid from the API server of ORCHCONFIG, else
of KUBECONFIG, and prints the cluster before and after. The controllers of that cluster then begin to
work, and remove what it does not have; those of any other cluster stop.`,
    examples: [
      'ORCHCONFIG=/etc/netplug/kubeconfig netplugctl datastore accept-cluster',
      'netplugctl datastore accept-cluster --uid 3f0c7a52-e5b1-4f0c-9d7a-3b8de6c1a2f4',
    ],
    run: async (context, { options }) => acceptCluster(context, options),
  }),
  command({
    path: ['datastore', 'export'],
    summary: 'Writes the contents of a locked datastore into one file.',
    options: {
      output: value('file', 'file to write (default: standard output)', { completes: 'file' }),
      force: flagOption('export although agents have not returned their pre-allocated addresses'),
    },
    details: `
The file holds every resource, block and endpoint, with counts and a checksum. The datastore is not
changed. The default timeout is 30 minutes.`,
    examples: ['netplugctl datastore export --output cluster.json'],
    timeoutSeconds: LONG_SECONDS,
    run: async (context, { options }) => exportDatastore(context, options),
  }),
  command({
    path: ['datastore', 'import'],
    summary: 'Imports an exported file into another datastore, or undoes that.',
    options: {
      filename: mandatory(value('file', 'exported file, or "-" for standard input', { short: 'f', completes: 'file' })),
      undo: flagOption('remove exactly what the import of this file created'),
      dryRun: flagOption('print what would be done, and change nothing'),
    },
    details: `
The datastore must be empty or locked, and is locked afterwards. Records that exist with the same contents
are kept. If any record differs, the command lists the differences and writes nothing. After a failure,
repeat the command: it resumes. At the end it reads everything back and compares it with the file. Until
"datastore unlock" the import can be undone. The default timeout is 30 minutes.`,
    examples: [
      'DATASTORE_TYPE=orch netplugctl datastore import -f cluster.json',
      'DATASTORE_TYPE=orch netplugctl datastore import -f cluster.json --undo',
    ],
    timeoutSeconds: LONG_SECONDS,
    run: async (context, { options: { filename, undo, dryRun } }) => {
      const path = filename ?? '';
      const [source = { name: path, text: '' }] = await readInputs(context, { paths: [path], folders: 'flat' });
      const file = readExport(source);
      const mode = dryRun ? 'dry-run' : 'apply';
      return undo ? undoImport(context, file, mode) : importDatastore(context, file, mode);
    },
  }),
];
