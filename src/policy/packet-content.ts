import { canonicalPath } from '../model/canonical-path.ts';
import type { Account } from './resolved-policy.ts';

/** The sender of a request: the account of its certificate, or `nobody` where rules with accounts want one and it has none. */
export type RequestPeer = Account | 'nobody';

/** What is known of what a connection carries. */
export type PacketContent =
  | { readonly kind: 'unknown' }
  /** Judged as a whole, without requests in it. */
  | { readonly kind: 'stream'; readonly peer?: RequestPeer | undefined }
  | {
      readonly kind: 'request';
      readonly method: string;
      /** Canonical; undefined when it is not, which no `paths` match. */
      readonly path: string | undefined;
      /** Undefined when the address alone says who it is. */
      readonly peer?: RequestPeer | undefined;
    };

export const UNKNOWN_CONTENT: PacketContent = { kind: 'unknown' };

/** Returns the content of a request with this target, such as `/items/1?page=2`. */
export function requestContent(method: string, target: string, peer?: RequestPeer): PacketContent {
  return { kind: 'request', method, path: canonicalPath(target), ...(peer === undefined ? {} : { peer }) };
}
