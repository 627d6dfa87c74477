import type { Manifest } from '../../../model/manifest.ts';
import { diffValues } from '../../../kube/objects/diff.ts';
import { findReference, referenceKey } from '../../../kube/objects/reference.ts';
import { structuredOf } from '../../../kube/objects/structured.ts';
import { isRecord } from '../../../model/read-schema.ts';
import type { ManifestEdit } from './edit.ts';

/** Returns the objects by their keys, with texts taken apart. Documents without a name are left out. */
export function structuredObjects(objects: readonly unknown[]): ReadonlyMap<string, Manifest> {
  return new Map(
    objects.flatMap((object) => {
      const which = findReference(object);
      return which === undefined || !isRecord(object) ? [] : [[referenceKey(which), structuredOf(object)]];
    }),
  );
}

/** Returns the edits that turn the objects of a release into those that a user applied. */
export function findEdits(pristine: readonly unknown[], edited: readonly unknown[]): readonly ManifestEdit[] {
  const [before, after] = [structuredObjects(pristine), structuredObjects(edited)];
  const keys = [...new Set([...before.keys(), ...after.keys()])];
  return keys.flatMap((object) =>
    diffValues({ path: [], was: before.get(object), is: after.get(object) }).map((each) => ({ object, ...each })),
  );
}
