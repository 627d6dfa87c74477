import type { ClusterObject } from '../../../install/cluster/objects.ts';
import { INSTALL_NAMESPACE } from '../../../install/cluster/objects.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import type { Collection } from '../../../kube/paths.ts';
import { API_VERSION } from '../../../model/resource.ts';
import { recordIn } from '../../../upgrade/cluster/objects-in.ts';

/** A kind of objects that an installation consists of, with the names that the API uses for it. */
export interface ObjectKind {
  readonly kind: string;
  readonly apiVersion: string;
  readonly collection: Collection;
}

const place = { namespace: INSTALL_NAMESPACE };
const RBAC = 'rbac.authorization.k8s.io/v1';
/** Kinds whose objects are found by the label of netplug. */
const LABELLED: readonly ObjectKind[] = [
  kindOf('Namespace', 'v1', { plural: 'namespaces' }),
  kindOf('ServiceAccount', 'v1', { plural: 'serviceaccounts', ...place }),
  kindOf('Secret', 'v1', { plural: 'secrets', ...place }),
  kindOf('ConfigMap', 'v1', { plural: 'configmaps', ...place }),
  kindOf('ClusterRole', RBAC, { plural: 'clusterroles' }),
  kindOf('ClusterRoleBinding', RBAC, { plural: 'clusterrolebindings' }),
  kindOf('Role', RBAC, { plural: 'roles', ...place }),
  kindOf('RoleBinding', RBAC, { plural: 'rolebindings', ...place }),
  kindOf('DaemonSet', 'apps/v1', { plural: 'daemonsets', ...place }),
  kindOf('Deployment', 'apps/v1', { plural: 'deployments', ...place }),
];
/** Kinds of which every object concerns the installation. */
const WHOLE: readonly ObjectKind[] = [
  kindOf('Installation', API_VERSION, { plural: 'installations' }),
  kindOf('APIServer', API_VERSION, { plural: 'apiservers' }),
];
const LABEL = 'app.kubernetes.io/part-of=netplug';

function kindOf(kind: string, apiVersion: string, at: Pick<Collection, 'plural' | 'namespace'>): ObjectKind {
  const [first = '', second] = apiVersion.split('/');
  const [group, version] = second === undefined ? ['', first] : [first, second];
  return { kind, apiVersion, collection: { group, version, ...at } };
}

/** Reads every object of the installation whole, with its managers, status and secrets. Definitions are left out. @throws store/* */
export async function readInstalledObjects(
  api: OrchApi,
  served: readonly string[],
  signal: AbortSignal,
): Promise<readonly ClusterObject[]> {
  const kinds = [
    ...LABELLED.map((kind) => ({ ...kind, options: { labelSelector: LABEL } })),
    ...WHOLE.map((kind) => ({ ...kind, options: {} })),
  ].filter(({ collection: { group, plural } }) => served.includes(`${group}/${plural}`));
  const lists = await Promise.all(
    kinds.map(async ({ kind, apiVersion, collection, options }) => {
      const objects = await api.list(collection, options, signal);
      // A listing leaves the two out.
      return objects.map((object): ClusterObject => ({ ...object, apiVersion, kind }));
    }),
  );
  return lists.flat();
}

const KEPT_STATUS = [
  'observedGeneration',
  'desiredNumberScheduled',
  'updatedNumberScheduled',
  'numberAvailable',
  'updatedReplicas',
  'availableReplicas',
];
const OF_THE_SERVER = ['managedFields', 'uid', 'resourceVersion', 'creationTimestamp'];

/** Returns what of an object is part of a snapshot: nothing secret, and of the status what shows a roll-out. */
export function withoutServerFields(object: ClusterObject): ClusterObject {
  const { data, stringData: _, status: _status, ...rest } = object;
  const metadata = Object.entries(recordIn(object, 'metadata')).filter(([key]) => !OF_THE_SERVER.includes(key));
  const status = Object.entries(recordIn(object, 'status')).filter(([key]) => KEPT_STATUS.includes(key));
  return {
    ...rest,
    ...(data === undefined || object['kind'] === 'Secret' ? {} : { data }),
    metadata: Object.fromEntries(metadata),
    ...(status.length === 0 ? {} : { status: Object.fromEntries(status) }),
  };
}
