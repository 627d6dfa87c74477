import { labelIn } from '../../../kube/objects/content.ts';
import type { Manifest } from '../../../model/manifest.ts';
import { isRecord } from '../../../model/read-schema.ts';
import {
  ENDPOINTS_PLACEHOLDER,
  type ManifestKind,
  type ManifestOptions,
  manifestObjects,
  RELEASE_MANIFESTS,
} from '../release-manifests.ts';
import { applyEdits, type AppliedEdits, type RefusedEdit } from './apply-edits.ts';
import type { ManifestEdit } from './edit.ts';
import { findEdits } from './find-edits.ts';
import { isUsersPlace } from './users-place.ts';

export interface EarlierManifest {
  /** Values of all documents of the file that the user applied. */
  readonly edited: readonly unknown[];
  /** Values of the unedited manifest of its release; undefined when the user does not have it. */
  readonly pristine: readonly unknown[] | undefined;
}

export interface Reapplied extends AppliedEdits {
  readonly kind: ManifestKind;
  /** Release of the earlier manifest; undefined when its objects name none. */
  readonly release: string | undefined;
}

/**
 * Returns the manifest of this release with the edits of an earlier one. The edits are exact for a manifest of this release and
 * with a pristine manifest; otherwise only those are made that no release can have caused.
 */
export function reapplyEdits(
  earlier: EarlierManifest,
  { wanted, options }: { readonly wanted: Partial<ManifestKind>; readonly options: ManifestOptions },
): Reapplied {
  const release = releaseOfObjects(earlier.edited);
  const kind = closestKind(earlier.edited, { wanted, release: options.release });
  const base =
    earlier.pristine ?? (release === options.release ? ownPristine(kind, earlier.edited, release) : undefined);
  // What the command line sets is no edit of the file.
  const target = manifestObjects(kind, options);
  if (base !== undefined) {
    return { kind, release, ...applyEdits(target, findEdits(base, earlier.edited).filter(isNoVersion)) };
  }
  const found = findEdits(ownPristine(kind, earlier.edited, options.release), earlier.edited).filter(isNoVersion);
  const applied = applyEdits(target, found.filter(isUsersPlace));
  const unclear = found
    .filter((edit) => !isUsersPlace(edit))
    .map((edit): RefusedEdit => ({ edit, reason: 'it may be a difference between the releases' }));
  return { kind, release, ...applied, refused: [...applied.refused, ...unclear] };
}

/** Returns the release that most objects are labelled with. */
export function releaseOfObjects(objects: readonly unknown[]): string | undefined {
  const counts = new Map<string, number>();
  for (const object of objects) {
    const release = labelIn(object, 'app.kubernetes.io/version');
    if (release !== undefined) counts.set(release, (counts.get(release) ?? 0) + 1);
  }
  return [...counts].sort(([, a], [, b]) => b - a)[0]?.[0];
}

/** Returns the manifest that differs least from the objects. */
export function closestKind(
  objects: readonly unknown[],
  { wanted, release }: { readonly wanted: Partial<ManifestKind>; readonly release: string },
): ManifestKind {
  const kinds = RELEASE_MANIFESTS.filter(
    ({ datastore, variant }) =>
      (wanted.datastore ?? datastore) === datastore && (wanted.variant ?? variant) === variant,
  );
  const ranked = kinds
    .map((kind) => ({ kind, edits: findEdits(ownPristine(kind, objects, release), objects).length }))
    .sort((a, b) => a.edits - b.edits);
  return ranked[0]?.kind ?? RELEASE_MANIFESTS[0];
}

/** With etcd, the manifest has certificates or none: whichever is closer. */
export function ownPristine(kind: ManifestKind, objects: readonly unknown[], release: string): readonly Manifest[] {
  if (kind.datastore === 'orch') return manifestObjects(kind, { release });
  const isPlain = !objects.some((object) => isRecord(object) && object['kind'] === 'Secret');
  const plain = manifestObjects(kind, { release, endpoints: `http://${ENDPOINTS_PLACEHOLDER}` });
  const secret = manifestObjects(kind, { release });
  return isPlain && findEdits(plain, objects).length < findEdits(secret, objects).length ? plain : secret;
}

/** The label is that of the release, and so are tag and digest of an image. */
function isNoVersion({ path }: ManifestEdit): boolean {
  const last = path.at(-1);
  return last !== 'app.kubernetes.io/version' && last !== 'digest';
}
