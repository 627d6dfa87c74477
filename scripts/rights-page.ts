import { markdownTable } from '../src/cli/markdown-table.ts';
import { type Role, ROLE_LIST, type RoleName } from '../src/datastore/orch/role-table.ts';

/** The page about what the programs may do in the API. */
export function rightsPage(): string {
  return `# Rights in the API of Kubernetes

What each program of netplug may do, and what for. [manifests/rbac.yaml](../manifests/rbac.yaml) is made from the same table.

The plugin and the agent have an account each, \`netplug-cni\` and \`netplug-agent\` in the namespace \`netplug-system\`. A test runs both programs with exactly these rights and reads in the audit log of the API server that each of them was used ([rights.test.ts](../test/e2e/rights.test.ts)).

${ROLE_LIST.map(section).join('\n\n')}
`;
}

function section({ name, about, account, namespace, rules }: Role & { readonly name: RoleName }): string {
  const whose = account === undefined ? '' : ` Of the account \`${account}\`.`;
  const where = namespace === undefined ? '' : ` In the namespace \`${namespace}\` alone.`;
  const rows = rules.map(({ group, resources, verbs, names, why }) => [
    resources.map((resource) => `\`${resource}\``).join(', '),
    group === '' ? 'core' : group,
    verbs.join(', '),
    `${why}${names === undefined ? '' : ` (only ${names.map((each) => `\`${each}\``).join(', ')})`}`,
  ]);
  return `## ${name}\n\n${about}${whose}${where}\n\n${markdownTable(['Resource', 'Group', 'Verbs', 'Used for'], rows)}`;
}
