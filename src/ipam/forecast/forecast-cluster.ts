import { getOrInsert } from '../../base/get-or-insert.ts';
import { choosePools, type Pool, decodePools } from '../choose-pools.ts';
import { heldAddresses, type IpBlock } from '../../model/ip-block.ts';
import type { IpPool } from '../../model/ip-pool.ts';
import { type IpReservation, reservedCidrs } from '../../model/ip-reservation.ts';
import type { IpamConfigurationSpec } from '../../model/ipam-configuration.ts';
import type { NodeName } from '../../model/names.ts';
import type { Node } from '../../model/node.ts';
import type { Family } from '../../net/address.ts';
import type { PoolRef } from '../../config/netconf.ts';
import type { ForecastNode, ForecastQuestion } from './forecast.ts';

/** A cluster as it is, or as it would be. */
export interface ForecastFacts {
  readonly pools: readonly IpPool[];
  readonly reservations: readonly IpReservation[];
  readonly config: IpamConfigurationSpec;
  readonly blocks: readonly IpBlock[];
  readonly nodes: readonly Node[];
}

export interface ClusterPlan {
  readonly nodes: number;
  readonly podsPerNode: number;
  /** The pool that all pods ask for; undefined leaves it to the node selectors. */
  readonly pool: string | undefined;
}

/**
 * The nodes there are, by name, and then new ones without labels until there are enough; each asks for what it lacks.
 * Undefined when no pool of the family may serve a new node. @throws ipam/pool-not-found, ipam/pool-unusable
 */
export function forecastQuestion(
  { pools: resources, reservations, config, blocks, nodes: present }: ForecastFacts,
  { nodes, podsPerNode, pool }: ClusterPlan,
  family: Family,
): ForecastQuestion | undefined {
  const pools = decodePools(resources.map((value) => ({ value, version: '' })));
  const refs: readonly PoolRef[] | undefined = pool === undefined ? undefined : [{ by: 'name', name: pool }];
  const eligible = eligibleBy(
    (nodeLabels) => choosePools(pools, { family, refs, nodeLabels, use: 'Workload' }).eligible,
  );
  if (eligible({}).length === 0) return undefined;
  const ofFamily = blocks.filter(({ cidr }) => cidr.base.family === family);
  const held = heldByNode(ofFamily);
  const labels = new Map(present.map(({ metadata }) => [metadata.name, metadata.labels ?? {}]));
  const owners = ofFamily.flatMap(({ node }) => node ?? []);
  const known = [...new Set([...labels.keys(), ...owners, ...held.keys()])].sort();
  const fresh = Array.from({ length: Math.max(0, nodes - known.length) }, (_, index) => `new-${String(index + 1)}`);
  return {
    pools: pools.filter(({ cidr }) => cidr.base.family === family),
    reserved: reservedCidrs(reservations),
    config,
    blocks: ofFamily,
    nodes: [...known, ...fresh].map((name): ForecastNode => {
      const usable = eligible(labels.get(name) ?? {});
      const wants = podsPerNode + tunnelAddresses(usable);
      // The names of nodes that are not there yet are as good as any.
      return { name: name as NodeName, pools: usable, wants: Math.max(0, wants - (held.get(name) ?? 0)) };
    }),
  };
}

/** A node with tunnels holds one address more. */
export function tunnelAddresses(pools: readonly Pool[]): number {
  const isTunnelled = pools
    .map(({ stored }) => stored.value.spec)
    .some((spec) => (spec.vxlanMode !== 'Never' || spec.ipipMode !== 'Never') && spec.allowedUses.includes('Tunnel'));
  return isTunnelled ? 1 : 0;
}

/** One list for all nodes with the same labels. */
function eligibleBy(
  choose: (labels: Readonly<Record<string, string>>) => readonly Pool[],
): (labels: Readonly<Record<string, string>>) => readonly Pool[] {
  const lists = new Map<string, readonly Pool[]>();
  return (labels) => {
    const pools = choose(labels);
    const key = pools.map(({ name }) => name).join('\n');
    return getOrInsert(lists, key, () => pools);
  };
}

function heldByNode(blocks: readonly IpBlock[]): ReadonlyMap<string, number> {
  const held = new Map<string, number>();
  for (const { allocation } of blocks.flatMap((block) => heldAddresses(block)))
    held.set(allocation.node, (held.get(allocation.node) ?? 0) + 1);
  return held;
}
