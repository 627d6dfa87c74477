import type { PacketHeaders } from './packet-headers.ts';

/** Report that rules of the packet filter with the action `report` have sent. */
export type PacketReport =
  | {
      readonly kind: 'packet';
      /** The prefix of the rule that reported the packet. */
      readonly prefix: string;
      readonly headers: PacketHeaders;
    }
  /** So many reports did not arrive or could not be decoded. */
  | { readonly kind: 'lost'; readonly packets: number }
  /** No more reports follow. */
  | { readonly kind: 'ended'; readonly reason: string };

/** Reports of the packet filter of the host. */
export interface PacketReports {
  /**
   * Calls the listener for each report to the group until the result is disposed. A group has one listener on a host.
   * @throws kernel/failed, also while another process listens to the group
   */
  watch(group: number, onReport: (report: PacketReport) => void): Disposable;
}
