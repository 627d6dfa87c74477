import { markdownTable } from '../src/apps/ctl/markdown-table.ts';
import { type Role, ROLE_LIST, type RoleName } from '../src/datastore/orch/role-table.ts';

const STILL_ALLOWED = [
  ['pods', 'change the notes of netplug on its own pods, and nothing else of them'],
  ['nodes', 'change the annotations `netplug/…` and the condition `NetworkUnavailable` of its own Node'],
  [
    'ipblocks',
    'create, change and delete its own blocks; take and release addresses for itself in those of others; take over a block of which nobody holds or has set aside an address',
  ],
  ['netplugnodes', 'write the object of its own node'],
  ['clusterinformations', 'note its release, and not lock the datastore'],
  ['events', 'create events about any pod'],
];

const NODES = `## Ending at the own node

Roles cannot say "of its own node": with them alone, the token of one node may change the notes on every pod, the status of every Node, every NetplugNode and every block. [manifests/node-restriction.yaml](../manifests/node-restriction.yaml), an option, ends that on Kubernetes 1.34 and later by admission policies. Each token must be bound to a node, as those are that Kubernetes mounts into pods; other tokens of the two accounts write nothing then. A node may still

${markdownTable(['Object', 'Do'], STILL_ALLOWED)}

What the policies cannot do, because they see one object at a time and no other:

- They cannot limit what is read: every node reads all pods, namespaces, nodes and blocks.
- They do not know the pools. A node may claim any range as a block of its own, also inside the block of another.
- They do not know which pods there are. A node may take every free address.
- They do not compare a NetplugNode with its Node. A node may publish labels, addresses and an AS number of its own choice for itself, and other nodes go by them. \`netplugctl doctor\` reports it.
- They do not compute hashes. A node that changes the block of another may remove labels \`netplug/holder.…\` from it, and may damage the order of its free addresses (\`free\`). \`netplugctl doctor\` reports a block that cannot be read any more.
- Whether a node lives does not matter to them: the empty block of a living node may be taken over, as netplug itself does when a pool has no more.`;

/** The page about what the programs may do in the API. */
export function rightsPage(): string {
  return `# Rights in the API of Kubernetes

What each program of netplug may do, and what for. [manifests/rbac.yaml](../manifests/rbac.yaml) is made from the same table.

The plugin and the agent have an account each, \`netplug-cni\` and \`netplug-agent\` in the namespace \`netplug-system\`. [manifests/admission.yaml](../manifests/admission.yaml) says which annotations the users of the cluster may set ([netplug](netplug.md#who-may-use-which-annotation)). A test runs both programs with exactly these rights and reads in the audit log of the API server that each of them was used ([rights.test.ts](../test/e2e/rights.test.ts)).

${ROLE_LIST.map(section).join('\n\n')}

${NODES}
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
