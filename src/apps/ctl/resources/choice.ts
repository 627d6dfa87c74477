import type { ResourceStore } from '../../../datastore/resource-store.ts';
import { NetplugError } from '../../../base/errors.ts';
import type { Mode } from '../../../base/mode.ts';
import type { AnyResource } from '../../../model/kinds.ts';
import { fullId, type ResourceId, resourceIdOf } from '../../../model/resource-id.ts';
import { withStoreToChange } from '../connection.ts';
import type { Context, Status } from '../ports.ts';
import { runBatch } from './batch.ts';
import { decodeChanged } from './decode-changed.ts';
import { writableKind } from './kind-names.ts';
import { isWanted } from './listing.ts';
import type { Wanted } from './target.ts';
import { changeStored } from './write-resource.ts';

/** Selects resources of a kind. */
export interface Choice {
  readonly namespace: string | undefined;
  /** Over labels; `all()` when it does not matter. */
  readonly selector: string | undefined;
  /** Whether all resources of the kind are selected. */
  readonly reach: 'all' | 'named';
}

/** Returns the resources to change. @throws cli/usage unless either names or a selector are given */
export async function chosenOf(
  { io, signal }: Pick<Context, 'io' | 'signal'>,
  store: ResourceStore,
  { wanted, namespace, selector, reach }: Choice & { readonly wanted: readonly Wanted[] },
): Promise<readonly ResourceId[]> {
  const isBySelector = selector !== undefined || reach === 'all';
  const hasNames = wanted.some(({ names }) => names.length > 0);
  if (hasNames === isBySelector) {
    const state = hasNames ? 'both names and --all or --selector are given' : 'no name is given';
    throw new NetplugError('cli/usage', `Cannot select resources: ${state}`, {
      hint: 'Give names, or a --selector over labels, or --all',
    });
  }
  const chosen: ResourceId[] = [];
  for (const { kind: word, names } of wanted) {
    const kind = writableKind(word);
    chosen.push(...names.map((name) => fullId({ kind, name, ...(namespace === undefined ? {} : { namespace }) })));
    if (!isBySelector) continue;
    const { resources, problems } = await store.listResources(kind, signal);
    for (const problem of problems) io.stderr(`warning: ${problem}\n`);
    chosen.push(
      ...resources.filter((each) => isWanted(each, { namespace, selector: selector ?? 'all()' })).map(resourceIdOf),
    );
  }
  if (chosen.length === 0) io.stderr('No resource is chosen\n');
  return chosen;
}

/** Changes each of the resources that are chosen, and says of those that change what was done. */
export async function changeChosen(
  context: Context,
  options: Choice & { readonly wanted: readonly Wanted[]; readonly mode: Mode },
  {
    done,
    change,
    resourceVersion,
  }: {
    readonly done: string;
    readonly change: (stored: AnyResource) => unknown;
    readonly resourceVersion?: string | undefined;
  },
): Promise<Status> {
  const { mode } = options;
  return withStoreToChange(context, { mode }, async (store) => {
    const writing = { ...context.ports, store, signal: context.signal, mode };
    const how = { change: (stored: AnyResource) => decodeChanged(stored, change(stored)), resourceVersion };
    const items = (await chosenOf(context, store, options)).map((which) => ({
      which,
      run: async () => {
        const outcome = await changeStored(writing, which, how);
        return outcome === 'changed' ? done : outcome;
      },
    }));
    return runBatch(context, items, mode);
  });
}
