import { isDeepStrictEqual } from 'node:util';
import { isNetplugError } from '../../../base/errors.ts';
import type { ClusterObject } from '../../../install/cluster/objects.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import { objectName } from '../../../upgrade/cluster/objects-in.ts';
import type { DryRunResult } from '../../../upgrade/cluster/snapshot.ts';
import { objectContent, findObject, locate, MANAGER } from '../cluster/api-objects.ts';
import { installersOf, managerFor } from './apply-objects.ts';

/**
 * Makes dry runs of applying an object, with and without force, so that the API names the fields that other managers lose. Returns
 * undefined without the right to do so, which is a hazard of its own. @throws store/unavailable
 */
export async function dryRunApply(
  api: OrchApi,
  { object, served }: { readonly object: ClusterObject; readonly served: ReadonlySet<string> },
  signal: AbortSignal,
): Promise<DryRunResult | undefined> {
  const { collection, name } = locate(object);
  const as = { object: objectName(object), lost: [] } as const;
  // A kind that the target brings does not exist yet.
  if (!served.has(`${collection.group}/${collection.plural}`)) return { ...as, outcome: 'created', message: '' };
  try {
    const live = await findObject(api, { collection, name }, signal);
    const which = { collection, name, mode: 'dry-run' } as const;
    const apply = { kind: 'apply', body: object, manager: managerFor(live) } as const;
    const forced = await api.patch(which, { ...apply, force: true }, signal);
    if (forced.outcome !== 'ok') {
      // So is a namespace that does not exist yet.
      const isNew = forced.outcome === 'not-found' && live === undefined;
      return isNew
        ? { ...as, outcome: 'created', message: '' }
        : { ...as, outcome: 'refused', message: forced.message };
    }
    if (live === undefined) return { ...as, outcome: 'created', message: '' };
    const gentle = await api.patch(which, { ...apply, force: false }, signal);
    const held = gentle.outcome === 'ok' ? [] : gentle.heldFields;
    const installers = installersOf(live);
    const lost = held
      .filter(({ owner }) => !installers.has(owner) && owner !== MANAGER)
      .map(({ field, owner }) => ({ field, manager: owner }));
    const isSame = isDeepStrictEqual(objectContent(live), objectContent(forced.value));
    return { ...as, outcome: isSame ? 'unchanged' : 'changed', message: '', lost };
  } catch (cause) {
    if (!isNetplugError(cause, 'store/refused')) throw cause;
    return undefined;
  }
}
