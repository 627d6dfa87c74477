import { crdManifests, type Manifest } from '../../datastore/orch/crd-manifests.ts';
import { SYSTEM_NAMESPACE } from '../../datastore/orch/role-table.ts';

/** An object of an installation in a cluster. */
export type ClusterObject = Manifest;

/** The namespace of every program of netplug. */
export const INSTALL_NAMESPACE = SYSTEM_NAMESPACE;

/** Returns the definitions of all resources of netplug. */
export function definitionObjects(): readonly ClusterObject[] {
  return crdManifests();
}
