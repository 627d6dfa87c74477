import { NetplugError } from '../../../base/errors.ts';
import { changeClusterInformation } from '../../../datastore/keep-cluster-information.ts';
import type { Store } from '../../../datastore/store.ts';
import { isLocked } from '../../../model/cluster-information.ts';
import type { Datastore } from '../../../config/connection.ts';
import { withStoreToChange } from '../connection.ts';
import type { Context, Status } from '../ports.ts';
import { type Contents, readContents, typeOf } from './contents.ts';
import { describeCounts, type Exported } from './export-file.ts';
import { beginMark, type ImportMark, readMark, withMark } from './import-mark.ts';
import { nameOf } from './items.ts';
import { type ImportPlan, planImport } from './plan-import.ts';
import { progressBar } from './progress.ts';
import { refused } from './refused.ts';
import { writeItems } from './write-items.ts';

/**
 * Brings everything of the file into the datastore, locks it, and reads all of it back. Repeating it goes on where it
 * ended; what is there already and differs is never overwritten.
 * @throws cli/import-refused, cli/import-differs
 */
export async function importDatastore(
  context: Context,
  file: Exported,
  mode: 'rehearse' | 'carry-out',
): Promise<Status> {
  const { io, signal } = context;
  return withStoreToChange(context, { mode, access: 'write-locked' }, async (store, datastore) => {
    const contents = await readContents(store, signal);
    const mark = readMark(contents.cluster);
    assertReady(contents, mark, file);
    const plan = planImport(file, { type: datastore.type, contents });
    if (plan.conflicts.length > 0) throw refused('import', plan.conflicts);
    for (const note of plan.notes) io.stderr(`note: ${note}\n`);
    if (mode === 'rehearse') {
      io.stdout(
        `nothing is changed yet: ${String(plan.missing.length)} to be written, ${String(plan.equal.length)} there\n`,
      );
      return 0;
    }
    if (mark === undefined) await begin(context, { store, datastore, file, plan });
    await write(context, store, plan);
    const left = await verify(context, { store, datastore, file });
    await end(context, store);
    if (left > 0)
      io.stderr(`note: ${String(left)} of the endpoints have no pod in the orchestrator and are left out\n`);
    io.stdout(`imported and read back: ${describeCounts(file.counts)}\n`);
    io.stdout('the datastore stays locked; "netplugctl datastore unlock" ends that, and with it the time to --undo\n');
    return 0;
  });
}

/** @throws cli/import-refused when something of somebody else's is in the way */
function assertReady(contents: Contents, mark: ImportMark | undefined, { checksum }: Exported): void {
  if (mark !== undefined && mark.checksum !== checksum) {
    throw refused('import', ['another file has been imported and the datastore not been unlocked since']);
  }
  const { cluster, resources, blocks, endpoints } = contents;
  // Nodes are there as soon as agents are.
  const others = resources.filter(({ kind }) => kind !== 'Node').length + blocks.length + endpoints.length;
  if (isLocked(cluster) || others === 0) return;
  throw refused('import', ['the datastore is neither empty nor locked: run "netplugctl datastore lock" there']);
}

interface Import {
  readonly store: Store;
  readonly datastore: Datastore;
  readonly file: Exported;
}

/** Locks the datastore and notes what was there before, so that undoing leaves it. */
async function begin(
  { ports, signal }: Context,
  { store, datastore, file, plan }: Import & { readonly plan: ImportPlan },
): Promise<void> {
  const kept = plan.equal.map(nameOf);
  const type = typeOf(datastore);
  await changeClusterInformation({ ...ports, store }, (before) => beginMark(before, file, { kept, type }), signal);
}

async function write({ io, signal }: Context, store: Store, { missing }: ImportPlan): Promise<void> {
  using progress = progressBar({ io, what: 'importing', total: missing.length });
  await writeItems({ store, signal, onDone: progress.step }, missing);
}

/** Returns how many endpoints found no pod. @throws cli/import-differs */
async function verify({ signal }: Context, { store, datastore: { type }, file }: Import): Promise<number> {
  const { missing, conflicts } = planImport(file, { type, contents: await readContents(store, signal) });
  const withoutPod = type === 'orch' ? missing.filter(({ kind }) => kind === 'endpoint') : [];
  const lost = missing.filter((item) => !withoutPod.includes(item)).map((item) => `${nameOf(item)} is not there`);
  const problems = [...lost, ...conflicts];
  if (problems.length === 0) return withoutPod.length;
  const [first = ''] = problems;
  const more = problems.length === 1 ? '' : `, and ${String(problems.length - 1)} more`;
  throw new NetplugError('cli/import-differs', `Cannot confirm the import: ${first}${more}`, {
    hint: 'Somebody else writes the datastore; find out who, and repeat the command',
    facts: { problems },
  });
}

async function end({ ports, signal }: Context, store: Store): Promise<void> {
  await changeClusterInformation(
    { ...ports, store },
    (cluster) => {
      const mark = readMark(cluster);
      return cluster === undefined || mark === undefined ? undefined : withMark(cluster, { ...mark, isVerified: true });
    },
    signal,
  );
}
