import * as v from 'valibot';
import { field, optionalField, type SpecOf } from './field.ts';
import { CONDITION_FIELDS } from './status-condition.ts';

const ALLOCATABLE = 'Allocatable';
const OVERLAP = 'CIDROverlap';

const PoolCondition = v.looseObject(
  { type: field(v.picklist([ALLOCATABLE]), 'Allocatable.'), ...CONDITION_FIELDS },
  'a condition',
);

/** Fields that the controllers report about a pool. */
export const IP_POOL_STATUS_FIELDS = {
  conditions: optionalField(
    v.pipe(v.array(PoolCondition), v.readonly()),
    'Allocatable is False while the pool overlaps what nodes, Services or an older pool use: no address is assigned from it, and no block is claimed in it. A pool without that has no condition.',
  ),
};

/** Where a table finds why the pool is marked. */
export const UNUSABLE_PATH = `status.conditions[?(@.type=="${ALLOCATABLE}")].reason`;

export type IpPoolStatus = SpecOf<typeof IP_POOL_STATUS_FIELDS>;

const Status = v.looseObject(IP_POOL_STATUS_FIELDS);

/** The mark of a pool from which no address may be assigned. */
export interface PoolMark {
  readonly reason: string;
  readonly message: string;
}

/** Returns the mark in a stored status; undefined without one, also when another release wrote the status in another form. */
export function markOf(raw: unknown): PoolMark | undefined {
  const read = v.safeParse(Status, raw);
  if (!read.success) return undefined;
  return read.output.conditions?.find(({ type, status }) => type === ALLOCATABLE && status === 'False');
}

/** Returns the status of a pool that overlaps what is named, such as `10.0.0.0/8, the network of node "a"`. */
export function overlapStatus(what: string, at: string): IpPoolStatus {
  const message = overlapMessage(what);
  return {
    conditions: [{ type: ALLOCATABLE, status: 'False', reason: OVERLAP, message, lastTransitionTime: at }],
  };
}

/** Returns the message of the mark of a pool that overlaps what is named. */
export function overlapMessage(what: string): string {
  return `it overlaps ${what}`;
}
