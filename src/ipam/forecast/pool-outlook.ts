import { type Family, FAMILIES } from '../../net/address.ts';
import { parseCidr } from '../../net/cidr.ts';
import { type ForecastFacts, forecastQuestion } from './forecast-cluster.ts';
import { forecast } from './forecast.ts';
import type { PoolGrowth } from './pool-growth.ts';
import { percentFree, type PoolUsage, poolUsage } from './pool-usage.ts';

/** A pool with less than this is nearly full. */
const FEW_PER_CENT = 10;
/** Pools that are full within this time are reported. */
const HORIZON_DAYS = 3;

/** Usage of one pool, and the time when it will have no free address. */
export interface PoolOutlook {
  readonly name: string;
  readonly addresses: bigint;
  readonly free: bigint;
  /** Days from now, 0 when it is full; undefined when its use does not grow, or was not observed for long enough. */
  readonly fullInDays: number | undefined;
  readonly isReported: boolean;
}

/** Addresses that the growth of the last day would lack, if it went on for one more day. */
export interface Shortage {
  readonly family: Family;
  readonly wanted: number;
  readonly missing: number;
  /** The first node that lacks one. */
  readonly node: string;
}

/** Returns how full each pool is that assigns addresses. Takes a sample of the growth. */
export function poolOutlooks(facts: ForecastFacts, growth: PoolGrowth, nowMs: number): readonly PoolOutlook[] {
  const disabled = new Set(facts.pools.filter(({ spec }) => spec.disabled).map(({ metadata }) => metadata.name));
  const usage = poolUsage(facts).flatMap((each) =>
    each.name === undefined || disabled.has(each.name) ? [] : [{ ...each, name: each.name }],
  );
  growth.observe(new Map(usage.map((each) => [each.name, Number(each.held)])), nowMs);
  return usage.map((each) => outlookOf(each, growth));
}

function outlookOf(usage: PoolUsage & { readonly name: string }, growth: PoolGrowth): PoolOutlook {
  const { name, addresses } = usage;
  const free = usage.free < 0n ? 0n : usage.free;
  const perDay = growth.perDay(name) ?? 0;
  const fullInDays = free === 0n ? 0 : perDay > 0 ? Number(free) / perDay : undefined;
  const isSoon = fullInDays !== undefined && fullInDays < HORIZON_DAYS;
  return { name, addresses, free, fullInDays, isReported: isSoon || percentFree({ addresses, free }) < FEW_PER_CENT };
}

/**
 * Forecasts the next day as `netplugctl ipam forecast` does, with the growth of the last day spread over the nodes: pods may
 * find no address although pools have some, because blocks belong to other nodes.
 */
export async function shortagesOfNextDay(
  facts: ForecastFacts,
  growth: PoolGrowth,
  signal: AbortSignal,
): Promise<readonly Shortage[]> {
  const shortages: Shortage[] = [];
  for (const family of FAMILIES) {
    const wanted = Math.ceil(growthOf(facts, growth, family));
    const question =
      wanted > 0 ? forecastQuestion(facts, { nodes: 0, podsPerNode: 0, pool: undefined }, family) : undefined;
    if (question === undefined || question.nodes.length === 0) continue;
    const count = question.nodes.length;
    const nodes = question.nodes.map((node, index) => ({ ...node, wants: Math.floor((wanted + index) / count) }));
    const { failed, firstFailure } = await forecast({ ...question, nodes }, signal);
    if (firstFailure !== undefined) shortages.push({ family, wanted, missing: failed, node: firstFailure.node });
  }
  return shortages;
}

function growthOf({ pools }: ForecastFacts, growth: PoolGrowth, family: Family): number {
  return pools
    .filter(({ spec }) => parseCidr(spec.cidr).base.family === family)
    .reduce((sum, { metadata }) => sum + Math.max(0, growth.perDay(metadata.name) ?? 0), 0);
}
