import { ADMISSION_POLICIES } from '../admission/admission-objects.ts';
import type { Role } from './role-table.ts';

/** The roles that the operator creates. It holds few of the rights in them, and so needs `escalate` and `bind` for each. */
export const RENDERED_ROLES = {
  cluster: [
    'netplug-cni-reader',
    'netplug-cni-datastore',
    'netplug-agent',
    'netplug-agent-datastore',
    'netplug-orch-controllers',
    'netplug-orch-controllers-datastore',
    'netplug-viewer',
    'netplug-admin',
    'netplug-installer',
    'netplug-use-ip-addrs-no-ipam',
    'netplug-use-floating-ips',
  ],
  namespace: ['netplug-agent-passwords', 'netplug-agent-tokens', 'netplug-orch-controllers-lease'],
} as const;
const RENDERED_ACCOUNTS = ['netplug-cni', 'netplug-agent', 'netplug-orch-controllers'];
const RENDERED_WORKLOADS = ['netplug-node', 'netplug-bird', 'netplug-orch-controllers', 'netplug-cleanup'];
const RENDERED_CONFIG_MAPS = ['netplug-config', 'netplug-inventory'];
const RENDERED_POLICIES = ADMISSION_POLICIES.map(({ name }) => name);
const POLICY_KINDS = ['validatingadmissionpolicies', 'validatingadmissionpolicybindings'];
const DEFINITIONS = [
  'agentconfigurations',
  'bgpconfigurations',
  'bgppeers',
  'clusterinformations',
  'controllersconfigurations',
  'globalnetworkpolicies',
  'globalnetworksets',
  'hostendpoints',
  'installations',
  'ipamconfigurations',
  'ipblocks',
  'ippools',
  'ipreservations',
  'netplugnodes',
  'networkpolicies',
  'networksets',
  'profiles',
].map((plural) => `${plural}.netplug.io`);

const GROUP = 'netplug.io';
const RBAC = 'rbac.authorization.k8s.io';
const ADMISSION = 'admissionregistration.k8s.io';
const READ = ['get', 'list', 'watch'];
const WRITE = ['create', 'patch', 'delete'];
const GRANT = [...WRITE, 'escalate', 'bind'];

/** Returns the roles of the operator. Everything that it may write is limited by name. */
export function operatorRoles(systemNamespace: string): {
  readonly 'netplug-operator': Role;
  readonly 'netplug-operator-namespace': Role;
} {
  return {
    'netplug-operator': {
      about: 'What the operator needs in the whole cluster. It writes only the objects that are named here.',
      account: 'netplug-operator',
      rules: [
        {
          group: GROUP,
          resources: ['installations'],
          verbs: [...READ, 'patch'],
          why: 'The installation that it reconciles, and its finalizer',
        },
        { group: GROUP, resources: ['installations/status'], verbs: ['patch'], why: 'Conditions and components' },
        {
          group: GROUP,
          resources: ['ippools'],
          verbs: [...READ, 'create', 'patch'],
          why: 'Pools of the installation; it never deletes one',
        },
        {
          group: '',
          resources: ['nodes'],
          verbs: ['list', 'watch'],
          why: 'Addresses and pod CIDRs, which pools must not overlap, and the number of nodes',
        },
        {
          group: 'networking.k8s.io',
          resources: ['servicecidrs'],
          verbs: ['list'],
          why: 'Addresses of services, which pools must not overlap',
        },
        { group: '', resources: ['events'], verbs: ['create'], why: 'Fields that it takes over or changes back' },
        { group: '', resources: ['namespaces'], verbs: READ, why: 'Changes of the namespace of netplug' },
        {
          group: '',
          resources: ['namespaces'],
          verbs: ['create', 'patch'],
          names: [systemNamespace],
          why: 'The namespace of netplug',
        },
        {
          group: 'apiextensions.k8s.io',
          resources: ['customresourcedefinitions'],
          verbs: READ,
          why: 'Whether the CRDs are served and of its release',
        },
        {
          group: 'apiextensions.k8s.io',
          resources: ['customresourcedefinitions'],
          verbs: ['create', 'patch'],
          names: DEFINITIONS,
          why: 'CRDs of netplug; it never deletes one',
        },
        { group: RBAC, resources: ['clusterroles', 'clusterrolebindings'], verbs: READ, why: 'Changes of its roles' },
        {
          group: RBAC,
          resources: ['clusterroles'],
          verbs: GRANT,
          names: RENDERED_ROLES.cluster,
          why: 'Roles of plugin, agent, controllers and users, whose rights it does not have itself',
        },
        {
          group: RBAC,
          resources: ['clusterrolebindings'],
          verbs: WRITE,
          names: RENDERED_ROLES.cluster,
          why: 'Bindings of those roles',
        },
        { group: ADMISSION, resources: POLICY_KINDS, verbs: READ, why: 'Changes of its admission policies' },
        {
          group: ADMISSION,
          resources: POLICY_KINDS,
          verbs: WRITE,
          names: RENDERED_POLICIES,
          why: 'Admission policies of netplug; without them when the Installation says so',
        },
      ],
    },
    'netplug-operator-namespace': {
      about: 'What the operator needs in the namespace of netplug.',
      account: 'netplug-operator',
      namespace: systemNamespace,
      rules: [
        {
          group: 'coordination.k8s.io',
          resources: ['leases'],
          verbs: ['get', 'list', 'watch', 'create', 'update'],
          names: ['netplug-operator'],
          why: 'One operator works',
        },
        {
          group: 'coordination.k8s.io',
          resources: ['leases'],
          verbs: ['create'],
          why: 'The first operator makes the lease',
        },
        {
          group: 'apps',
          resources: ['daemonsets', 'deployments'],
          verbs: READ,
          why: 'State of the workloads, and changes of them',
        },
        {
          group: 'apps',
          resources: ['daemonsets', 'deployments'],
          verbs: WRITE,
          names: RENDERED_WORKLOADS,
          why: 'Workloads',
        },
        { group: '', resources: ['pods'], verbs: READ, why: 'Which node is not ready, and why' },
        { group: '', resources: ['configmaps', 'serviceaccounts'], verbs: READ, why: 'Changes of them' },
        {
          group: '',
          resources: ['configmaps'],
          verbs: WRITE,
          names: RENDERED_CONFIG_MAPS,
          why: 'The conflist, and the inventory of what it has created',
        },
        {
          group: '',
          resources: ['serviceaccounts'],
          verbs: WRITE,
          names: RENDERED_ACCOUNTS,
          why: 'Accounts of plugin, agent and controllers',
        },
        { group: RBAC, resources: ['roles', 'rolebindings'], verbs: READ, why: 'Changes of its roles' },
        {
          group: RBAC,
          resources: ['roles'],
          verbs: GRANT,
          names: RENDERED_ROLES.namespace,
          why: 'Roles of agent and controllers in this namespace',
        },
        {
          group: RBAC,
          resources: ['rolebindings'],
          verbs: WRITE,
          names: RENDERED_ROLES.namespace,
          why: 'Their bindings',
        },
      ],
    },
  };
}
