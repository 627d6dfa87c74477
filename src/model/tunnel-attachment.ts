import type { Allocation } from './ip-block.ts';
import type { Attachment, NodeName } from './names.ts';

/** Cannot be the name of a runtime's network, because CNI allows no space in a name. */
const TUNNEL_NETWORK = 'netplug tunnel';

/** Returns the attachment under which the address manager records the address of a tunnel device. */
export function tunnelAttachment(node: NodeName, device: string): Attachment {
  return { network: TUNNEL_NETWORK, containerId: node, ifName: device };
}

/** Reports whether the holder is a tunnel device of its node. */
export function isTunnelAddress({ network }: Pick<Allocation, 'network'>): boolean {
  return network === TUNNEL_NETWORK;
}
