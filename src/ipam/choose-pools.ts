import { NetplugError } from '../base/errors.ts';
import type { Stored } from '../datastore/allocation-store.ts';
import type { ChosenBy } from '../model/ip-block.ts';
import type { IpPool, PoolUse } from '../model/ip-pool.ts';
import { markOf } from '../model/ip-pool-status.ts';
import { overlappedPools } from '../model/pool-conflicts.ts';
import { describeRange, findOverlap, type UsedRange } from '../model/used-range.ts';
import { matchesSelector } from '../model/selector.ts';
import type { Address, Family } from '../net/address.ts';
import { type Cidr, cidrContains, formatCidr, parseCidr, sameCidr } from '../net/cidr.ts';
import type { PoolRef } from '../config/netconf.ts';

/** A pool with its CIDR parsed. */
export interface Pool {
  readonly stored: Stored<IpPool>;
  readonly name: string;
  readonly cidr: Cidr;
  /** Reason why no new addresses are assigned from the pool; undefined for an open pool. */
  readonly closed:
    | 'disabled'
    | { readonly overlaps: string }
    | { readonly over: UsedRange }
    /** Message of the mark of the controllers. */
    | { readonly marked: string }
    | undefined;
}

/** Reason why a pool may not be used; `eligible` when it may. */
export type PoolVerdict =
  | 'eligible'
  | 'not requested'
  | 'disabled'
  | 'overlaps an older pool'
  | 'overlaps addresses that the node needs'
  | 'marked by the controllers'
  | 'not for this use'
  | 'does not select the node';

export interface PoolSelection {
  readonly family: Family;
  /** In the order in which they are used. */
  readonly eligible: readonly Pool[];
  /** Every pool of the family with its verdict, ordered by name: the reasons of an exhaustion. */
  readonly verdicts: readonly { readonly pool: Pool; readonly verdict: PoolVerdict }[];
  readonly chosenBy: ChosenBy;
}

export interface PoolQuery {
  readonly family: Family;
  /** Pools asked for by name or exact CIDR; undefined leaves the choice to the node selectors. */
  readonly refs: readonly PoolRef[] | undefined;
  readonly nodeLabels: Readonly<Record<string, string>>;
  readonly use: PoolUse;
  /** Rank of the precedence table that asks for the pools, and where it says so. */
  readonly askedBy?: { readonly rule: ChosenBy; readonly text: string };
}

/**
 * Decodes the pools for a node that itself needs the `own` ranges. Nothing is assigned from a pool that overlaps one of them,
 * nor from one that the controllers have marked.
 */
export function decodePools(stored: readonly Stored<IpPool>[], own: readonly UsedRange[] = []): readonly Pool[] {
  const overlapped = overlappedPools(stored.map(({ value }) => value));
  return stored.map((pool) => {
    const { metadata, spec } = pool.value;
    const cidr = parseCidr(spec.cidr);
    const overlaps = overlapped.get(metadata.name);
    const closed = overlaps === undefined ? closedFor(pool.value, cidr, own) : { overlaps };
    return { stored: pool, name: metadata.name, cidr, closed };
  });
}

function closedFor({ spec, status }: IpPool, cidr: Cidr, own: readonly UsedRange[]): Pool['closed'] {
  if (spec.disabled) return 'disabled';
  const over = findOverlap(cidr, own);
  if (over !== undefined) return { over };
  const mark = markOf(status);
  return mark === undefined ? undefined : { marked: mark.message };
}

/** Returns the pool that contains the address or block, the oldest of overlapping pools; undefined when there is none. */
export function poolAround(pools: readonly Pool[], inner: Address | Cidr): Pool | undefined {
  const around = pools.filter(({ cidr }) => cidrContains(cidr, inner));
  return around.find(({ closed }) => typeof closed !== 'object' || !('overlaps' in closed)) ?? around[0];
}

/** What to do about a pool that overlaps what something else uses. Also its network may be wider than it has to be. */
export const OVERLAP_HINT =
  'Create a pool in a range that nothing else uses ("netplugctl create -f"), and disable this one. If a network contains the pool only because its prefix is wider than it has to be, such as /8, and no host in it has an address of the pool, narrow the prefix instead';

/** Describes why no new addresses are assigned from the pool; undefined for an open pool. */
export function whyClosed({ closed }: Pool): string | undefined {
  if (closed === undefined) return undefined;
  if (closed === 'disabled') return 'it is disabled';
  if ('marked' in closed) return `${closed.marked}, as the controllers have found`;
  return 'over' in closed
    ? `it overlaps ${describeRange(closed.over)}`
    : `it overlaps the older pool "${closed.overlaps}"`;
}

/** Reports whether the pool is closed because of what nodes, Services or controllers have found it to overlap. */
export function isOverUsedRange({ closed }: Pool): boolean {
  return typeof closed === 'object' && !('overlaps' in closed);
}

/**
 * Returns the pools that the address may come from (specification, "Precedence of address-assignment methods"): the
 * requested pools in the requested order, regardless of their selectors; otherwise every pool that selects the node,
 * ordered by name.
 * @throws ipam/pool-not-found, ipam/pool-unusable
 */
export function choosePools(pools: readonly Pool[], question: PoolQuery): PoolSelection {
  const { family, refs } = question;
  const ofFamily = pools.filter(({ cidr }) => cidr.base.family === family);
  const asked = refs?.map((ref) => findAsked(pools, ref, question));
  const verdicts = ofFamily.map((pool) => ({ pool, verdict: verdictOn(pool, asked, question) }));
  const eligible = asked ?? verdicts.filter(({ verdict }) => verdict === 'eligible').map(({ pool }) => pool);
  return {
    family,
    eligible: [...new Set(eligible)],
    verdicts,
    chosenBy: asked === undefined ? 'node-selector' : (question.askedBy?.rule ?? 'netconf'),
  };
}

function verdictOn(pool: Pool, asked: readonly Pool[] | undefined, { nodeLabels, use }: PoolQuery): PoolVerdict {
  const { spec } = pool.stored.value;
  if (asked !== undefined) return asked.includes(pool) ? 'eligible' : 'not requested';
  if (pool.closed === 'disabled') return 'disabled';
  if (pool.closed !== undefined) {
    if ('marked' in pool.closed) return 'marked by the controllers';
    return 'over' in pool.closed ? 'overlaps addresses that the node needs' : 'overlaps an older pool';
  }
  if (!spec.allowedUses.includes(use)) return 'not for this use';
  return matchesSelector(spec.nodeSelector, nodeLabels) ? 'eligible' : 'does not select the node';
}

function findAsked(pools: readonly Pool[], ref: PoolRef, question: PoolQuery): Pool {
  const { family, use } = question;
  const pool = pools.find(({ name, cidr }) => (ref.by === 'name' ? name === ref.name : sameCidr(cidr, ref.cidr)));
  const asking = question.askedBy === undefined ? '' : `, asked for by ${question.askedBy.text}`;
  if (pool === undefined) throw poolNotFound(pools, ref, { family, asking });
  const { spec } = pool.stored.value;
  const reason =
    pool.cidr.base.family === family
      ? (whyClosed(pool) ??
        (spec.allowedUses.includes(use) ? undefined : `its allowedUses are ${spec.allowedUses.join(', ')}`))
      : `it is an IPv${String(pool.cidr.base.family)} pool`;
  if (reason === undefined) return pool;
  throw new NetplugError(
    'ipam/pool-unusable',
    `Cannot use pool "${pool.name}" for an IPv${String(family)} address${asking}: ${reason}`,
    {
      hint: isOverUsedRange(pool)
        ? `Name another pool (${listPools(pools, family)}). ${OVERLAP_HINT}`
        : `Name another pool (${listPools(pools, family)}), or change this one`,
      facts: { pool: pool.name, cidr: formatCidr(pool.cidr) },
    },
  );
}

function poolNotFound(
  pools: readonly Pool[],
  ref: PoolRef,
  { family, asking }: { family: Family; asking: string },
): NetplugError {
  const text = ref.by === 'name' ? ref.name : formatCidr(ref.cidr);
  const around = ref.by === 'cidr' ? pools.find(({ cidr }) => cidrContains(cidr, ref.cidr)) : undefined;
  const state = ref.by === 'name' ? `no pool is named "${text}"` : `no pool has exactly the CIDR "${text}"`;
  return new NetplugError(
    'ipam/pool-not-found',
    `Cannot choose an IPv${String(family)} pool${asking}: ${state} (pools: ${listPools(pools, family)})`,
    {
      hint:
        around === undefined
          ? 'Create the pool with netplugctl, or correct the list of pools'
          : `"${text}" is only a part of pool "${around.name}"; ask for the whole pool "${formatCidr(around.cidr)}"`,
      facts: { pool: text },
    },
  );
}

function listPools(pools: readonly Pool[], family: Family): string {
  const names = pools
    .filter(({ cidr }) => cidr.base.family === family)
    .map(({ name, cidr }) => `"${name}" ${formatCidr(cidr)}`);
  return names.length === 0 ? `none of IPv${String(family)} exists` : names.join(', ');
}
