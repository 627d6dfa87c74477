import { POLICY_BINDING_KIND, POLICY_KIND } from '../../../kube/admission-policies.ts';
import { LIMITED_USERS } from '../../../kube/token-binding.ts';
import type { Manifest } from '../../../model/manifest.ts';
import type { AdmissionPolicy } from './admission-policy.ts';
import { ANNOTATION_POLICIES } from './annotation-policies.ts';
import { LEASE_POLICIES } from './lease-policies.ts';
import { NODE_POLICIES } from './node-policies.ts';

/** Every policy that an installation applies. */
export const ADMISSION_POLICIES: readonly AdmissionPolicy[] = [
  ...ANNOTATION_POLICIES,
  ...LEASE_POLICIES,
  ...NODE_POLICIES,
];

const API_VERSION = 'admissionregistration.k8s.io/v1';

/** Returns the policy and its binding, which refuses what the policy does not allow. */
export function admissionObjects(
  { name, matches, writers, exceptWithLabel, variables, validations }: AdmissionPolicy,
  labels?: Readonly<Record<string, string>>,
): readonly [policy: Manifest, binding: Manifest] {
  const { group, versions, operations, resources, namespace } = matches;
  const expression = `request.userInfo.username in [${LIMITED_USERS.map((user) => `'${user}'`).join(', ')}]`;
  const metadata = { name, ...(labels === undefined ? {} : { labels }) };
  const exception = { key: exceptWithLabel, operator: 'DoesNotExist' };
  return [
    {
      apiVersion: API_VERSION,
      kind: POLICY_KIND,
      metadata,
      spec: {
        failurePolicy: 'Fail',
        matchConstraints: {
          ...(namespace === undefined
            ? {}
            : { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } } }),
          resourceRules: [{ apiGroups: [group], apiVersions: versions, operations, resources }],
        },
        ...(writers === 'everyone' ? {} : { matchConditions: [{ name: 'programs', expression }] }),
        variables: Object.entries(variables).map(([variable, is]) => ({ name: variable, expression: is })),
        validations: validations.map((validation) => ({ ...validation, reason: 'Forbidden' })),
      },
    },
    {
      apiVersion: API_VERSION,
      kind: POLICY_BINDING_KIND,
      metadata,
      spec: {
        policyName: name,
        validationActions: ['Deny'],
        ...(exceptWithLabel === undefined
          ? {}
          : { matchResources: { namespaceSelector: { matchExpressions: [exception] } } }),
      },
    },
  ];
}
