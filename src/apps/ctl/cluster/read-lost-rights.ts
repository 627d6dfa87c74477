import { ownValue } from '../../../base/own-value.ts';
import type { ClusterFacts } from '../../../checks/cluster-facts.ts';
import { ROLE_LIST } from '../../../install/cluster/rights/role-table.ts';
import { findObject } from '../../../kube/objects/apply.ts';
import { kindCollection, referenceTo } from '../../../kube/objects/reference.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import { describeRight } from '../../../model/right.ts';
import { listIn, recordIn, textIn } from '../../../upgrade/cluster/objects-in.ts';

type LostRights = ClusterFacts['lostRights'];

/** Roles that a cluster binds to its users. */
const USER_ROLES = ROLE_LIST.filter(({ account }) => account === undefined);

/** Returns the bindings whose users have rights by a role of the cluster that the role of this release does not give. @throws store/* */
export async function readLostRights(api: OrchApi, signal: AbortSignal): Promise<LostRights> {
  const found = await Promise.all(
    USER_ROLES.map(async ({ name, rules }) => {
      const live = await findObject(api, referenceTo('ClusterRole', { name }), signal);
      const kept = new Set(rules.flatMap(({ group, ...rule }) => rightsIn({ groups: [group], ...rule })));
      const had = listIn(live ?? {}, 'rules').flatMap((rule) =>
        rightsIn({
          groups: textsIn(rule, 'apiGroups'),
          resources: textsIn(rule, 'resources'),
          verbs: textsIn(rule, 'verbs'),
        }),
      );
      const rights = [...new Set(had)].filter((right) => !kept.has(right));
      return rights.length === 0 ? [] : [{ role: name, rights }];
    }),
  );
  const lost = found.flat();
  if (lost.length === 0) return [];
  const bindings = await Promise.all(
    ['ClusterRoleBinding', 'RoleBinding'].map(async (kind) =>
      (await api.list(kindCollection(kind), {}, signal)).map((object) => ({ object, kind })),
    ),
  );
  return lost.map(({ role, rights }) => ({
    role,
    rights,
    bindings: bindings
      .flat()
      .filter(({ object }) => textIn(recordIn(object, 'roleRef'), 'name') === role)
      .map(({ object, kind }) => {
        const { namespace, name } = object.metadata;
        const subjects = listIn(object, 'subjects').map((each) => `${textIn(each, 'kind')} ${textIn(each, 'name')}`);
        return `${kind} ${namespace === undefined ? '' : `${namespace}/`}${name} (${subjects.join(', ')})`;
      }),
  }));
}

function rightsIn({
  groups,
  resources,
  verbs,
}: Readonly<Record<'groups' | 'resources' | 'verbs', readonly string[]>>): readonly string[] {
  return groups.flatMap((group) =>
    resources.flatMap((resource) => verbs.map((verb) => describeRight({ group, resource, verb }))),
  );
}

function textsIn(rule: Readonly<Record<string, unknown>>, key: string): readonly string[] {
  const value = ownValue(rule, key);
  return Array.isArray(value) ? value.map(String) : [];
}
