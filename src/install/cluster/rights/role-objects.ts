import type { Manifest } from '../../../model/manifest.ts';
import type { Role } from './role-rule.ts';
import { ROLE_LIST } from './role-table.ts';
import { objectLabels } from '../pod-template.ts';
import { SYSTEM_NAMESPACE } from '../names.ts';
import { type ClusterSettings, hasFanOut } from '../settings.ts';

const RBAC = 'rbac.authorization.k8s.io';

type NamedRole = Role & { readonly name: string };
const OPERATOR_ACCOUNT = 'netplug-operator' satisfies Role['account'];

/** Returns the accounts, roles and bindings that the datastore and the fan-out need, and the roles for users. Those of the operator are apart. */
export function roleObjects(settings: ClusterSettings): readonly Manifest[] {
  const { datastore, release } = settings;
  const fanOut = hasFanOut(settings) ? 'with' : 'without';
  const roles = ROLE_LIST.filter(
    (role) =>
      role.account !== OPERATOR_ACCOUNT &&
      (role.datastore === undefined || role.datastore === datastore.type) &&
      (role.fanOut === undefined || role.fanOut === fanOut),
  );
  return objectsOf(roles, release, SYSTEM_NAMESPACE);
}

/** Returns account, roles and bindings of the operator, whose pods may be in a namespace of their own. */
export function operatorRoleObjects(release: string, namespace: string): readonly Manifest[] {
  return objectsOf(
    ROLE_LIST.filter(({ account }) => account === OPERATOR_ACCOUNT),
    release,
    namespace,
  );
}

function objectsOf(roles: readonly NamedRole[], release: string, namespace: string): readonly Manifest[] {
  const accounts = [...new Set(roles.flatMap(({ account }) => account ?? []))];
  return [
    ...accounts.map((name) => ({
      apiVersion: 'v1',
      kind: 'ServiceAccount',
      metadata: { name, namespace, labels: objectLabels(name, release) },
    })),
    ...roles.flatMap((role) => [roleOf(role, release), ...bindingOf(role, release, namespace)]),
  ];
}

function roleOf(role: NamedRole, release: string): Manifest {
  return {
    apiVersion: `${RBAC}/v1`,
    kind: kindOf(role),
    metadata: metadataOf(role, release),
    rules: role.rules.map(({ group, resources, verbs, names }) => ({
      apiGroups: [group],
      resources,
      ...(names === undefined ? {} : { resourceNames: names }),
      verbs,
    })),
  };
}

function bindingOf(role: NamedRole, release: string, namespace: string): readonly Manifest[] {
  if (role.account === undefined) return [];
  return [
    {
      apiVersion: `${RBAC}/v1`,
      kind: `${kindOf(role)}Binding`,
      metadata: metadataOf(role, release),
      roleRef: { apiGroup: RBAC, kind: kindOf(role), name: role.name },
      subjects: [{ kind: 'ServiceAccount', name: role.account, namespace }],
    },
  ];
}

function kindOf({ namespace }: NamedRole): 'ClusterRole' | 'Role' {
  return namespace === undefined ? 'ClusterRole' : 'Role';
}

function metadataOf({ name, namespace }: NamedRole, release: string): Manifest {
  return { name, ...(namespace === undefined ? {} : { namespace }), labels: objectLabels(name, release) };
}
