import type { IpPool } from '../../../model/ip-pool.ts';
import type { Node } from '../../../model/node.ts';
import { OVERLAP_HINT } from '../../../ipam/choose-pools.ts';
import { markOf } from '../../../model/ip-pool-status.ts';
import { overlappedPools } from '../../../model/pool-conflicts.ts';
import { matchesSelector } from '../../../model/selector.ts';
import { FAMILIES, type Family } from '../../../net/address.ts';
import { clusterRanges, rangesOfNode } from '../../../model/cluster-ranges.ts';
import { describeRange, findOverlap } from '../../../model/used-range.ts';
import { cidrContains, parseCidr } from '../../../net/cidr.ts';
import { modeOf } from '../../../routing/pool-modes.ts';
import { counted } from '../../../base/counted.ts';
import type { Records } from './records.ts';
import type { Check } from '../../../checks/check.ts';
import { topic } from './topic.ts';

export const POOL_CHECKS: readonly Check<Records>[] = [
  {
    id: 'pools/none',
    severity: 'error',
    expected: 'an enabled pool for pods',
    remedy: 'Create a pool, or enable one',
    command: 'netplugctl apply -f examples/ippools.yaml',
    judge: ({ pools }) =>
      FAMILIES.some((family) => usable(pools, family).length > 0)
        ? []
        : [pools.length === 0 ? 'no pool exists' : 'every pool is disabled, or not for pods'],
  },
  {
    id: 'pools/node-unserved',
    severity: 'error',
    expected: 'for every node, a pool of each IP family in use that selects it',
    remedy: 'Correct the nodeSelector of a pool, or the labels of the node',
    command: 'netplugctl get ippools',
    judge: ({ pools, nodes }) =>
      FAMILIES.flatMap((family) => {
        const ofFamily = usable(pools, family);
        if (ofFamily.length === 0) return [];
        return nodes
          .filter((node) => !ofFamily.some((pool) => selects(pool, node)))
          .map(({ metadata }) => `no IPv${String(family)} pool selects node "${metadata.name}"`);
      }),
  },
  {
    id: 'pools/selects-none',
    severity: 'warning',
    expected: 'enabled pools that select at least one node',
    remedy: 'Correct its nodeSelector, or label nodes',
    command: 'netplugctl get nodes -o wide',
    judge: ({ pools, nodes }) =>
      nodes.length === 0
        ? []
        : pools
            .filter((pool) => !pool.spec.disabled && !nodes.some((node) => selects(pool, node)))
            .map(
              ({ metadata, spec }) =>
                `pool "${metadata.name}" selects none of ${counted(nodes.length, 'node')}: ${spec.nodeSelector}`,
            ),
  },
  {
    id: 'pools/disabled-in-use',
    severity: 'warning',
    expected: 'no assigned addresses in a disabled pool',
    remedy: 'Recreate its pods to move them to another pool, or enable the pool',
    command: 'netplugctl ipam show --blocks',
    judge: ({ pools, blocks }) =>
      pools
        .filter(({ spec }) => spec.disabled)
        .flatMap(({ metadata, spec }) => {
          const cidr = parseCidr(spec.cidr);
          const inside = blocks.filter((block) => cidrContains(cidr, block.cidr));
          const held = inside.reduce((sum, { slots }) => sum + slots.size, 0);
          if (held === 0) return [];
          return [
            `pool "${metadata.name}" is disabled, but has ${counted(held, 'assigned address', 'assigned addresses')}`,
          ];
        }),
  },
  {
    id: 'pools/overlap',
    severity: 'error',
    expected: 'pools that do not overlap',
    remedy: 'Recreate the pods of the younger pool if it has any, then delete the pool',
    judge: ({ pools }) =>
      [...overlappedPools(pools)].map(([name, older]) => ({
        found: `pool "${name}" overlaps the older pool "${older}", and therefore assigns no addresses`,
        command: `netplugctl delete ippool ${name}`,
      })),
  },
  {
    id: 'pools/node-inside',
    severity: 'error',
    expected: 'addresses and networks of nodes outside all pools',
    remedy: 'Use another range for pods, or reserve those addresses with an IPReservation',
    judge: ({ pools, nodes }) =>
      pools.flatMap(({ metadata, spec }) => {
        const cidr = parseCidr(spec.cidr);
        return nodes.flatMap((node) => {
          const used = findOverlap(cidr, clusterRanges({ nodes: [rangesOfNode(node)], serviceCidrs: [] }));
          return used === undefined ? [] : [`pool "${metadata.name}" ${spec.cidr} overlaps ${describeRange(used)}`];
        });
      }),
  },
  {
    id: 'pools/unusable',
    severity: 'error',
    expected: 'enabled pools that the controllers have not marked as unusable',
    remedy: OVERLAP_HINT,
    judge: ({ pools }) =>
      pools.flatMap(({ metadata, spec, status }) => {
        const mark = markOf(status);
        if (mark === undefined || spec.disabled) return [];
        return [`pool "${metadata.name}" ${spec.cidr} assigns no addresses: ${mark.message}`];
      }),
  },
  {
    id: 'pools/no-way-out',
    severity: 'note',
    expected:
      'natOutgoing, or routes of the network fabric to the pool, for pods that connect to destinations outside the cluster',
    remedy: 'Set natOutgoing if its pods need destinations outside the cluster',
    judge: ({ pools }) =>
      pools
        .filter((pool) => !pool.spec.disabled && !pool.spec.natOutgoing && modeOf(pool).kind !== 'bgp')
        .map(
          ({ metadata }) =>
            `pool "${metadata.name}" uses a tunnel without natOutgoing: replies from outside the cluster have no route back`,
        ),
  },
];

export const POOL_TOPIC = topic({
  area: 'pools',
  scope: 'cluster',
  needsRecords: true,
  gather: async ({ records }) => records(),
  measure: ({ pools, nodes }) => [counted(pools.length, 'pool'), counted(nodes.length, 'node')],
  checks: POOL_CHECKS,
});

function usable(pools: readonly IpPool[], family: Family): readonly IpPool[] {
  return pools.filter(
    ({ spec }) =>
      !spec.disabled && spec.allowedUses.includes('Workload') && parseCidr(spec.cidr).base.family === family,
  );
}

function selects({ spec }: IpPool, { metadata }: Node): boolean {
  return matchesSelector(spec.nodeSelector, metadata.labels ?? {});
}
