import { SYSTEM_NAMESPACE } from '../names.ts';
import type { Role, RoleRule } from './role-rule.ts';
import { ROLE_LIST, type RoleName } from './role-table.ts';

const LINE = 116;

type NamedRole = Role & { readonly name: RoleName };

/** The manifest file: namespace, accounts, and each role with its binding. */
export function rbacManifestFile(): string {
  // An installation by hand has no operator.
  const roles = ROLE_LIST.filter(({ account }) => account !== 'netplug-operator');
  const accounts = [...new Set(roles.flatMap(({ account }) => account ?? []))];
  const documents = [
    `apiVersion: v1\nkind: Namespace\nmetadata:\n  name: ${SYSTEM_NAMESPACE}\n`,
    ...accounts.map(accountManifest),
    ...roles.flatMap((role) => [roleManifest(role), ...(role.account === undefined ? [] : [bindingManifest(role)])]),
  ];
  const note = `# Made by scripts/check-generated.ts from src/install/cluster/rights/role-table.ts: change the roles there.
# What the programs may do in the API, and no more. Apply it after crds.yaml. docs/rights.md says it in one table.
`;
  return `${note}${documents.map((text) => `---\n${text}`).join('')}`;
}

/** The token of the plugin's account goes into the file that orch.orchconfig names, the agent's into NETPLUG_ORCHCONFIG. */
function accountManifest(account: string): string {
  return `apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: ${account}\n  namespace: ${SYSTEM_NAMESPACE}\n`;
}

/** Returns the role as a document of YAML. */
export function roleManifest({ name, about, namespace, rules }: NamedRole): string {
  return `${comment(about, '')}apiVersion: rbac.authorization.k8s.io/v1
kind: ${kindOf(namespace)}
${metadata(name, namespace)}rules:
${rules.map(ruleText).join('')}`;
}

function ruleText({ group, resources, verbs, names, why }: RoleRule): string {
  return `${comment(`${why}.`, '  ')}  - apiGroups: ${words([group])}
    resources: ${words(resources)}
${names === undefined ? '' : `    resourceNames: ${words(names)}\n`}    verbs: ${words(verbs)}
`;
}

function bindingManifest({ name, namespace, account }: NamedRole): string {
  return `apiVersion: rbac.authorization.k8s.io/v1
kind: ${kindOf(namespace)}Binding
${metadata(name, namespace)}roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ${kindOf(namespace)}
  name: ${name}
subjects:
  - kind: ServiceAccount
    name: ${account ?? ''}
    namespace: ${SYSTEM_NAMESPACE}
`;
}

function kindOf(namespace: string | undefined): string {
  return namespace === undefined ? 'ClusterRole' : 'Role';
}

function metadata(name: string, namespace: string | undefined): string {
  return `metadata:\n  name: ${name}\n${namespace === undefined ? '' : `  namespace: ${namespace}\n`}`;
}

/** A list of texts in one line, or one to a line where that is too long. */
function words(texts: readonly string[]): string {
  const line = `[${texts.map((text) => `'${text}'`).join(', ')}]`;
  return line.length < LINE - 20 ? line : texts.map((text) => `\n      - ${text}`).join('');
}

function comment(text: string, indent: string): string {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const last = lines.at(-1);
    if (last === undefined || `${last} ${word}`.length + indent.length > LINE) lines.push(word);
    else lines[lines.length - 1] = `${last} ${word}`;
  }
  return lines.map((line) => `${indent}# ${line}\n`).join('');
}
