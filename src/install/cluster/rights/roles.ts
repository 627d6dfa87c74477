import { describeRight, type Right } from '../../../model/right.ts';
import type { Role } from './role-rule.ts';
import { type RoleName, ROLES } from './role-table.ts';

/** The callers of the datastore, users and programs, each with the roles that it needs. */
export const CALLERS: readonly (readonly RoleName[])[] = [
  ['netplug-admin'],
  ['netplug-viewer'],
  ['netplug-cni-reader', 'netplug-cni-datastore'],
  ['netplug-agent', 'netplug-agent-datastore'],
  ['netplug-agent', 'netplug-agent-fanned-out', 'netplug-agent-servers'],
  ['netplug-typha', 'netplug-typha-leases'],
  ['netplug-orch-controllers', 'netplug-orch-controllers-datastore'],
  ['netplug-operator', 'netplug-operator-namespace'],
];

/** Returns the rights of the roles without duplicates. */
export function rightsOf(roles: readonly RoleName[]): readonly Right[] {
  const rules = roles.flatMap((role) => {
    const { rules }: Role = ROLES[role];
    return rules;
  });
  const rights = rules.flatMap(({ group, resources, verbs }) =>
    resources.flatMap((resource) => verbs.map((verb): Right => ({ group, resource, verb }))),
  );
  return [...new Map(rights.map((right) => [describeRight(right), right])).values()];
}

/**
 * Returns what is missing, role by role, of the caller that these rights are most like: each right that it has and they
 * lack, or the other way round, makes it less like them.
 */
export function missingRights(
  granted: ReadonlySet<string>,
): readonly { readonly role: RoleName; readonly rights: readonly string[] }[] {
  const unlikeness = (roles: readonly RoleName[]): number =>
    new Set(rightsOf(roles).map(describeRight)).symmetricDifference(granted).size;
  const [closest = []] = [...CALLERS].sort((a, b) => unlikeness(a) - unlikeness(b));
  return closest
    .map((role) => ({
      role,
      rights: rightsOf([role])
        .map(describeRight)
        .filter((right) => !granted.has(right)),
    }))
    .filter(({ rights }) => rights.length > 0);
}
