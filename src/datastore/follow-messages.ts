import type { ErrorData } from '../base/error-data.ts';
import type { FollowEvent, Query } from './follow.ts';

/** Messages from a follower to the server of its streams. The follower numbers its streams. */
export type FollowRequest =
  | {
      readonly kind: 'follow-begin';
      readonly id: number;
      readonly queries: readonly Query[];
      readonly from: string | undefined;
    }
  /** The follower has processed a part, and another one may be sent. */
  | { readonly kind: 'follow-next'; readonly id: number }
  | { readonly kind: 'follow-end'; readonly id: number };

export type FollowAnswer =
  /** Some records of an event, which is complete with its last part. A bookmark is one part. */
  | { readonly kind: 'follow-part'; readonly id: number; readonly part: FollowEvent; readonly isLast: boolean }
  /** The last answer of a stream that failed. */
  | { readonly kind: 'follow-failed'; readonly id: number; readonly error: ErrorData };

/** Number of parts that may be sent before the follower has processed the first. */
export const PARTS_AHEAD = 16;
