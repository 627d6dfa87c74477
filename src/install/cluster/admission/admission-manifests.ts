import { Document, isScalar, visit } from 'yaml';
import type { Manifest } from '../../../model/manifest.ts';
import { roleManifest } from '../rights/role-manifests.ts';
import { ROLE_LIST } from '../rights/role-table.ts';
import { admissionObjects } from './admission-objects.ts';
import type { AdmissionPolicy } from './admission-policy.ts';
import { ANNOTATION_POLICIES } from './annotation-policies.ts';
import { LEASE_POLICIES } from './lease-policies.ts';
import { NODE_POLICIES } from './node-policies.ts';

const ADDRESS_ROLES = ROLE_LIST.filter(({ name }) => name.startsWith('netplug-use-'));
const MADE = 'Made by scripts/check-generated.ts from src/install/cluster/admission/: change the policies there.';

/** The manifest file of the policies about annotations, with the roles that they ask about. */
export function annotationPoliciesFile(): string {
  return `${comment(`${MADE}
Which annotations of netplug the users of a cluster may set, and which account writes the Leases of the servers of the
fan-out. An installation applies these policies, unless its spec.admissionPolicies is Disabled.`)}${[...ANNOTATION_POLICIES, ...LEASE_POLICIES].map(policyText).join('')}${ADDRESS_ROLES.map(
    (role) => `---\n${roleManifest(role)}`,
  ).join('')}`;
}

/** The manifest file of the policies about the writes of the plugin and the agent. */
export function nodePoliciesFile(): string {
  return `${comment(`${MADE}
Limits the writes of the plugin and the agent to their own node. An installation applies these policies, unless its
spec.admissionPolicies is Disabled. Every token of the accounts netplug-cni and netplug-agent must be bound to a Node or to a
pod, so that the API server knows which node it belongs to:
  kubectl create token netplug-agent --namespace=netplug-system --bound-object-kind=Node --bound-object-name=NODE
Tokens that Kubernetes mounts into pods are bound. A token without a node is refused every write. Administrators and
netplugctl, which have accounts of their own, are not concerned.

docs/rights.md says what these policies cannot do.`)}${NODE_POLICIES.map(policyText).join('')}`;
}

function policyText(policy: AdmissionPolicy): string {
  const [head, binding] = admissionObjects(policy);
  return `---\n${comment(policy.about)}${yaml(head)}---\n${yaml(binding)}`;
}

function yaml(object: Manifest): string {
  const document = new Document(object, { aliasDuplicateObjects: false });
  // Lists of words in one line each.
  visit(document, { Seq: (_, list) => void (list.flow = list.items.every(isScalar)) });
  return document.toString({ lineWidth: 116, blockQuote: 'folded', flowCollectionPadding: false });
}

function comment(text: string): string {
  return text
    .split('\n')
    .map((line) => `${line === '' ? '#' : `# ${line}`}\n`)
    .join('');
}
