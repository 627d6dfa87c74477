import { isNetplugError } from '../../../base/errors.ts';
import type { Manifest } from '../../../model/manifest.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import { findObject, tryApply } from '../../../kube/objects/apply.ts';
import { diffObjects } from '../../../kube/objects/diff.ts';
import { installersOf, managerFor, MANAGER } from '../../../kube/objects/managers.ts';
import { collectionHolding, referenceKey, referenceOf } from '../../../kube/objects/reference.ts';
import type { DryRunResult } from '../../../upgrade/cluster/snapshot.ts';

/**
 * Makes dry runs of applying an object, with and without force, so that the API names the fields that other managers lose. Returns
 * undefined without the right to do so, which is a hazard of its own. @throws store/unavailable
 */
export async function dryRunApply(
  api: OrchApi,
  { object, served }: { readonly object: Manifest; readonly served: ReadonlySet<string> },
  signal: AbortSignal,
): Promise<DryRunResult | undefined> {
  const which = referenceOf(object);
  const collection = collectionHolding(which);
  const as = { object: referenceKey(which), lost: [] } as const;
  // A kind that the target brings does not exist yet.
  if (!served.has(`${collection.group}/${collection.plural}`)) return { ...as, outcome: 'created', message: '' };
  try {
    const live = await findObject(api, which, signal);
    const application = { object, manager: managerFor(live), mode: 'dry-run' } as const;
    const forced = await tryApply(api, application, signal);
    if (forced.outcome !== 'ok') {
      // So is a namespace that does not exist yet.
      const isNew = forced.outcome === 'not-found' && live === undefined;
      return isNew
        ? { ...as, outcome: 'created', message: '' }
        : { ...as, outcome: 'refused', message: forced.message };
    }
    if (live === undefined) return { ...as, outcome: 'created', message: '' };
    const gentle = await tryApply(api, { ...application, force: false }, signal);
    const held = gentle.outcome === 'ok' ? [] : gentle.heldFields;
    const installers = installersOf(live);
    const lost = held
      .filter(({ owner }) => !installers.has(owner) && owner !== MANAGER)
      .map(({ field, owner }) => ({ field, manager: owner }));
    const isSame = diffObjects(live, forced.value).length === 0;
    return { ...as, outcome: isSame ? 'unchanged' : 'changed', message: '', lost };
  } catch (cause) {
    if (!isNetplugError(cause, 'store/refused')) throw cause;
    return undefined;
  }
}
