import type { Brand } from '../base/brand.ts';

/** The name a node is registered under; a host name is not one until decoded. */
export type NodeName = Brand<string, 'NodeName'>;

/** Identifies one attachment on its node: network name, container id and interface name, joined by `/`. */
export type Handle = Brand<string, 'Handle'>;

export interface Attachment {
  readonly network: string;
  readonly containerId: string;
  readonly ifName: string;
}

/** Identifies the holder of an address. Container ids may repeat between nodes, for example in copies of one machine. */
export interface Holder {
  readonly node: string;
  readonly handle: Handle;
}

export function isSameHolder(a: Holder, b: Holder): boolean {
  return a.node === b.node && a.handle === b.handle;
}

/** One text per holder, for maps. */
export function holderKey({ node, handle }: Holder): string {
  return JSON.stringify([node, handle]);
}

/** Identifies one interface of one container in any network: `<containerId>/<ifName>`. */
export function interfaceKey({ containerId, ifName }: Pick<Attachment, 'containerId' | 'ifName'>): string {
  return `${containerId}/${ifName}`;
}

/** Container ids and interface names hold no `/`; the network name, which may, comes last. */
export function handleOf(attachment: Attachment): Handle {
  return `${interfaceKey(attachment)}/${attachment.network}` as Handle; // made here and nowhere else
}
