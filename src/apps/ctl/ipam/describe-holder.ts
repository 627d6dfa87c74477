import type { Allocation } from '../../../model/ip-block.ts';
import { isTunnelAddress } from '../../../model/tunnel-attachment.ts';

/** Returns the owner of a block. */
export function nameOwner(node: string | undefined): string {
  return node === undefined ? 'no node' : `node ${node}`;
}

/** Returns the holder of an address: a pod, a tunnel device, or a container about which no more is known. */
export function nameHolder(allocation: Omit<Allocation, 'id' | 'at'>): string {
  const { namespace, pod, containerId, ifName } = allocation;
  if (isTunnelAddress(allocation)) return `tunnel device "${ifName}"`;
  return pod === undefined ? `container "${containerId}"` : `pod "${namespace ?? 'default'}/${pod}"`;
}
