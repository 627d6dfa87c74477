/**
 * Facts that other nodes need of a node: one small object per node, written by the node's agent. Heartbeats of kubelets do
 * not change it, so an agent that watches these objects receives no heartbeat.
 */
export const NETPLUG_NODE = 'NetplugNode';
export const NETPLUG_NODES = { group: 'netplug.io', version: 'v3', plural: 'netplugnodes' } as const;
