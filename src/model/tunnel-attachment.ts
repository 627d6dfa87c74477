import type { Allocation } from './ip-block.ts';
import type { Attachment, NodeName } from './names.ts';

/** No network of a runtime can be called so: CNI allows no space in a name. */
const TUNNEL_NETWORK = 'netplug tunnel';

/** Stands for the tunnel device of a node where the address manager records the holder of an address. */
export function tunnelAttachment(node: NodeName, device: string): Attachment {
  return { network: TUNNEL_NETWORK, containerId: node, ifName: device };
}

/** Whether the holder is a tunnel device of its node, not a pod. */
export function isTunnelAddress({ network }: Pick<Allocation, 'network'>): boolean {
  return network === TUNNEL_NETWORK;
}
