import type { Brand } from '../base/brand.ts';

/** The name a node is registered under; a host name is not one until decoded. */
export type NodeName = Brand<string, 'NodeName'>;

/** Identifies one attachment: network name, container id and interface name, joined by `/`. */
export type Handle = Brand<string, 'Handle'>;

export interface Attachment {
  readonly network: string;
  readonly containerId: string;
  readonly ifName: string;
}

/** Container ids and interface names hold no `/`; the network name, which may, comes last. */
export function handleOf({ network, containerId, ifName }: Attachment): Handle {
  return `${containerId}/${ifName}/${network}` as Handle; // made here and nowhere else
}
