import { NetplugError } from '../../../base/errors.ts';
import { changeClusterInformation } from '../../../datastore/keep-cluster-information.ts';
import type { Store } from '../../../datastore/store.ts';
import { isLocked } from '../../../model/cluster-information.ts';
import type { Datastore } from '../../../config/connection.ts';
import { type Actor, carryOut } from '../../../plans/carry-out.ts';
import { type Plan, renderPlan } from '../../../plans/plan.ts';
import type { Mode } from '../../../base/mode.ts';
import { withStoreToChange } from '../connection.ts';
import { executionOf, recordName } from '../run-plan.ts';
import type { Context, Status } from '../ports.ts';
import { type Contents, readContents, typeOf } from './contents.ts';
import { describeCounts, type Exported } from './export-file.ts';
import { beginMark, type ImportMark, readMark, withMark } from './import-mark.ts';
import { stepsByKind, type StoredItem, itemName } from './items.ts';
import { type ImportPlan, planImport } from './plan-import.ts';
import { progressBar } from './progress.ts';
import { refused } from './refused.ts';
import { writeItems } from './write-items.ts';

/** A step of an import. The items to write come from the file. */
type ImportAction =
  | { readonly act: 'lock' }
  | { readonly act: 'verify' }
  | { readonly act: 'create'; readonly items: StoredItem['kind']; readonly count: number };

/**
 * Locks the datastore, writes the contents of the file into it, and reads everything back. Resumes an interrupted
 * import; never overwrites a record that differs.
 * @throws cli/import-refused, cli/import-differs
 */
export async function importDatastore(context: Context, file: Exported, mode: Mode): Promise<Status> {
  const { io, signal } = context;
  return withStoreToChange(context, { mode, access: 'write-locked' }, async (store, datastore) => {
    const contents = await readContents(store, signal);
    const mark = readMark(contents.cluster);
    assertReady(contents, mark, file);
    const compared = planImport(file, { type: datastore.type, contents });
    if (compared.conflicts.length > 0) throw refused('import', compared.conflicts);
    const plan = stepsOf(compared, mark);
    for (const note of plan.notes) io.stderr(`note: ${note}\n`);
    if (mode === 'dry-run') {
      const [missing, equal] = [String(compared.missing.length), String(compared.equal.length)];
      io.stdout(`dry run: ${missing} to be written, ${equal} exist already\n${renderPlan(plan)}`);
      return 0;
    }
    await write(context, { store, datastore, file, plan, compared, mark });
    io.stdout(`imported and read back: ${describeCounts(file.counts)}\n`);
    io.stdout(
      'the datastore stays locked. "netplugctl datastore unlock" unlocks it; after that, the import cannot be undone\n',
    );
    return 0;
  });
}

/** Carries the plan out. @throws cli/import-differs */
async function write(
  context: Context,
  {
    plan,
    compared,
    mark,
    ...target
  }: Import & {
    readonly plan: Plan<ImportAction>;
    readonly compared: ImportPlan;
    readonly mark: ImportMark | undefined;
  },
): Promise<void> {
  const { io, signal } = context;
  const { store, datastore, file } = target;
  using progress = progressBar({ io, what: 'importing', total: compared.missing.length });
  const actor: Actor<ImportAction> = {
    inspect: async (step) => Promise.resolve(isDone(step, compared, mark) ? 'after' : 'before'),
    apply: async (step) => {
      if (step.act === 'lock') await begin(context, { ...target, plan: compared });
      else if (step.act === 'verify') {
        await verify(context, target);
        await end(context, store);
      } else {
        const items = compared.missing.filter(({ kind }) => kind === step.items);
        await writeItems({ store, signal, onDone: progress.step }, items);
      }
    },
  };
  const execution = executionOf(context, {
    name: recordName('datastore-import', { datastore, checksum: file.checksum }),
    actor,
  });
  await carryOut(execution, plan);
}

function stepsOf({ missing, notes }: ImportPlan, mark: ImportMark | undefined): Plan<ImportAction> {
  const lock = { kind: 'write', text: 'lock the datastore, and record what exists already', act: 'lock' } as const;
  return {
    stages: [
      { title: 'Lock the datastore', steps: mark === undefined ? [lock] : [] },
      { title: 'Write what is missing', steps: stepsByKind('create', missing) },
      {
        title: 'Compare the datastore with the file',
        steps: [{ kind: 'write', text: 'read everything back', act: 'verify' }],
      },
    ],
    notes,
  };
}

function isDone(step: ImportAction, { missing }: ImportPlan, mark: ImportMark | undefined): boolean {
  if (step.act === 'lock') return mark !== undefined;
  if (step.act === 'verify') return mark?.isVerified === true;
  return !missing.some(({ kind }) => kind === step.items);
}

/** @throws cli/import-refused when the datastore is in use and not locked, or another import is unfinished */
function assertReady(contents: Contents, mark: ImportMark | undefined, { checksum }: Exported): void {
  if (mark !== undefined && mark.checksum !== checksum) {
    throw refused('import', ['another file was imported, and the datastore has not been unlocked since']);
  }
  const { cluster, resources, blocks, endpoints } = contents;
  // Agents create Nodes when they start.
  const count = resources.filter(({ kind }) => kind !== 'Node').length + blocks.length + endpoints.length;
  if (isLocked(cluster) || count === 0) return;
  throw refused('import', ['the datastore is neither empty nor locked: lock it with "netplugctl datastore lock"']);
}

interface Import {
  readonly store: Store;
  readonly datastore: Datastore;
  readonly file: Exported;
}

/** Locks the datastore and records what it held before, which an undo keeps. */
async function begin(
  { ports, signal }: Context,
  { store, datastore, file, plan }: Import & { readonly plan: ImportPlan },
): Promise<void> {
  const kept = plan.equal.map(itemName);
  const type = typeOf(datastore);
  await changeClusterInformation({ ...ports, store }, (before) => beginMark(before, file, { kept, type }), signal);
}

/** Compares the datastore with the file. @throws cli/import-differs */
async function verify({ signal }: Context, { store, datastore: { type }, file }: Import): Promise<void> {
  const { missing, conflicts } = planImport(file, { type, contents: await readContents(store, signal) });
  const problems = [...missing.map((item) => `${itemName(item)} is missing`), ...conflicts];
  if (problems.length === 0) return;
  const [first = ''] = problems;
  const more = problems.length === 1 ? '' : `, and ${String(problems.length - 1)} more`;
  throw new NetplugError('cli/import-differs', `Cannot confirm the import: ${first}${more}`, {
    hint: 'Another program writes to the datastore. Find and stop it, then repeat the command',
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
