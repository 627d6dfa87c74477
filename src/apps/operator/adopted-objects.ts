import { CLEANUP_SET, OPERATOR, SYSTEM_NAMESPACE } from '../../install/cluster/names.ts';
import { TYPHA } from '../../model/typha.ts';
import { RENDERED_ROLES } from '../../install/cluster/rights/operator-roles.ts';
import { collectionHolding, referenceKey, referenceTo } from '../../kube/objects/reference.ts';
import type { OrchApi } from '../../kube/orch-api.ts';
import type { Inventory } from './inventory.ts';

/** The label of every object of netplug, as a selector. */
export const PART_OF = 'app.kubernetes.io/part-of=netplug';

interface Adopted {
  readonly kind: string;
  readonly namespace?: string;
  readonly isAdopted: (name: string) => boolean;
}

const isWorkload = (name: string): boolean => name !== OPERATOR && name !== CLEANUP_SET;
const among =
  (names: readonly string[]) =>
  (name: string): boolean =>
    names.includes(name);
const ofSystem = (kind: string, isAdopted: Adopted['isAdopted']): Adopted => ({
  kind,
  namespace: SYSTEM_NAMESPACE,
  isAdopted,
});

/** Kinds of which a manifest may have objects that the settings do not contain: workloads, and what the fan-out needs or replaces. */
const ADOPTED: readonly Adopted[] = [
  ...['DaemonSet', 'Deployment'].map((kind) => ofSystem(kind, isWorkload)),
  ...['ClusterRole', 'ClusterRoleBinding'].map((kind) => ({ kind, isAdopted: among(RENDERED_ROLES.cluster) })),
  ...['Role', 'RoleBinding'].map((kind) => ofSystem(kind, among(RENDERED_ROLES.namespace))),
  ...['ServiceAccount', 'PodDisruptionBudget'].map((kind) => ofSystem(kind, among([TYPHA]))),
];

/** Returns the objects of an installation by manifest that the operator prunes where the settings do not contain them. @throws store/* */
export async function adoptedObjects(api: OrchApi, signal: AbortSignal): Promise<Inventory> {
  const entries = await Promise.all(
    ADOPTED.map(async ({ kind, namespace = '', isAdopted }) => {
      const home = referenceTo(kind, { name: '', namespace });
      const objects = await api.list(collectionHolding(home), { labelSelector: PART_OF }, signal);
      return objects
        .filter(({ metadata }) => isAdopted(metadata.name))
        .map(({ metadata }) => ({ ...home, name: metadata.name, uid: metadata.uid ?? '', digest: '' }));
    }),
  );
  return new Map(entries.flat().map((entry) => [referenceKey(entry), entry]));
}
