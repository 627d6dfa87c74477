import { NODE_CONDITIONS } from '../../../model/notes.ts';
import { type AdmissionPolicy, type AdmissionValidation, cel } from './admission-policy.ts';

const NODE = "request.userInfo.extra[?'authentication.kubernetes.io/node-name'].orValue([''])[0]";
const ANNOTATIONS_NOW = 'dyn(object).metadata.?annotations.orValue({})';
const ANNOTATIONS_BEFORE = 'dyn(oldObject).metadata.?annotations.orValue({})';
const BOUND: AdmissionValidation = {
  expression: "variables.node != ''",
  message:
    'the token is bound to no node: request it with --bound-object-kind=Node --bound-object-name=NODE, or let the agent run in a pod',
};
const ONLY_STATUS = "request.operation == 'UPDATE' && request.?subResource.orValue('') == 'status'";
const ONLY_OWN_FIELDS =
  'netplug changes nothing of a node but its own annotations and the conditions NetworkUnavailable and netplug.io/NetworkReady';
const WRITES = ['CREATE', 'UPDATE', 'DELETE'];

/** Policies that limit the writes of the plugin and the agent to their own node. */
export const NODE_POLICIES: readonly AdmissionPolicy[] = [
  {
    name: 'netplug-node-restriction-endpoints',
    about: 'The endpoints of the own node.',
    matches: { group: 'netplug.io', versions: ['*'], operations: WRITES, resources: ['workloadendpoints'] },
    writers: 'programs',
    variables: { node: NODE },
    validations: [
      BOUND,
      {
        expression: cel`
          (object == null || dyn(object).spec.node == variables.node) &&
          (oldObject == null || dyn(oldObject).spec.node == variables.node)`,
        messageExpression: `'the endpoint is not of node "' + variables.node + '"'`,
      },
    ],
  },
  {
    name: 'netplug-node-restriction-nodes',
    about:
      'Of the own Node, the annotations of netplug and the conditions NetworkUnavailable and netplug.io/NetworkReady.',
    matches: { group: '', versions: ['v1'], operations: ['*'], resources: ['nodes', 'nodes/*'] },
    writers: 'programs',
    variables: {
      node: NODE,
      now: ANNOTATIONS_NOW,
      before: ANNOTATIONS_BEFORE,
      ownConditions: `[${Object.values(NODE_CONDITIONS)
        .map((type) => `'${type}'`)
        .join(', ')}]`,
      statusNow: 'dyn(object).?status.orValue({})',
      statusBefore: 'dyn(oldObject).?status.orValue({})',
    },
    validations: [
      BOUND,
      { expression: ONLY_STATUS, message: 'netplug writes only to the status of nodes that exist' },
      {
        expression: "request.operation != 'UPDATE' || request.name == variables.node",
        messageExpression: `'the token is that of node "' + variables.node + '"'`,
      },
      {
        expression: cel`
          request.operation != 'UPDATE' || (object.metadata.?labels == oldObject.metadata.?labels &&
          object.metadata.?finalizers == oldObject.metadata.?finalizers &&
          variables.now.all(key, key.startsWith('netplug/') ||
          (key in variables.before && variables.before[key] == variables.now[key])) &&
          variables.before.all(key, key.startsWith('netplug/') || key in variables.now))`,
        message: ONLY_OWN_FIELDS,
      },
      {
        // Everything of the status but the conditions, and the conditions of others.
        expression: cel`
          request.operation != 'UPDATE' || (
          ['addresses', 'allocatable', 'capacity', 'config', 'daemonEndpoints', 'declaredFeatures', 'features', 'images',
          'nodeInfo', 'phase', 'runtimeHandlers', 'volumesAttached', 'volumesInUse']
          .all(field, variables.statusNow[?field] == variables.statusBefore[?field]) &&
          variables.statusNow.?conditions.orValue([]).filter(c, !(c.type in variables.ownConditions)) ==
          variables.statusBefore.?conditions.orValue([]).filter(c, !(c.type in variables.ownConditions)))`,
        message: ONLY_OWN_FIELDS,
      },
    ],
  },
  {
    name: 'netplug-node-restriction-netplugnodes',
    about: 'The NetplugNode and the NodeReport of the own node, which its Node owns.',
    matches: { group: 'netplug.io', versions: ['*'], operations: WRITES, resources: ['netplugnodes', 'nodereports'] },
    writers: 'programs',
    variables: {
      node: NODE,
      owners: 'object == null ? [] : dyn(object).metadata.?ownerReferences.orValue([])',
    },
    validations: [
      BOUND,
      {
        expression: "request.operation != 'DELETE' && dyn(object).metadata.name == variables.node",
        messageExpression: `'the token is that of node "' + variables.node + '"'`,
      },
      {
        expression: cel`
          request.operation == 'DELETE' ||
          variables.owners.exists(owner, owner.kind == 'Node' && owner.name == variables.node)`,
        messageExpression: `'the Node "' + variables.node + '" must own its object'`,
      },
    ],
  },
  {
    name: 'netplug-node-restriction-blocks',
    about:
      'Own blocks, and own addresses in the blocks of other nodes. What other nodes hold, own and have pre-allocated stays as it is.',
    matches: { group: 'netplug.io', versions: ['*'], operations: WRITES, resources: ['ipblocks'] },
    writers: 'programs',
    variables: {
      node: NODE,
      // A block that is deleted has nothing afterwards, one that is created nothing before.
      now: 'object == null ? {} : dyn(object).spec',
      before: 'oldObject == null ? {} : dyn(oldObject).spec',
      slotsNow: 'variables.now.?slots.orValue({})',
      slotsBefore: 'variables.before.?slots.orValue({})',
      ownerNow: "variables.now.?node.orValue('')",
      ownerBefore: "variables.before.?node.orValue('')",
      preallocatedBefore: 'variables.before.?preallocated.orValue({})',
      labels: 'object == null ? {} : dyn(object).metadata.?labels.orValue({})',
      annotations: 'object == null ? {} : dyn(object).metadata.?annotations.orValue({})',
      // "name":[ordinals], one for each node.
      borrowed: cel`variables.annotations[?'netplug/borrowed'].orValue('{}').findAll('"[^"]+":\\[[0-9,]+\\]')`,
    },
    validations: [
      BOUND,
      {
        // A block without an owner goes with its last address, and comes back when that could not be.
        expression: "request.operation != 'CREATE' || variables.ownerNow == variables.node || variables.ownerNow == ''",
        messageExpression: `'a new block must be owned by node "' + variables.node + '"'`,
      },
      {
        expression:
          "request.operation != 'DELETE' || variables.ownerBefore == variables.node || variables.ownerBefore == ''",
        messageExpression: `'the block is owned by node "' + variables.ownerBefore + '"'`,
      },
      {
        expression: cel`
          request.operation != 'UPDATE' || (variables.now.cidr == variables.before.cidr &&
          (variables.ownerNow == variables.ownerBefore || variables.ownerBefore == variables.node ||
          (variables.ownerNow == variables.node && (variables.ownerBefore == '' ||
          variables.slotsBefore.size() + variables.preallocatedBefore.size() == 0))))`,
        messageExpression: `'the block is owned by node "' + variables.ownerBefore + '", which holds or has pre-allocated addresses of it'`,
      },
      {
        expression: cel`
          variables.slotsNow.all(ordinal,
          (ordinal in variables.slotsBefore && variables.slotsBefore[ordinal] == variables.slotsNow[ordinal]) ||
          (variables.slotsNow[ordinal].node == variables.node &&
          (ordinal in variables.slotsBefore ? variables.slotsBefore[ordinal].node == variables.node :
          (!(ordinal in variables.preallocatedBefore) || variables.ownerBefore == variables.node))))`,
        messageExpression: `'node "' + variables.node + '" may take only addresses that are free, and for itself'`,
      },
      {
        expression: cel`
          variables.slotsBefore.all(ordinal, ordinal in variables.slotsNow ||
          variables.slotsBefore[ordinal].node == variables.node)`,
        messageExpression: `'node "' + variables.node + '" may release only addresses that it holds'`,
      },
      {
        expression: cel`
          variables.ownerNow == variables.node || variables.ownerBefore == variables.node ||
          (variables.now.?preallocated == variables.before.?preallocated &&
          variables.before.?requested.orValue([]).all(ordinal, ordinal in variables.now.?requested.orValue([])))`,
        messageExpression: `'only the agent of node "' + variables.ownerBefore + '" may change its pre-allocated addresses'`,
      },
      {
        // Routes are made from the metadata: it must say what the block says.
        expression: cel`
          request.operation == 'DELETE' ||
          variables.annotations[?'netplug/node-name'].orValue(variables.labels[?'netplug/node'].orValue('')) ==
          variables.ownerNow`,
        message:
          'the label netplug/node (for a long name the annotation netplug/node-name) must name the owner of the block',
      },
      {
        expression: cel`
          '{' + variables.borrowed.join(',') + '}' == variables.annotations[?'netplug/borrowed'].orValue('{}') &&
          variables.borrowed.all(entry, entry.split('[')[1].replace(']', '').split(',').all(ordinal,
          ordinal in variables.slotsNow && variables.slotsNow[ordinal].node == entry.split('"')[1]))`,
        message: 'the annotation netplug/borrowed must name the nodes that hold these addresses',
      },
    ],
  },
  {
    name: 'netplug-node-restriction-tokens',
    about:
      'Tokens of the account of the plugin that are bound to the own Node: any other would have the writes of another node.',
    matches: { group: '', versions: ['v1'], operations: ['CREATE'], resources: ['serviceaccounts/token'] },
    writers: 'programs',
    variables: {
      node: NODE,
      boundTo: 'dyn(object).spec.?boundObjectRef.orValue({})',
    },
    validations: [
      BOUND,
      {
        expression:
          "variables.boundTo.?kind.orValue('') == 'Node' && variables.boundTo.?name.orValue('') == variables.node",
        messageExpression: `'the token must be bound to node "' + variables.node + '"'`,
      },
    ],
  },
  {
    name: 'netplug-node-restriction-cluster',
    about: 'The release that runs in the cluster, and its id while it has none. Locking is for administrators.',
    matches: { group: 'netplug.io', versions: ['*'], operations: WRITES, resources: ['clusterinformations'] },
    writers: 'programs',
    variables: {
      node: NODE,
      now: 'object == null ? {} : dyn(object).spec',
      before: 'oldObject == null ? {} : dyn(oldObject).spec',
    },
    validations: [
      BOUND,
      {
        expression: cel`
          request.operation != 'DELETE' &&
          variables.now.?datastoreReady.orValue(true) == variables.before.?datastoreReady.orValue(true)`,
        message: 'only administrators lock and unlock the datastore',
      },
      {
        expression: '!has(variables.before.clusterGUID) || variables.now.?clusterGUID == variables.before.?clusterGUID',
        message: 'the id of the cluster stays',
      },
    ],
  },
];
