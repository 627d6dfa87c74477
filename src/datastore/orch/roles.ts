import { ROLES } from './shipped-roles.ts';

/** One line of a role. */
export interface Rule {
  /** The empty text is the core group. */
  readonly group: string;
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
}

/** A single right, as the API is asked for it. */
export interface Right {
  readonly group: string;
  /** With the part of it behind a slash, such as `nodes/status`. */
  readonly resource: string;
  readonly verb: string;
}

export type RoleName = keyof typeof ROLES;

/** Who may use the datastore, with the roles that takes: people, or the programs on a node. */
export const CALLERS: readonly (readonly RoleName[])[] = [
  ['netplug-admin'],
  ['netplug-cni-reader', 'netplug-cni-datastore', 'netplug-agent'],
];

/** Each once. */
export function rightsOf(roles: readonly RoleName[]): readonly Right[] {
  const rules: readonly Rule[] = roles.flatMap((role): readonly Rule[] => ROLES[role]);
  const rights = rules.flatMap(({ group, resources, verbs }) =>
    resources.flatMap((resource) => verbs.map((verb): Right => ({ group, resource, verb }))),
  );
  return [...new Map(rights.map((right) => [describeRight(right), right])).values()];
}

/** `list ippools`. */
export function describeRight({ resource, verb }: Right): string {
  return `${verb} ${resource}`;
}

/** Of the caller that comes closest to having all, what is missing role by role. */
export function missingRights(
  granted: ReadonlySet<string>,
): readonly { readonly role: RoleName; readonly rights: readonly string[] }[] {
  const choices = CALLERS.map((roles) =>
    roles
      .map((role) => ({
        role,
        rights: rightsOf([role])
          .map(describeRight)
          .filter((right) => !granted.has(right)),
      }))
      .filter(({ rights }) => rights.length > 0),
  );
  const missing = (choice: (typeof choices)[number]): number =>
    choice.reduce((sum, { rights }) => sum + rights.length, 0);
  return choices.sort((a, b) => missing(a) - missing(b))[0] ?? [];
}
