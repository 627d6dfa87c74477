import type { Manifest } from '../../model/manifest.ts';
import type { Right } from '../../model/right.ts';
import { crdManifests } from './definitions/crd-manifests.ts';
import { CALLERS, missingRights, rightsOf } from './rights/roles.ts';

/** Returns what an inspection compares the API with: the definitions and the rights that this release declares. */
export function declaredAccess(): {
  readonly definitions: readonly Manifest[];
  readonly rights: readonly Right[];
  readonly missingRights: typeof missingRights;
} {
  return { definitions: crdManifests(), rights: rightsOf([...new Set(CALLERS.flat())]), missingRights };
}
