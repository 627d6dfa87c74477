import type { ResourceStore } from '../../../datastore/resource-store.ts';
import { NetplugError } from '../../../base/errors.ts';
import { fullId, type ResourceId, resourceIdOf } from '../../../model/resource-id.ts';
import type { Context } from '../ports.ts';
import { writableKind } from './kind-names.ts';
import { isWanted } from './listing.ts';
import type { Wanted } from './target.ts';

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
