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

/** One interface of one container, whatever network it is in: `<containerId>/<ifName>`. */
export function interfaceKey({ containerId, ifName }: Pick<Attachment, 'containerId' | 'ifName'>): string {
  return `${containerId}/${ifName}`;
}

/** Container ids and interface names hold no `/`; the network name, which may, comes last. */
export function handleOf(attachment: Attachment): Handle {
  return `${interfaceKey(attachment)}/${attachment.network}` as Handle; // made here and nowhere else
}
