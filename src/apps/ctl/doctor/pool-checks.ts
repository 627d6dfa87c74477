import type { IpPool } from '../../../model/ip-pool.ts';
import type { Node } from '../../../model/node.ts';
import { overlappedPools } from '../../../model/pool-conflicts.ts';
import { matchesSelector } from '../../../model/selector.ts';
import { FAMILIES, type Family } from '../../../net/address.ts';
import { cidrContains, parseCidr, tryReadCidr } from '../../../net/cidr.ts';
import { modeOf } from '../../../routing/pool-modes.ts';
import { counted } from '../../../base/counted.ts';
import type { Records } from './records.ts';
import { type Check, topic } from './topic.ts';

export const POOL_CHECKS: readonly Check<Records>[] = [
  {
    id: 'pools/none',
    severity: 'error',
    expected: 'a pool that is enabled, for pods',
    judge: ({ pools }) =>
      FAMILIES.some((family) => usable(pools, family).length > 0)
        ? []
        : [
            {
              found: pools.length === 0 ? 'there is no pool' : 'every pool is disabled, or not for pods',
              remedy: 'Create a pool, or enable one',
              command: 'netplugctl apply -f examples/ippools.yaml',
            },
          ],
  },
  {
    id: 'pools/node-unserved',
    severity: 'error',
    expected: 'for every node a pool that selects it, of each family that has pools',
    judge: ({ pools, nodes }) =>
      FAMILIES.flatMap((family) => {
        const ofFamily = usable(pools, family);
        if (ofFamily.length === 0) return [];
        return nodes
          .filter((node) => !ofFamily.some((pool) => selects(pool, node)))
          .map(({ metadata }) => ({
            found: `no IPv${String(family)} pool selects node "${metadata.name}"`,
            remedy: 'Correct the nodeSelector of a pool, or the labels of the node',
            command: 'netplugctl get ippools',
          }));
      }),
  },
  {
    id: 'pools/selects-none',
    severity: 'warning',
    expected: 'a node for every enabled pool',
    judge: ({ pools, nodes }) =>
      nodes.length === 0
        ? []
        : pools
            .filter((pool) => !pool.spec.disabled && !nodes.some((node) => selects(pool, node)))
            .map(({ metadata, spec }) => ({
              found: `pool "${metadata.name}" selects none of ${counted(nodes.length, 'node')}: ${spec.nodeSelector}`,
              remedy: 'Correct its nodeSelector, or label nodes',
              command: 'netplugctl get nodes -o wide',
            })),
  },
  {
    id: 'pools/disabled-in-use',
    severity: 'warning',
    expected: 'no addresses left in a pool that is disabled',
    judge: ({ pools, blocks }) =>
      pools
        .filter(({ spec }) => spec.disabled)
        .flatMap(({ metadata, spec }) => {
          const cidr = parseCidr(spec.cidr);
          const inside = blocks.filter((block) => cidrContains(cidr, block.cidr));
          const held = inside.reduce((sum, { slots }) => sum + slots.size, 0);
          if (held === 0) return [];
          return [
            {
              found: `pool "${metadata.name}" is disabled, and ${counted(held, 'address', 'addresses')} of it are held`,
              remedy: 'Have its pods made anew to move them to another pool, or enable it',
              command: 'netplugctl ipam show --blocks',
            },
          ];
        }),
  },
  {
    id: 'pools/overlap',
    severity: 'error',
    expected: 'pools apart from each other',
    judge: ({ pools }) =>
      [...overlappedPools(pools)].map(([name, older]) => ({
        found: `pool "${name}" overlaps the older pool "${older}", and gives no addresses therefore`,
        remedy: 'Delete the younger one, or have its pods made anew first if it has any',
        command: `netplugctl delete ippool ${name}`,
      })),
  },
  {
    id: 'pools/node-inside',
    severity: 'error',
    expected: 'addresses of nodes outside of all pools',
    judge: ({ pools, nodes }) =>
      nodes.flatMap((node) =>
        ownAddresses(node).flatMap((text) => {
          const address = tryReadCidr(text.includes('/') ? text : `${text}/${text.includes(':') ? '128' : '32'}`);
          const around = pools.find(
            ({ spec }) => address !== undefined && cidrContains(parseCidr(spec.cidr), address.address),
          );
          if (around === undefined) return [];
          return [
            {
              found: `${text} of node "${node.metadata.name}" lies in pool "${around.metadata.name}" ${around.spec.cidr}`,
              remedy: 'Use another range for pods, or reserve those addresses with an IPReservation',
            },
          ];
        }),
      ),
  },
  {
    id: 'pools/no-way-out',
    severity: 'note',
    expected: 'natOutgoing, or routes of the fabric back to the pool, for pods that talk to the world',
    judge: ({ pools }) =>
      pools
        .filter((pool) => !pool.spec.disabled && !pool.spec.natOutgoing && modeOf(pool).kind !== 'bgp')
        .map(({ metadata }) => ({
          found: `pool "${metadata.name}" uses a tunnel and has no natOutgoing: answers from outside find no way back`,
          remedy: 'Set natOutgoing, if its pods shall reach destinations outside of the cluster',
        })),
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

function ownAddresses({ spec }: Node): readonly string[] {
  const { ipv4Address, ipv6Address } = spec.bgp ?? {};
  const routed = [ipv4Address, ipv6Address].filter((text) => text !== undefined);
  const shown = (spec.addresses ?? []).map(({ address }) => address);
  return [...new Set([...routed, ...shown].map((text) => text.split('/')[0] ?? text))];
}
