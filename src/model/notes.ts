/** Annotations in which the agent notes each fact of its node on the orchestrator's own Node. */
export const NODE_NOTES = {
  ipv4Address: 'netplug/IPv4Address',
  ipv6Address: 'netplug/IPv6Address',
  ipv4VXLANTunnelAddr: 'netplug/IPv4VXLANTunnelAddr',
  vxlanTunnelMACAddr: 'netplug/VXLANTunnelMACAddr',
  ipv6VXLANTunnelAddr: 'netplug/IPv6VXLANTunnelAddr',
  vxlanTunnelMACAddrV6: 'netplug/VXLANTunnelMACAddrV6',
  ipv4IPIPTunnelAddr: 'netplug/IPv4IPIPTunnelAddr',
  netplugVersion: 'netplug/Version',
} as const;

/** Reserved annotation of a pod, which nothing reads: its addresses. */
export const POD_IPS = 'cni.netplug/podIPs';
/** Reserved annotation of a pod, which nothing reads: the sandbox of its addresses. */
export const CONTAINER_ID = 'cni.netplug/containerID';
/** Beginning of reserved annotations of a pod, which nothing reads: the rest of the endpoint, one for each interface. */
export const ENDPOINT_NOTE = 'cni.netplug/endpoint.';

const NODE_KEYS: readonly string[] = Object.values(NODE_NOTES);
const POD_KEYS: readonly string[] = [POD_IPS, CONTAINER_ID];

/** Reports whether a program of netplug, and no user, writes the annotation on Nodes or pods. */
export function isOwnNote(key: string): boolean {
  return NODE_KEYS.includes(key) || POD_KEYS.includes(key) || key.startsWith(ENDPOINT_NOTE);
}

/** The conditions of a Node that agents write. */
export const NODE_CONDITIONS = {
  /** Of Kubernetes: whether the node is cut off from other nodes. Another plugin that connects the nodes writes it as well. */
  unavailable: 'NetworkUnavailable',
  /** Of netplug: whether the node serves ADD. */
  ready: 'netplug.io/NetworkReady',
} as const;
export type NodeConditionType = (typeof NODE_CONDITIONS)[keyof typeof NODE_CONDITIONS];

/** The reasons that netplug gives for `NetworkUnavailable`. */
export const NETWORK_REASONS = { up: 'NetplugIsUp', notReady: 'NetplugIsNotReady' } as const;
const OWN_REASONS: readonly string[] = Object.values(NETWORK_REASONS);

/** Reports whether a program of netplug has written the condition of a Node. */
export function isOwnCondition({ type, reason }: { readonly type: string; readonly reason: string }): boolean {
  return type === NODE_CONDITIONS.ready || (type === NODE_CONDITIONS.unavailable && OWN_REASONS.includes(reason));
}
