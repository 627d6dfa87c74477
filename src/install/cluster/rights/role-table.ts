// A table: what every program of netplug may do in the API, and why. manifests/rbac.yaml and docs/rights.md are made from it.

import { CONTROLLERS } from '../../../model/automatic-host-endpoint.ts';
import { SYSTEM_NAMESPACE } from '../names.ts';
import { operatorRoles } from './operator-roles.ts';
import {
  admission,
  authentication,
  coordination,
  core,
  discovery,
  extensions,
  FOLLOW,
  networking,
  only,
  own,
  READ,
  type Role,
  type RoleRule,
} from './role-rule.ts';

/** The one Secret that the agent may read. */
export const PASSWORD_SECRET = 'netplug-bgp-passwords';

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
const RECORD_KINDS = ['ipblocks', 'workloadendpoints', 'netplugnodes', 'nodereports', 'clusterinformations'];
const OWN_KINDS = [...ALLOCATION_KINDS, ...STORED_KINDS, ...RECORD_KINDS];
const WRITE = ['create', 'update', 'patch', 'delete'];

/** Rights that `netplugctl` needs to read, in every role for users. */
const SHOWN: readonly RoleRule[] = [
  core(['pods'], READ, 'Labels and annotations of pods; commands that explain policies follow them'),
  core(['namespaces'], READ, 'Annotations, for "why pod" and "plan add"; labels, which policies select'),
  core(['serviceaccounts'], FOLLOW, 'Labels of service accounts, which policies select'),
  networking(['networkpolicies'], FOLLOW, 'Policies of Kubernetes, for "policy why"'),
  discovery(['endpointslices'], FOLLOW, 'Addresses and ports of services that policies name'),
  core(
    ['services'],
    ['get', 'list'],
    'Addresses and ports of services, to whose endpoints "policy why" follows packets',
  ),
  core(['nodes'], READ, 'Labels, addresses and pod CIDRs of nodes'),
  extensions(['customresourcedefinitions'], ['get'], 'The doctor compares the CRDs with those of its release'),
  admission(
    ['validatingadmissionpolicies', 'validatingadmissionpolicybindings'],
    ['list'],
    'The doctor looks for policies that restrict annotations',
  ),
];

const ENDPOINTS_OF_AGENT = own(
  ['workloadendpoints'],
  [...READ, 'create', 'update', 'delete'],
  'The record of which pod an attachment is of, and its labels; policies select by those of all nodes',
);
const NODES_OF_AGENT: readonly RoleRule[] = [
  core(['nodes'], FOLLOW, 'It watches its own Node'),
  core(
    ['nodes/status'],
    ['patch'],
    'Annotations that say where the node is reached, and the conditions NetworkUnavailable and netplug.io/NetworkReady',
  ),
];
/** What policies select besides the kinds of netplug. */
const SELECTED: readonly RoleRule[] = [
  networking(['networkpolicies'], FOLLOW, 'Policies of Kubernetes, while the node enforces policies'),
  core(['serviceaccounts'], FOLLOW, 'Labels of service accounts, which policies select'),
  discovery(['endpointslices'], FOLLOW, 'Addresses and ports of services that policies name'),
];
const RECORDS_OF_AGENT: readonly RoleRule[] = [
  own(
    ['ippools', 'ipamconfigurations'],
    ['get'],
    'A new block is kept only if its pool has not changed meanwhile; a read that proves that the API answers',
  ),
  own(
    ['clusterinformations'],
    [...READ, 'create', 'update'],
    'Which release runs in the cluster, and whether the datastore is locked',
  ),
  own(['ipblocks'], [...READ, 'create', 'update', 'delete'], 'The record of which attachment holds which address'),
  own(['nodereports'], ['get', 'create', 'update'], 'What it knows to be wrong on its own node'),
];

export const ROLES = {
  'netplug-cni-reader': {
    about: 'What the plugin reads with policy.type "orch" and for pod CIDRs, whatever the datastore is.',
    account: 'netplug-cni',
    rules: [
      core(
        ['pods', 'namespaces', 'nodes'],
        ['get'],
        'Labels, ports and annotations of the pod, annotations of its namespace, pod CIDRs of the node',
      ),
      core(['events'], ['create'], 'A warning on the pod about an annotation that cannot work as meant'),
    ],
  },
  'netplug-cni-datastore': {
    about: 'What datastore_type "orch" needs besides. Leave this role and its binding out with a kv datastore.',
    datastore: 'orch',
    account: 'netplug-cni',
    rules: [
      own(
        ['workloadendpoints'],
        ['get', 'list', 'create', 'update', 'delete'],
        'The record of which pod an attachment is of, and its labels; GC reads those of its node',
      ),
      own(['ippools', 'ipreservations'], ['list'], 'What addresses are assigned from'),
      own(['ippools'], ['get'], 'A new block is kept only if its pool has not changed meanwhile'),
      own(
        ['ipamconfigurations', 'clusterinformations'],
        ['get'],
        'Settings of IPAM, and whether the datastore is locked',
      ),
      own(
        ['ipblocks'],
        ['get', 'list', 'create', 'update', 'delete'],
        'The record of which attachment holds which address',
      ),
    ],
  },
  'netplug-agent': {
    about: 'What the agent reads with policy.type "orch" and for pod CIDRs, whatever the datastore is.',
    account: 'netplug-agent',
    rules: [
      core(
        ['pods', 'namespaces'],
        READ,
        'It follows what the plugin would read again for every pod, and asks for a pod that the watch has not shown yet',
      ),
      core(['nodes'], ['get'], 'Pod CIDRs of the node, and whether another node still has an address of this one'),
      core(
        ['events'],
        ['create'],
        'A warning on the pod about an annotation that cannot work as meant, a connection that policies denied, or an interface that is gone',
      ),
    ],
  },
  'netplug-agent-datastore': {
    about:
      'What the agent needs besides with datastore_type "orch". Leave this role and its binding out with a kv datastore.',
    datastore: 'orch',
    fanOut: 'without',
    account: 'netplug-agent',
    rules: [
      ENDPOINTS_OF_AGENT,
      ...NODES_OF_AGENT,
      own(ALLOCATION_KINDS, FOLLOW, 'What addresses are assigned from, and what routes and sessions depend on'),
      own(POLICY_KINDS, FOLLOW, 'Policies and what they select, and the settings of the agent'),
      ...SELECTED,
      ...RECORDS_OF_AGENT,
      own(
        ['netplugnodes'],
        [...READ, 'create', 'update'],
        'What other nodes need of a node; the agent writes the object of its own node',
      ),
    ],
  },
  'netplug-agent-fanned-out': {
    about:
      'What the agent needs in place of netplug-agent-datastore while it gets from netplug-typha what every node follows. Leave this role and its binding out without netplug-typha, and that one with it.',
    datastore: 'orch',
    fanOut: 'with',
    account: 'netplug-agent',
    rules: [
      ENDPOINTS_OF_AGENT,
      ...NODES_OF_AGENT,
      own(['ippools', 'ipreservations', 'ipamconfigurations'], FOLLOW, 'What addresses are assigned from'),
      ...RECORDS_OF_AGENT,
      own(['netplugnodes'], ['get', 'create', 'update'], 'The object of its own node, which other nodes need'),
    ],
  },
  'netplug-agent-servers': {
    about:
      'The Leases of the servers of netplug-typha, where their addresses and certificates are. Leave this role and its binding out without netplug-typha.',
    datastore: 'orch',
    fanOut: 'with',
    account: 'netplug-agent',
    namespace: SYSTEM_NAMESPACE,
    rules: [
      coordination(['leases'], ['list'], 'Which servers there are, at the start and when none that it knows answers'),
    ],
  },
  'netplug-agent-passwords': {
    about: `Passwords of BGP sessions, as BGPPeer and BGPConfiguration name them: one Secret, with a key for each password. Add the names of others here. Leave this role and its binding out where no session has a password.`,
    account: 'netplug-agent',
    namespace: SYSTEM_NAMESPACE,
    rules: [only([PASSWORD_SECRET], core(['secrets'], ['get'], 'Passwords of BGP sessions'))],
  },
  'netplug-agent-tokens': {
    about:
      "The token of the plugin's account, which the agent renews when NETPLUG_CNI_ACCOUNT is set. Leave this role and its binding out where the agent does not.",
    account: 'netplug-agent',
    namespace: SYSTEM_NAMESPACE,
    rules: [only(['netplug-cni'], core(['serviceaccounts/token'], ['create'], "The token of the plugin's account"))],
  },
  'netplug-typha': {
    about:
      'What the servers of the fan-out read for all agents, and how they know an agent. Leave this role and its binding out without netplug-typha.',
    datastore: 'orch',
    fanOut: 'with',
    account: 'netplug-typha',
    rules: [
      own([...POLICY_KINDS, 'bgpconfigurations', 'bgppeers'], FOLLOW, 'What agents enforce and announce'),
      own(
        ['netplugnodes', 'ipblocks', 'workloadendpoints'],
        FOLLOW,
        'What nodes need of other nodes; routes of blocks; endpoints, which policies select',
      ),
      own(
        ['ippools', 'ipreservations', 'ipamconfigurations', 'clusterinformations'],
        FOLLOW,
        'What calls of agents need of the cluster',
      ),
      core(
        ['pods', 'serviceaccounts', 'namespaces'],
        FOLLOW,
        'Labels and addresses of pods, labels of their accounts, and labels and annotations of namespaces',
      ),
      networking(['networkpolicies'], FOLLOW, 'Policies of Kubernetes'),
      discovery(['endpointslices'], FOLLOW, 'Addresses and ports of services that policies name'),
      own(['ipamconfigurations'], ['get'], 'A read that proves that the API answers'),
      authentication(['tokenreviews'], ['create'], 'Which node the token of an agent is bound to'),
    ],
  },
  'netplug-typha-leases': {
    about:
      'The Leases of the servers. The admission policy netplug-typha-leases limits the account to these. Leave this role and its binding out without netplug-typha.',
    datastore: 'orch',
    fanOut: 'with',
    account: 'netplug-typha',
    namespace: SYSTEM_NAMESPACE,
    rules: [
      coordination(
        ['leases'],
        [...READ, 'create', 'update', 'patch', 'delete'],
        'Each server writes where it is and its certificate, and reads those of the others',
      ),
    ],
  },
  'netplug-orch-controllers': {
    about: 'What the controllers read, whatever the datastore is.',
    account: CONTROLLERS,
    rules: [
      core(['pods', 'nodes'], READ, 'What they mirror, and whether it is really gone before a record is deleted'),
      core(['events'], ['create'], 'What a person should know of an object'),
      networking(['servicecidrs'], FOLLOW, 'Addresses of Services, which pools must not overlap'),
    ],
  },
  'netplug-orch-controllers-mirror': {
    about:
      'What the controllers read besides with a kv datastore, to which they copy it. Leave this role and its binding out with datastore_type "orch".',
    datastore: 'kvv3',
    account: CONTROLLERS,
    rules: [
      core(
        ['namespaces', 'serviceaccounts'],
        READ,
        'Labels, which policies select, and whether an object is really gone before its copy is deleted',
      ),
      networking(['networkpolicies'], READ, 'Policies of Kubernetes'),
    ],
  },
  'netplug-orch-controllers-datastore': {
    about:
      'What the controllers need besides with datastore_type "orch". Leave this role and its binding out with a kv datastore.',
    datastore: 'orch',
    account: CONTROLLERS,
    rules: [
      own(['controllersconfigurations'], FOLLOW, 'Which controllers run, and their settings'),
      own(['hostendpoints'], [...READ, 'create', 'update', 'delete'], 'Automatic host endpoints'),
      own(['ipamconfigurations'], READ, 'A read that proves that the API answers, and settings of IPAM'),
      own(
        ['ippools', 'ipreservations'],
        FOLLOW,
        'How full pools are, and what a release of an address reads with its block',
      ),
      own(['ippools/status'], ['patch'], 'The mark of a pool that overlaps what nodes, Services or an older pool use'),
      own(
        ['clusterinformations'],
        [...READ, 'create', 'update'],
        'Whether the datastore is locked; the newest release, and the id of the cluster when the record was deleted',
      ),
      own(
        ['ipblocks'],
        ['get', 'list', 'update', 'delete'],
        'Addresses and blocks of pods and nodes that are gone are released',
      ),
      own(
        ['workloadendpoints'],
        [...FOLLOW, 'update', 'delete'],
        'Labels of running pods, so that they are known when the pod is deleted before it has ended; those of nodes that are gone are deleted',
      ),
    ],
  },
  'netplug-orch-controllers-lease': {
    about: 'The Lease of the controllers, which says who leads. With a kv datastore it only shows that.',
    account: CONTROLLERS,
    namespace: SYSTEM_NAMESPACE,
    rules: [
      only([CONTROLLERS], coordination(['leases'], [...READ, 'update'], 'One replica leads, by the name of its pod')),
      coordination(['leases'], ['create'], 'The first replica makes the lease'),
    ],
  },
  ...operatorRoles(SYSTEM_NAMESPACE),
  'netplug-viewer': {
    about: 'Read-only access for users of netplugctl. Bind it to those users.',
    rules: [...SHOWN, own([...OWN_KINDS, 'installations'], READ, 'All kinds of netplug')],
  },
  'netplug-admin': {
    about:
      'Access for users of netplugctl who are not administrators of the cluster. Bind it to those users. It decides over addresses, routes and policies of all pods, and gives no access to nodes. "datastore import" into the API and "node remove" change the status of pods and nodes as well, for which they need an administrator of the cluster.',
    rules: [
      ...SHOWN,
      own(OWN_KINDS, [...READ, ...WRITE], 'All kinds of netplug but the Installation'),
      own(['installations'], READ, 'How netplug is installed'),
    ],
  },
  'netplug-installer': {
    about:
      'Access to the Installation. It amounts to cluster-admin: an Installation names images, variables and pull secrets of pods that are root on every node. Bind it only to users who may have every right in the cluster.',
    rules: [own(['installations'], [...READ, ...WRITE], 'The Installation, which the operator carries out')],
  },
  // Nothing is stored under that name: an admission policy asks who may "use" it.
  'netplug-use-ip-addrs-no-ipam': {
    about:
      'Permission to set the annotation `cni.netplug/ipAddrsNoIpam`. Bind it to users, groups or service accounts of pods.',
    rules: [
      only(
        ['ipAddrsNoIpam'],
        own(['addressannotations'], ['use'], 'The admission policy netplug-address-annotations asks who may use it'),
      ),
    ],
  },
  'netplug-use-floating-ips': {
    about:
      'Permission to set the annotation `cni.netplug/floatingIPs`. Bind it to users, groups or service accounts of pods.',
    rules: [
      only(
        ['floatingIPs'],
        own(['addressannotations'], ['use'], 'The admission policy netplug-address-annotations asks who may use it'),
      ),
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
