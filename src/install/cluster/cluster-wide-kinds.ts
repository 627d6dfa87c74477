import { POLICY_BINDING_KIND, POLICY_KIND } from '../../kube/admission-policies.ts';

/** Kinds of the whole cluster whose objects are found by the label of netplug. */
export const CLUSTER_WIDE_KINDS = [
  'Namespace',
  'ClusterRole',
  'ClusterRoleBinding',
  'PriorityLevelConfiguration',
  'FlowSchema',
  POLICY_KIND,
  POLICY_BINDING_KIND,
];
