import type { WorkloadEndpoint } from '../model/workload-endpoint.ts';
import type { Address } from '../net/address.ts';
import type { CniCall } from './call.ts';

/** Addresses given to one attachment, and how to give them back when the rest of the call fails. */
export interface Grant {
  readonly addresses: readonly Address[];
  readonly dns: Readonly<Record<string, unknown>>;
  /** Facts for the log: which pools, by which rule. */
  readonly facts: Readonly<Record<string, string | readonly string[]>>;
  /** Takes back what this call took; what the attachment held before stays. */
  takeBack(signal: AbortSignal): Promise<void>;
}

export type EndpointOf = (addresses: readonly Address[]) => WorkloadEndpoint;

/** Names the attachments of the call's network and node that shall stay. */
export type Keeps = (attachment: { readonly containerId: string; readonly ifName: string }) => boolean;

/** Where addresses come from: netplug's own address manager, or a plugin that is delegated to. */
export interface AddressSource {
  /** The endpoint is recorded with the addresses. Asking again for the same attachment gives the same addresses. */
  acquire(call: CniCall, endpointOf: EndpointOf): Promise<Grant>;
  /** Frees addresses and endpoint once `unlinked` says that nothing uses them; nothing to free is success. */
  release(call: CniCall, unlinked: Promise<unknown>): Promise<void>;
  /** @throws check/mismatch when the attachment does not hold exactly these addresses */
  check(call: CniCall, addresses: readonly Address[]): Promise<void>;
  /** Frees what attachments that are not kept hold; goes on after errors and throws them together. Returns how many. */
  collect(call: CniCall, keeps: Keeps): Promise<number>;
  /** @throws the reason why an address could not be given now */
  assertReady(call: CniCall): Promise<void>;
}
