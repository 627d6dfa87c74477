import { ADMISSION_POLICIES } from '../admission/admission-objects.ts';
import { FLOW_LEVEL } from '../flow-control.ts';
import { TYPHA } from '../../../model/typha.ts';
import {
  admission,
  apps,
  coordination,
  core,
  disruption,
  extensions,
  flowControl,
  FOLLOW,
  networking,
  only,
  own,
  rbac,
  READ,
  type Role,
} from './role-rule.ts';

/** The roles that the operator creates. It holds few of the rights in them, and so needs `escalate` and `bind` for each. */
export const RENDERED_ROLES = {
  cluster: [
    'netplug-cni-reader',
    'netplug-cni-datastore',
    'netplug-agent',
    'netplug-agent-datastore',
    'netplug-agent-fanned-out',
    'netplug-typha',
    'netplug-orch-controllers',
    'netplug-orch-controllers-datastore',
    'netplug-viewer',
    'netplug-admin',
    'netplug-installer',
    'netplug-use-ip-addrs-no-ipam',
    'netplug-use-floating-ips',
  ],
  namespace: [
    'netplug-agent-passwords',
    'netplug-agent-tokens',
    'netplug-agent-servers',
    'netplug-typha-leases',
    'netplug-orch-controllers-lease',
  ],
} as const;
const RENDERED_ACCOUNTS = ['netplug-cni', 'netplug-agent', TYPHA, 'netplug-orch-controllers'];
const RENDERED_WORKLOADS = ['netplug-node', 'netplug-bird', TYPHA, 'netplug-orch-controllers', 'netplug-cleanup'];
const RENDERED_CONFIG_MAPS = ['netplug-config', 'netplug-inventory'];
const RENDERED_POLICIES = ADMISSION_POLICIES.map(({ name }) => name);
const FLOW_KINDS = ['flowschemas', 'prioritylevelconfigurations'];
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
  'nodereports',
  'workloadendpoints',
  'networkpolicies',
  'networksets',
  'profiles',
].map((plural) => `${plural}.netplug.io`);

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
        own(['installations'], [...READ, 'patch'], 'The installation that it reconciles, and its finalizer'),
        own(['installations/status'], ['patch'], 'Conditions and components'),
        own(['ippools'], [...READ, 'create', 'patch'], 'Pools of the installation; it never deletes one'),
        own(['nodereports'], FOLLOW, 'What agents know to be wrong, for the status of the installation'),
        core(['nodes'], FOLLOW, 'Addresses and pod CIDRs, which pools must not overlap, and the number of nodes'),
        networking(['servicecidrs'], FOLLOW, 'Addresses of services, which pools must not overlap'),
        core(['events'], ['create'], 'Fields that it takes over or changes back'),
        core(['namespaces'], READ, 'Changes of the namespace of netplug'),
        only([systemNamespace], core(['namespaces'], ['create', 'patch'], 'The namespace of netplug')),
        extensions(['customresourcedefinitions'], READ, 'Whether the CRDs are served and of its release'),
        only(
          DEFINITIONS,
          extensions(['customresourcedefinitions'], ['create', 'patch'], 'CRDs of netplug; it never deletes one'),
        ),
        rbac(['clusterroles', 'clusterrolebindings'], READ, 'Changes of its roles'),
        only(
          RENDERED_ROLES.cluster,
          rbac(
            ['clusterroles'],
            GRANT,
            'Roles of plugin, agent, controllers and users, whose rights it does not have itself',
          ),
        ),
        only(RENDERED_ROLES.cluster, rbac(['clusterrolebindings'], WRITE, 'Bindings of those roles')),
        admission(POLICY_KINDS, READ, 'Changes of its admission policies'),
        only(
          RENDERED_POLICIES,
          admission(POLICY_KINDS, WRITE, 'Admission policies of netplug; without them when the Installation says so'),
        ),
        flowControl(FLOW_KINDS, READ, 'Changes of the level of the requests of agents'),
        only([FLOW_LEVEL], flowControl(FLOW_KINDS, WRITE, 'The level of the requests of agents')),
      ],
    },
    'netplug-operator-namespace': {
      about: 'What the operator needs in the namespace of netplug.',
      account: 'netplug-operator',
      namespace: systemNamespace,
      rules: [
        only(['netplug-operator'], coordination(['leases'], [...READ, 'create', 'update'], 'One operator works')),
        coordination(['leases'], ['create'], 'The first operator makes the lease'),
        apps(['daemonsets', 'deployments'], READ, 'State of the workloads, and changes of them'),
        only(RENDERED_WORKLOADS, apps(['daemonsets', 'deployments'], WRITE, 'Workloads')),
        coordination(
          ['leases'],
          ['list', 'delete'],
          'What the servers of the fan-out say of their agents; those that are left when it is switched off',
        ),
        disruption(['poddisruptionbudgets'], READ, 'Changes of it'),
        only([TYPHA], disruption(['poddisruptionbudgets'], WRITE, 'How many servers an eviction may take at once')),
        core(['pods'], READ, 'Which node is not ready, and why'),
        core(['configmaps', 'serviceaccounts'], READ, 'Changes of them'),
        only(
          RENDERED_CONFIG_MAPS,
          core(['configmaps'], WRITE, 'The conflist, and the inventory of what it has created'),
        ),
        only(RENDERED_ACCOUNTS, core(['serviceaccounts'], WRITE, 'Accounts of plugin, agent, fan-out and controllers')),
        rbac(['roles', 'rolebindings'], READ, 'Changes of its roles'),
        only(
          RENDERED_ROLES.namespace,
          rbac(['roles'], GRANT, 'Roles of agent, fan-out and controllers in this namespace'),
        ),
        only(RENDERED_ROLES.namespace, rbac(['rolebindings'], WRITE, 'Their bindings')),
      ],
    },
  };
}
