// A table: what every program of netplug may do in the API, and why. manifests/rbac.yaml and docs/rights.md are made from it.

import { CONTROLLERS } from '../../../model/automatic-host-endpoint.ts';
import { SYSTEM_NAMESPACE } from '../names.ts';
import { operatorRoles } from './operator-roles.ts';

/** The one Secret that the agent may read. */
export const PASSWORD_SECRET = 'netplug-bgp-passwords';

/** One line of a role. */
export interface RoleRule {
  /** The empty text is the core group. */
  readonly group: string;
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
  /** The objects it is limited to; all of them unless given. */
  readonly names?: readonly string[];
  /** Use of the right: one sentence without a full stop. */
  readonly why: string;
}

export interface Role {
  /** Purpose of the role: one or more sentences. */
  readonly about: string;
  /** The service account bound to the role; a cluster binds its users itself. */
  readonly account?: 'netplug-cni' | 'netplug-agent' | 'netplug-operator' | typeof CONTROLLERS;
  /** The namespace that the role is limited to; the whole cluster unless given. */
  readonly namespace?: string;
  /** The datastore that needs the role; both unless given. */
  readonly datastore?: 'orch' | 'kvv3';
  readonly rules: readonly RoleRule[];
}

const GROUP = 'netplug.io';
const ALLOCATION_KINDS = ['ippools', 'ipreservations', 'ipamconfigurations', 'bgpconfigurations', 'bgppeers'];
const POLICY_KINDS = [
  'hostendpoints',
  'networkpolicies',
  'globalnetworkpolicies',
  'profiles',
  'networksets',
  'globalnetworksets',
  'agentconfigurations',
];
const STORED_KINDS = [...POLICY_KINDS, 'controllersconfigurations'];
const OWN_KINDS = [...ALLOCATION_KINDS, ...STORED_KINDS, 'ipblocks', 'netplugnodes', 'clusterinformations'];
const READ = ['get', 'list', 'watch'];
const WRITE = ['create', 'update', 'patch', 'delete'];

/** Rights that `netplugctl` needs to read, in every role for users. */
const SHOWN: readonly RoleRule[] = [
  {
    group: '',
    resources: ['pods'],
    verbs: READ,
    why: 'The endpoints of pods and their annotations; commands that explain policies follow them',
  },
  {
    group: '',
    resources: ['namespaces'],
    verbs: READ,
    why: 'Annotations, for "why pod" and "plan add"; labels, which policies select',
  },
  {
    group: '',
    resources: ['serviceaccounts'],
    verbs: ['list', 'watch'],
    why: 'Labels of service accounts, which policies select',
  },
  {
    group: 'networking.k8s.io',
    resources: ['networkpolicies'],
    verbs: ['list', 'watch'],
    why: 'Policies of Kubernetes, for "policy why"',
  },
  {
    group: 'discovery.k8s.io',
    resources: ['endpointslices'],
    verbs: ['list', 'watch'],
    why: 'Addresses and ports of services that policies name',
  },
  { group: '', resources: ['nodes'], verbs: READ, why: 'Labels, addresses and pod CIDRs of nodes' },
  {
    group: 'apiextensions.k8s.io',
    resources: ['customresourcedefinitions'],
    verbs: ['get'],
    why: 'The doctor compares the CRDs with those of its release',
  },
  {
    group: 'admissionregistration.k8s.io',
    resources: ['validatingadmissionpolicies', 'validatingadmissionpolicybindings'],
    verbs: ['list'],
    why: 'The doctor looks for policies that restrict annotations',
  },
];

export const ROLES = {
  'netplug-cni-reader': {
    about: 'What the plugin reads with policy.type "orch" and for pod CIDRs, whatever the datastore is.',
    account: 'netplug-cni',
    rules: [
      {
        group: '',
        resources: ['pods', 'namespaces', 'nodes'],
        verbs: ['get'],
        why: 'Labels, ports and annotations of the pod, annotations of its namespace, pod CIDRs of the node',
      },
      {
        group: '',
        resources: ['events'],
        verbs: ['create'],
        why: 'A warning on the pod about an annotation that cannot work as meant',
      },
    ],
  },
  'netplug-cni-datastore': {
    about: 'What datastore_type "orch" needs besides. Leave this role and its binding out with a kv datastore.',
    datastore: 'orch',
    account: 'netplug-cni',
    rules: [
      { group: '', resources: ['pods'], verbs: ['list'], why: 'GC reads the endpoints of all pods of its node' },
      {
        group: '',
        resources: ['pods/status'],
        verbs: ['patch'],
        why: 'The endpoint is an annotation of its pod; the status takes annotations, and neither spec nor owner',
      },
      {
        group: GROUP,
        resources: ['ippools', 'ipreservations'],
        verbs: ['list'],
        why: 'What addresses are assigned from',
      },
      {
        group: GROUP,
        resources: ['ippools'],
        verbs: ['get'],
        why: 'A new block is kept only if its pool has not changed meanwhile',
      },
      {
        group: GROUP,
        resources: ['ipamconfigurations', 'clusterinformations'],
        verbs: ['get'],
        why: 'Settings of IPAM, and whether the datastore is locked',
      },
      {
        group: GROUP,
        resources: ['ipblocks'],
        verbs: ['get', 'list', 'create', 'update', 'delete'],
        why: 'The record of which attachment holds which address',
      },
    ],
  },
  'netplug-agent': {
    about: 'What the agent reads with policy.type "orch" and for pod CIDRs, whatever the datastore is.',
    account: 'netplug-agent',
    rules: [
      {
        group: '',
        resources: ['pods', 'namespaces'],
        verbs: READ,
        why: 'It follows what the plugin would read again for every pod, and asks for a pod that the watch has not shown yet',
      },
      { group: '', resources: ['nodes'], verbs: ['get'], why: 'Pod CIDRs of the node' },
      {
        group: '',
        resources: ['events'],
        verbs: ['create'],
        why: 'A warning on the pod about an annotation that cannot work as meant, or a connection that policies denied',
      },
    ],
  },
  'netplug-agent-datastore': {
    about:
      'What the agent needs besides with datastore_type "orch". Leave this role and its binding out with a kv datastore.',
    datastore: 'orch',
    account: 'netplug-agent',
    rules: [
      {
        group: '',
        resources: ['pods/status'],
        verbs: ['patch'],
        why: 'The endpoint is an annotation of its pod; the status takes annotations, and neither spec nor owner',
      },
      {
        group: '',
        resources: ['nodes'],
        verbs: ['list', 'watch'],
        why: 'It watches its own Node',
      },
      {
        group: '',
        resources: ['nodes/status'],
        verbs: ['patch'],
        why: 'Annotations that say where the node is reached, and the condition NetworkUnavailable',
      },
      {
        group: GROUP,
        resources: ALLOCATION_KINDS,
        verbs: ['list', 'watch'],
        why: 'What addresses are assigned from, and what routes and sessions depend on',
      },
      {
        group: GROUP,
        resources: POLICY_KINDS,
        verbs: ['list', 'watch'],
        why: 'Policies and what they select, and the settings of the agent',
      },
      {
        group: 'networking.k8s.io',
        resources: ['networkpolicies'],
        verbs: ['list', 'watch'],
        why: 'Policies of Kubernetes, while the node enforces policies',
      },
      {
        group: '',
        resources: ['serviceaccounts'],
        verbs: ['list', 'watch'],
        why: 'Labels of service accounts, which policies select',
      },
      {
        group: 'discovery.k8s.io',
        resources: ['endpointslices'],
        verbs: ['list', 'watch'],
        why: 'Addresses and ports of services that policies name',
      },
      {
        group: GROUP,
        resources: ['ippools', 'ipamconfigurations'],
        verbs: ['get'],
        why: 'A new block is kept only if its pool has not changed meanwhile; a read that proves that the API answers',
      },
      {
        group: GROUP,
        resources: ['clusterinformations'],
        verbs: ['get', 'list', 'watch', 'create', 'update'],
        why: 'Which release runs in the cluster, and whether the datastore is locked',
      },
      {
        group: GROUP,
        resources: ['ipblocks'],
        verbs: ['get', 'list', 'watch', 'create', 'update', 'delete'],
        why: 'The record of which attachment holds which address',
      },
      {
        group: GROUP,
        resources: ['netplugnodes'],
        verbs: ['get', 'list', 'watch', 'create', 'update'],
        why: 'What other nodes need of a node; the agent writes the object of its own node',
      },
    ],
  },
  'netplug-agent-passwords': {
    about: `Passwords of BGP sessions, as BGPPeer and BGPConfiguration name them: one Secret, with a key for each password. Add the names of others here. Leave this role and its binding out where no session has a password.`,
    account: 'netplug-agent',
    namespace: SYSTEM_NAMESPACE,
    rules: [
      {
        group: '',
        resources: ['secrets'],
        verbs: ['get'],
        names: [PASSWORD_SECRET],
        why: 'Passwords of BGP sessions',
      },
    ],
  },
  'netplug-agent-tokens': {
    about:
      "The token of the plugin's account, which the agent renews when NETPLUG_CNI_ACCOUNT is set. Leave this role and its binding out where the agent does not.",
    account: 'netplug-agent',
    namespace: SYSTEM_NAMESPACE,
    rules: [
      {
        group: '',
        resources: ['serviceaccounts/token'],
        verbs: ['create'],
        names: ['netplug-cni'],
        why: "The token of the plugin's account",
      },
    ],
  },
  'netplug-orch-controllers': {
    about: 'What the controllers read, whatever the datastore is.',
    account: CONTROLLERS,
    rules: [
      {
        group: '',
        resources: ['pods', 'nodes'],
        verbs: READ,
        why: 'What they mirror, and whether it is really gone before a record is deleted',
      },
      { group: '', resources: ['events'], verbs: ['create'], why: 'What a person should know of an object' },
    ],
  },
  'netplug-orch-controllers-mirror': {
    about:
      'What the controllers read besides with a kv datastore, to which they copy it. Leave this role and its binding out with datastore_type "orch".',
    datastore: 'kvv3',
    account: CONTROLLERS,
    rules: [
      {
        group: '',
        resources: ['namespaces', 'serviceaccounts'],
        verbs: READ,
        why: 'Labels, which policies select, and whether an object is really gone before its copy is deleted',
      },
      {
        group: 'networking.k8s.io',
        resources: ['networkpolicies'],
        verbs: READ,
        why: 'Policies of Kubernetes',
      },
    ],
  },
  'netplug-orch-controllers-datastore': {
    about:
      'What the controllers need besides with datastore_type "orch". Leave this role and its binding out with a kv datastore.',
    datastore: 'orch',
    account: CONTROLLERS,
    rules: [
      {
        group: GROUP,
        resources: ['controllersconfigurations'],
        verbs: ['list', 'watch'],
        why: 'Which controllers run, and their settings',
      },
      {
        group: GROUP,
        resources: ['hostendpoints'],
        verbs: ['get', 'list', 'watch', 'create', 'update', 'delete'],
        why: 'Automatic host endpoints',
      },
      {
        group: GROUP,
        resources: ['ipamconfigurations'],
        verbs: READ,
        why: 'A read that proves that the API answers, and settings of IPAM',
      },
      {
        group: GROUP,
        resources: ['ippools', 'ipreservations'],
        verbs: ['list', 'watch'],
        why: 'How full pools are, and what a release of an address reads with its block',
      },
      {
        group: GROUP,
        resources: ['clusterinformations'],
        verbs: [...READ, 'create', 'update'],
        why: 'Whether the datastore is locked; the newest release, and the id of the cluster when the record was deleted',
      },
      {
        group: GROUP,
        resources: ['ipblocks'],
        verbs: ['get', 'list', 'update', 'delete'],
        why: 'Addresses and blocks of pods and nodes that are gone are released',
      },
    ],
  },
  'netplug-orch-controllers-lease': {
    about: 'The Lease of the controllers, which says who leads. With a kv datastore it only shows that.',
    account: CONTROLLERS,
    namespace: SYSTEM_NAMESPACE,
    rules: [
      {
        group: 'coordination.k8s.io',
        resources: ['leases'],
        verbs: ['get', 'list', 'watch', 'update'],
        names: [CONTROLLERS],
        why: 'One replica leads, by the name of its pod',
      },
      {
        group: 'coordination.k8s.io',
        resources: ['leases'],
        verbs: ['create'],
        why: 'The first replica makes the lease',
      },
    ],
  },
  ...operatorRoles(SYSTEM_NAMESPACE),
  'netplug-viewer': {
    about: 'Read-only access for users of netplugctl. Bind it to those users.',
    rules: [
      ...SHOWN,
      {
        group: GROUP,
        resources: [...OWN_KINDS, 'installations'],
        verbs: READ,
        why: 'All kinds of netplug',
      },
    ],
  },
  'netplug-admin': {
    about:
      'Access for users of netplugctl who are not administrators of the cluster. Bind it to those users. It decides over addresses, routes and policies of all pods, and gives no access to nodes. "datastore import" into the API and "node remove" change the status of pods and nodes as well, for which they need an administrator of the cluster.',
    rules: [
      ...SHOWN,
      {
        group: GROUP,
        resources: OWN_KINDS,
        verbs: [...READ, ...WRITE],
        why: 'All kinds of netplug but the Installation',
      },
      { group: GROUP, resources: ['installations'], verbs: READ, why: 'How netplug is installed' },
    ],
  },
  'netplug-installer': {
    about:
      'Access to the Installation. It amounts to cluster-admin: an Installation names images, variables and pull secrets of pods that are root on every node. Bind it only to users who may have every right in the cluster.',
    rules: [
      {
        group: GROUP,
        resources: ['installations'],
        verbs: [...READ, ...WRITE],
        why: 'The Installation, which the operator carries out',
      },
    ],
  },
  // Nothing is stored under that name: an admission policy asks who may "use" it.
  'netplug-use-ip-addrs-no-ipam': {
    about:
      'Permission to set the annotation `cni.netplug/ipAddrsNoIpam`. Bind it to users, groups or service accounts of pods.',
    rules: [
      {
        group: GROUP,
        resources: ['addressannotations'],
        verbs: ['use'],
        names: ['ipAddrsNoIpam'],
        why: 'The admission policy netplug-address-annotations asks who may use it',
      },
    ],
  },
  'netplug-use-floating-ips': {
    about:
      'Permission to set the annotation `cni.netplug/floatingIPs`. Bind it to users, groups or service accounts of pods.',
    rules: [
      {
        group: GROUP,
        resources: ['addressannotations'],
        verbs: ['use'],
        names: ['floatingIPs'],
        why: 'The admission policy netplug-address-annotations asks who may use it',
      },
    ],
  },
} as const satisfies Readonly<Record<string, Role>>;

export type RoleName = keyof typeof ROLES;

/** Every role by its name, as the interface describes it. */
export const ROLE_LIST: readonly (Role & { readonly name: RoleName })[] = Object.entries(ROLES).map(([name, role]) => ({
  // The keys of the table.
  name: name as RoleName,
  ...role,
}));
