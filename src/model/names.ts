import type { Brand } from '../base/brand.ts';

/** The name under which a node is registered. Only a decoder turns a host name into one. */
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

/** Returns a unique text for the holder, for use as a map key. */
export function holderKey({ node, handle }: Holder): string {
  return JSON.stringify([node, handle]);
}

/** Returns `<containerId>/<ifName>`, which identifies an interface of a container in any network. */
export function interfaceKey({ containerId, ifName }: Pick<Attachment, 'containerId' | 'ifName'>): string {
  return `${containerId}/${ifName}`;
}

/** Returns the handle of an attachment. Only the network name, which comes last, may contain `/`. */
export function handleOf(attachment: Attachment): Handle {
  return `${interfaceKey(attachment)}/${attachment.network}` as Handle; // made here and nowhere else
}
