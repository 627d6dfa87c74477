import { expect, it } from 'vitest';
import { type CannedAnswers, cannedApi } from '../../../../test/support/canned-api.ts';
import { readLostRights } from './read-lost-rights.ts';

const RBAC = '/apis/rbac.authorization.k8s.io/v1';
const listOf = (...items: readonly object[]): object => ({ metadata: { resourceVersion: '1' }, items });
const role = (rules: readonly object[]): object => ({ metadata: { name: 'x', resourceVersion: '1' }, rules });
const binding = (name: string, roleName: string, namespace?: string): object => ({
  metadata: { name, namespace, resourceVersion: '1' },
  roleRef: { kind: 'ClusterRole', name: roleName },
  subjects: [{ kind: 'User', name: 'bob' }],
});
const read = async (answers: CannedAnswers): ReturnType<typeof readLostRights> => {
  await using api = cannedApi(answers);
  return await readLostRights(api, AbortSignal.timeout(5000));
};
const READ_POOLS = { apiGroups: ['netplug.io'], resources: ['ippools'], verbs: ['list'] };

it('names the bindings of a role that had more rights, with the rights', async () => {
  const rules = [
    READ_POOLS,
    { apiGroups: ['netplug.io'], resources: ['installations'], verbs: ['list', 'patch'] },
    { apiGroups: [''], resources: ['pods/status', 'nodes/status'], verbs: ['patch'] },
  ];
  expect(
    await read({
      [`${RBAC}/clusterroles/netplug-admin`]: role(rules),
      [`${RBAC}/clusterrolebindings`]: listOf(binding('na', 'netplug-admin'), binding('nv', 'netplug-viewer')),
      [`${RBAC}/rolebindings`]: listOf(binding('shops', 'netplug-admin', 'shop')),
    }),
  ).toEqual([
    {
      role: 'netplug-admin',
      rights: ['patch installations.netplug.io', 'patch pods/status', 'patch nodes/status'],
      bindings: ['ClusterRoleBinding na (User bob)', 'RoleBinding shop/shops (User bob)'],
    },
  ]);
});

it('names nothing in a cluster without roles, or whose roles have no further rights', async () => {
  expect(await read({})).toEqual([]);
  expect(await read({ [`${RBAC}/clusterroles/netplug-viewer`]: role([READ_POOLS]) })).toEqual([]);
});
