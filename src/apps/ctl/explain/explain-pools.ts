import { never } from '../../../base/errors.ts';
import type { NodeView, Stored } from '../../../datastore/allocation-store.ts';
import { whyFull } from '../../../ipam/assign-errors.ts';
import type { AssignRequest } from '../../../ipam/assign.ts';
import { choosePools, type Pool, type PoolVerdict, whyClosed } from '../../../ipam/choose-pools.ts';
import { freeCidrs, overlapsOneOf } from '../../../ipam/free-cidrs.ts';
import { freeOrdinals } from '../../../ipam/free-ordinals.ts';
import type { IpBlock } from '../../../model/ip-block.ts';
import { reservedCidrs } from '../../../model/ip-reservation.ts';
import type { Family } from '../../../net/address.ts';
import { cidrContains, formatCidr } from '../../../net/cidr.ts';

/** A pool, and why ADD uses it or not. */
export interface ExplainedPool {
  readonly name: string;
  readonly cidr: string;
  readonly outcome: 'taken' | 'possible' | 'skipped';
  readonly why: string;
}

export interface PoolScene {
  readonly view: NodeView;
  readonly pools: readonly Pool[];
  /** All blocks. */
  readonly blocks: readonly Stored<IpBlock>[];
  readonly request: Pick<AssignRequest, 'node' | 'pools'>;
}

/**
 * Explains for each pool of the family whether ADD can assign an address from it. `taken` names the pool that it
 * uses. @throws ipam/pool-not-found, ipam/pool-unusable
 */
export function explainPools(scene: PoolScene, family: Family, taken: string | undefined): readonly ExplainedPool[] {
  const { view, request } = scene;
  const { pools: refs, askedBy } = request.pools[family];
  const nodeLabels = view.node?.metadata.labels ?? {};
  const asking = askedBy === undefined ? {} : { askedBy };
  const question = { family, refs, nodeLabels, use: 'Workload', ...asking } as const;
  const { verdicts, eligible } = choosePools(scene.pools, question);
  const inOrder = [
    ...eligible.map((pool) => ({ pool, verdict: 'eligible' as const })),
    ...verdicts.filter(({ verdict }) => verdict !== 'eligible'),
  ];
  return inOrder.map(({ pool, verdict }) => {
    const known = { name: pool.name, cidr: formatCidr(pool.cidr) };
    const room = roomIn(scene, pool);
    if (pool.name === taken) return { ...known, outcome: 'taken', why: takenWhy(verdict, room) };
    if (verdict !== 'eligible') return { ...known, outcome: 'skipped', why: verdictWhy(scene, pool, verdict) };
    if (room !== undefined) return { ...known, outcome: 'possible', why: room };
    const full = { input: { view, extraBlocks: scene.blocks }, atLimit: isAtLimit(view, family), node: request.node };
    return { ...known, outcome: 'skipped', why: whyFull(pool, full) };
  });
}

function takenWhy(verdict: PoolVerdict, room: string | undefined): string {
  const now = room === undefined ? 'it has no more free addresses' : `it has more: ${room}`;
  return verdict === 'eligible' ? now : `requested; now it would be skipped: ${verdict}`;
}

function verdictWhy({ view, request }: PoolScene, pool: Pool, verdict: Exclude<PoolVerdict, 'eligible'>): string {
  const { spec } = pool.stored.value;
  switch (verdict) {
    case 'disabled':
    case 'overlaps an older pool':
    case 'overlaps addresses that the node needs':
    case 'marked by the controllers':
      return whyClosed(pool) ?? verdict;
    case 'not for this use':
      return `its allowedUses are ${spec.allowedUses.join(', ')}`;
    case 'not requested': {
      const { askedBy } = request.pools[pool.cidr.base.family];
      return `${askedBy?.text ?? 'the choice'} names other pools`;
    }
    case 'does not select the node': {
      const labels = Object.entries(view.node?.metadata.labels ?? {}).map(([key, value]) => `${key}=${value}`);
      const has = labels.length === 0 ? 'which has no labels' : `labelled ${labels.join(', ')}`;
      return `its nodeSelector ${JSON.stringify(spec.nodeSelector)} does not select node "${request.node}", ${has}`;
    }
    default:
      return never(verdict);
  }
}

/** Describes where the node can get an address of the pool; undefined when the pool has none for the node. */
function roomIn({ view, blocks, request: { node } }: PoolScene, pool: Pool): string | undefined {
  const reserved = reservedCidrs(view.reservations);
  const inside = blocks.map(({ value }) => value).filter(({ cidr }) => cidrContains(pool.cidr, cidr));
  const free = (some: readonly IpBlock[]): number =>
    some.reduce((sum, block) => sum + [...freeOrdinals(block, reserved)].length, 0);
  const own = free(inside.filter((block) => block.node === node));
  const others = view.config.strictAffinity ? 0 : free(inside.filter((block) => block.node !== node));
  const isClaimed = overlapsOneOf(inside.map(({ cidr }) => cidr));
  const [unclaimed] = isAtLimit(view, pool.cidr.base.family) ? [] : freeCidrs(pool, { isClaimed, reserved, node });
  const parts = [
    ...(own > 0 ? [`${String(own)} free in blocks of the node`] : []),
    ...(unclaimed === undefined ? [] : ['unclaimed blocks']),
    ...(others > 0 ? [`${String(others)} free to borrow from other nodes`] : []),
  ];
  return parts.length === 0 ? undefined : parts.join(', ');
}

function isAtLimit({ config, owned }: NodeView, family: Family): boolean {
  const ofFamily = owned.filter(({ value }) => value.cidr.base.family === family);
  return config.maxBlocksPerNode > 0 && ofFamily.length >= config.maxBlocksPerNode;
}
