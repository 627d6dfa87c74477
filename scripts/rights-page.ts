import { markdownTable } from '../src/base/markdown-table.ts';
import type { Role } from '../src/install/cluster/rights/role-rule.ts';
import { ROLE_LIST, type RoleName } from '../src/install/cluster/rights/role-table.ts';

const STILL_ALLOWED = [
  ['workloadendpoints', 'record, change and delete the endpoints of its own node'],
  [
    'nodes',
    'change the annotations `netplug/…` and the conditions `NetworkUnavailable` and `netplug.io/NetworkReady` of its own Node',
  ],
  [
    'ipblocks',
    'create, change and delete its own blocks; assign and release addresses for itself in blocks of other nodes; take over a block without held or pre-allocated addresses',
  ],
  ['netplugnodes', 'write the object of its own node'],
  ['clusterinformations', 'record its release, but not lock the datastore'],
  ['serviceaccounts/token', 'request tokens of `netplug-cni` that are bound to its own Node'],
  ['events', 'create events about any pod'],
];

const NODES = `## Restricting writes to the own node

Roles cannot express "of its own node": with roles alone, the token of one node may change every endpoint, the status of every Node, every NetplugNode and every block. The admission policies of [manifests/node-restriction.yaml](../manifests/node-restriction.yaml) prevent that. Every installation applies them unless \`spec.admissionPolicies\` is \`Disabled\`.

Each token must be bound to a node, like the tokens that Kubernetes mounts into pods; the policies refuse every write with other tokens of the two accounts. The agent logs such a token as \`store/unbound-token\`, also while no policy is in force, and so do \`/readyz\` of the agent and \`netplugctl doctor\`. Request a bound one with

\`\`\`sh
kubectl create token netplug-agent --namespace=netplug-system --bound-object-kind=Node --bound-object-name=NODE
\`\`\`

A node may still

${markdownTable(['Object', 'Do'], STILL_ALLOWED)}

The policies evaluate one object at a time, so they have these limits:

- They do not restrict reads: every node reads all pods, namespaces, nodes and blocks.
- They do not know the pools. A node may claim any range as its own block, also inside the block of another node.
- They do not know the pods. A node may assign every free address, and record endpoints of any pod with any address.
- They do not compare a NetplugNode with its Node. A node may publish labels, addresses and an AS number of its own choice for itself, and other nodes use them. \`netplugctl doctor\` reports it.
- They do not compute hashes. A node that changes the block of another node may remove labels \`netplug/holder.…\` from it, and may damage the order of its free addresses (\`free\`). \`netplugctl doctor\` reports a block that can no longer be read.
- They do not check whether a node is running: a node may take over the empty block of a running node, as netplug does when a pool has no free block.`;

const FAN_OUT = `## What agents keep with the fan-out

While \`spec.typha.mode\` is \`Enabled\`, agents have the roles \`netplug-agent-fanned-out\` and \`netplug-agent-servers\` in place of \`netplug-agent-datastore\`. The gain is partial:

- They no longer read policies, sets, profiles, host endpoints, settings of BGP and of agents, NetplugNodes, service accounts and EndpointSlices in the API. Each server still tells every agent all of them: each node routes to each, and selects policies itself. Of pods, servers tell labels, addresses, ports and account, and no environment, command, volume or annotation.
- They still read all pods, namespaces, IPBlocks and Nodes in the API, with everything in them: RBAC does not know which of them are of the node.
- An agent enforces what a server says. An agent takes a program for a server when a Lease in \`netplug-system\` with the label \`netplug.io/server=netplug-typha\` has its address and certificate, so an account that may write such a Lease can change policies and routes of every node. The admission policy \`netplug-typha-leases\` leaves that to the account \`netplug-typha\`. While \`spec.admissionPolicies\` is \`Disabled\`, the accounts of the controllers and of the operator, which create Leases there, can do it as well.
- The account \`netplug-typha\` may write every Lease of a server, not only its own.`;

/** Returns the page about the rights of the programs in the API. */
export function rightsPage(): string {
  return `# Rights in the API of Kubernetes

This page lists the rights of each netplug program and what it uses them for. [manifests/rbac.yaml](../manifests/rbac.yaml) is generated from the same table.

The plugin, the agent, the fan-out, the controllers and the operator have an account each, \`netplug-cni\`, \`netplug-agent\`, \`netplug-typha\`, \`netplug-orch-controllers\` and \`netplug-operator\` in the namespace \`netplug-system\`. [manifests/admission.yaml](../manifests/admission.yaml) restricts the annotations that users of the cluster may set, and which account writes the Leases of servers ([netplug](netplug.md#permission-to-use-address-annotations)).

A test runs plugin and agent with exactly these rights and checks in the audit log of the API server that each of them was used ([rights.test.ts](../test/e2e/rights.test.ts)). Those of the fan-out: [typha-rights.test.ts](../test/contract/typha-rights.test.ts).

${ROLE_LIST.map(section).join('\n\n')}

${NODES}

${FAN_OUT}
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
