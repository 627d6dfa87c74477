import type { Sentence } from '../../model/node-report.ts';
import type { Pool } from '../choose-pools.ts';

/** The state of a resident node, for metrics and STATUS. */
export interface ResidentState {
  readonly isReady: boolean;
  /** Reason why the node is not ready or the datastore is unavailable; undefined when neither is so. */
  readonly problem: string | undefined;
  /** What an administrator must act on although calls are served. */
  readonly warnings: readonly Sentence[];
  readonly waiting: number;
  readonly blocks: readonly {
    readonly pool: string;
    readonly cidr: string;
    held: number;
    preallocated: number;
    free: number;
  }[];
  /** Every pool of the datastore. */
  readonly pools: readonly Pick<Pool, 'name' | 'cidr'>[];
}
