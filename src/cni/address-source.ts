import type { WorkloadEndpoint } from '../model/workload-endpoint.ts';
import type { Address } from '../net/address.ts';
import type { CniCall } from './call.ts';

/** The addresses assigned to one attachment, and how to release them when the rest of the call fails. */
export interface AssignedAddresses {
  readonly addresses: readonly Address[];
  readonly dns: Readonly<Record<string, unknown>>;
  /** Facts for the log: which pools, by which rule. */
  readonly facts: Readonly<Record<string, string | readonly string[]>>;
  /** Releases what this call assigned. Addresses that the attachment held before stay. */
  rollBack(signal: AbortSignal): Promise<void>;
  /** Reports whether another call has taken the attachment over, as while this process hung: nothing of it may be undone. */
  isTakenOver?(signal: AbortSignal): Promise<boolean>;
}

export type OnDecided = (addresses: readonly Address[]) => void;

export type EndpointOf = (addresses: readonly Address[]) => WorkloadEndpoint;

/** Reports whether the runtime still lists the attachment, so that GC must not release it. */
export type IsKept = (attachment: { readonly containerId: string; readonly ifName: string }) => boolean;

/** Assigns and releases addresses: netplug's own address manager, or a delegated plugin. */
export interface AddressSource {
  /**
   * Assigns addresses and records the endpoint. Idempotent: returns the addresses the attachment holds already. A source calls
   * `onDecided`, if it does, as soon as it knows the addresses, which are others only after a failure.
   */
  assign(call: CniCall, endpointOf: EndpointOf, onDecided?: OnDecided): Promise<AssignedAddresses>;
  /** Releases addresses and endpoint once `unused` has resolved, which gets the addresses: nothing uses them then. Idempotent. */
  release(call: CniCall, unused: (addresses: readonly Address[]) => Promise<void>): Promise<void>;
  /** @throws check/mismatch when the attachment does not hold exactly these addresses */
  check(call: CniCall, addresses: readonly Address[]): Promise<void>;
  /**
   * Releases the addresses and endpoints of all attachments for which `isKept` returns false. Returns how many addresses
   * it released. Continues after a failure and throws all failures together.
   */
  collect(call: CniCall, isKept: IsKept): Promise<number>;
  /** @throws the reason why no address can be assigned now */
  assertReady(call: CniCall): Promise<void>;
}
