import { slicesOf } from '../../base/slices.ts';
import type { IpBlock } from '../../model/ip-block.ts';
import { type Cidr, cidrsOverlap, compareCidrs } from '../../net/cidr.ts';
import type { OrchApi } from '../../kube/orch-api.ts';
import type { BlockListing, Claim, Stored } from '../allocation-store.ts';
import { BLOCKS, readBlock, readClaim } from './block-objects.ts';
import { blockObjectName } from './names.ts';
import { found } from './unreadable.ts';
import { insist, sortOut } from '../unreadable.ts';

/** Number of blocks that are fetched at the same moment. */
const AT_ONCE = 8;

/** Only names and labels are fetched: there may be thousands of blocks. */
export async function listClaims(
  api: OrchApi,
  within: readonly Cidr[],
  signal: AbortSignal,
): Promise<readonly Claim[]> {
  if (within.length === 0) return [];
  const claims = (await api.list(BLOCKS, { only: 'names' }, signal)).map(readClaim);
  return claims
    .filter((claim) => claim !== undefined)
    .filter((claim) => within.some((cidr) => cidrsOverlap(cidr, claim.cidr)))
    .sort((a, b) => compareCidrs(a.cidr, b.cidr));
}

export async function getBlocks(
  api: OrchApi,
  cidrs: readonly Cidr[],
  signal: AbortSignal,
): Promise<readonly Stored<IpBlock>[]> {
  const blocks: Stored<IpBlock>[] = [];
  for (const some of slicesOf(cidrs, AT_ONCE)) {
    const answers = await Promise.all(some.map(async (cidr) => api.get(BLOCKS, blockObjectName(cidr), signal)));
    blocks.push(...answers.flatMap(found).map((object) => insist(readBlock(object))));
  }
  return blocks;
}

export async function listBlocks(api: OrchApi, signal: AbortSignal): Promise<BlockListing> {
  const { good, problems } = sortOut(await api.list(BLOCKS, {}, signal), readBlock);
  return { blocks: good.sort(byCidr), problems };
}

export function byCidr(a: Stored<IpBlock>, b: Stored<IpBlock>): number {
  return compareCidrs(a.value.cidr, b.value.cidr);
}
