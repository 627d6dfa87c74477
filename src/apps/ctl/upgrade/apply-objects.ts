import { isDeepStrictEqual } from 'node:util';
import type { Mode } from '../../../base/mode.ts';
import type { Manifest } from '../../../model/manifest.ts';
import type { ApiObject } from '../../../kube/objects.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import { listIn, recordIn, textIn } from '../../../upgrade/cluster/objects-in.ts';
import { applyObject, findObject, MANAGER } from '../../../kube/objects/apply.ts';
import { referenceOf } from '../../../kube/objects/reference.ts';
import { objectContent } from '../cluster/api-objects.ts';

const RELEASE_FIELD = 'f:app.kubernetes.io/version';
const PRODUCT_FIELD = 'f:app.kubernetes.io/part-of';

/** Returns the managers that wrote the release into the labels: they have installed the object, and its fields are meant to change. */
export function installersOf(live: ApiObject): ReadonlySet<string> {
  return new Set(releaseWriters(live).map((entry) => textIn(entry, 'manager')));
}

/**
 * Returns the name under which an object is applied. That of its installer, so that the API removes fields that the release no
 * longer has; otherwise they would stay as those of another manager.
 */
export function managerFor(live: ApiObject | undefined): string {
  const applier = live === undefined ? undefined : releaseWriters(live).find((entry) => entry['operation'] === 'Apply');
  return applier === undefined ? MANAGER : textIn(applier, 'manager');
}

/** A user may have removed the label with the release; then the one that every object of netplug has tells. */
function releaseWriters(live: ApiObject): readonly Readonly<Record<string, unknown>>[] {
  const entries = listIn(live.metadata, 'managedFields');
  const writersOf = (label: string): typeof entries =>
    entries.filter((entry) => {
      const metadata = recordIn(recordIn(entry, 'fieldsV1'), 'f:metadata');
      return label in recordIn(metadata, 'f:labels');
    });
  const writers = writersOf(RELEASE_FIELD);
  return writers.length > 0 ? writers : writersOf(PRODUCT_FIELD);
}

/** Applies an object as its installer, or makes a dry run of that. @throws install/refused, store/* */
export async function applyRelease(
  api: OrchApi,
  { object, mode }: { readonly object: Manifest; readonly mode?: Mode },
  signal: AbortSignal,
): Promise<{ readonly before: ApiObject | undefined; readonly after: ApiObject }> {
  const before = await findObject(api, referenceOf(object), signal);
  return { before, after: await applyObject(api, { object, manager: managerFor(before), mode }, signal) };
}

/** Reports whether applying the objects would change nothing. @throws install/refused, store/* */
export async function areApplied(api: OrchApi, objects: readonly Manifest[], signal: AbortSignal): Promise<boolean> {
  for (const object of objects) {
    if ((await findObject(api, referenceOf(object), signal)) === undefined) return false;
    const { before, after } = await applyRelease(api, { object, mode: 'dry-run' }, signal);
    if (before === undefined || !isDeepStrictEqual(objectContent(before), objectContent(after))) return false;
  }
  return true;
}
