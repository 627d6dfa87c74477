import { type AdmissionPolicy, cel } from './admission-policy.ts';

/** Label of the namespaces in which every user may set the annotations. */
export const ALLOWING_LABEL = 'netplug/allow-address-annotations';
const NOW = 'dyn(object).metadata.?annotations.orValue({})';
const BEFORE = 'oldObject == null ? {} : dyn(oldObject).metadata.?annotations.orValue({})';

/** Policies about the annotations of pods, for every account that writes them. */
export const ANNOTATION_POLICIES: readonly AdmissionPolicy[] = [
  {
    name: 'netplug-address-annotations',
    about: `cni.netplug/ipAddrsNoIpam and cni.netplug/floatingIPs let a pod receive the traffic of other pods. Only these may set them:
  - users who create pods in a namespace with the label ${ALLOWING_LABEL}:
      kubectl label namespace NAME ${ALLOWING_LABEL}=
  - users, groups and service accounts to which one of the roles netplug-use-ip-addrs-no-ipam and netplug-use-floating-ips is
    bound, in the namespace of the binding, or everywhere by a ClusterRoleBinding:
      kubectl create rolebinding floating-ips --clusterrole=netplug-use-floating-ips --group=NAME --namespace=NAME
  - pods that run under a service account with such a binding, regardless of the creator, such as those of a Deployment:
      kubectl create rolebinding web --clusterrole=netplug-use-floating-ips --serviceaccount=NAMESPACE:NAME \\
        --namespace=NAMESPACE
Administrators of the cluster, who may do everything, may do this as well.`,
    // The scheduler's binding carries annotations to the pod, too.
    matches: {
      group: '',
      versions: ['v1'],
      operations: ['CREATE', 'UPDATE'],
      resources: ['pods', 'pods/*', 'bindings', 'namespaces', 'namespaces/*'],
    },
    writers: 'everyone',
    exceptWithLabel: ALLOWING_LABEL,
    variables: {
      now: NOW,
      before: BEFORE,
      place: "request.namespace == '' ? object.metadata.name : request.namespace",
      account: "dyn(object).?spec.?serviceAccountName.orValue('')",
      setsIpAddrsNoIpam: cel`
        'cni.netplug/ipAddrsNoIpam' in variables.now &&
        variables.now['cni.netplug/ipAddrsNoIpam'] != variables.before[?'cni.netplug/ipAddrsNoIpam'].orValue('')`,
      setsFloatingIPs: cel`
        'cni.netplug/floatingIPs' in variables.now &&
        variables.now['cni.netplug/floatingIPs'] != variables.before[?'cni.netplug/floatingIPs'].orValue('')`,
    },
    validations: [
      {
        expression: cel`
          !variables.setsIpAddrsNoIpam ||
          authorizer.group('netplug.io').resource('addressannotations').namespace(variables.place)
          .name('ipAddrsNoIpam').check('use').allowed() ||
          (variables.account != '' && authorizer.serviceAccount(variables.place, variables.account)
          .group('netplug.io').resource('addressannotations').namespace(variables.place)
          .name('ipAddrsNoIpam').check('use').allowed())`,
        messageExpression: cel`
          'annotation cni.netplug/ipAddrsNoIpam needs the label netplug/allow-address-annotations on namespace "' +
          variables.place + '", or the role netplug-use-ip-addrs-no-ipam for the user or for the service account ' +
          'of the pod'`,
      },
      {
        expression: cel`
          !variables.setsFloatingIPs ||
          authorizer.group('netplug.io').resource('addressannotations').namespace(variables.place)
          .name('floatingIPs').check('use').allowed() ||
          (variables.account != '' && authorizer.serviceAccount(variables.place, variables.account)
          .group('netplug.io').resource('addressannotations').namespace(variables.place)
          .name('floatingIPs').check('use').allowed())`,
        messageExpression: cel`
          'annotation cni.netplug/floatingIPs needs the label netplug/allow-address-annotations on namespace "' +
          variables.place + '", or the role netplug-use-floating-ips for the user or for the service account of the pod'`,
      },
    ],
  },
  {
    name: 'netplug-notes-on-pods',
    about: `Annotations of pods whose names are reserved for netplug, which reads none of them. Only accounts that may write the
records of addresses (IPBlocks) may change them.`,
    matches: {
      group: '',
      versions: ['v1'],
      operations: ['CREATE', 'UPDATE'],
      resources: ['pods', 'pods/*', 'bindings'],
    },
    writers: 'everyone',
    variables: {
      now: NOW,
      // What a binding does not name, the pod keeps.
      before: BEFORE,
      own: "['cni.netplug/podIPs', 'cni.netplug/containerID']",
      set: cel`
        variables.now.filter(key, (key.startsWith('cni.netplug/endpoint.') || key in variables.own) &&
        !(key in variables.before && variables.before[key] == variables.now[key]))`,
      removed: cel`
        variables.before.filter(key, (key.startsWith('cni.netplug/endpoint.') || key in variables.own) &&
        !(key in variables.now))`,
    },
    validations: [
      {
        expression: cel`
          variables.set.size() + variables.removed.size() == 0 ||
          authorizer.group('netplug.io').resource('ipblocks').check('update').allowed()`,
        messageExpression: cel`
          'annotation ' + (variables.set + variables.removed).join(', ') + ' is kept by netplug: only accounts that may ' +
          'update IPBlocks may change it'`,
      },
    ],
  },
];
