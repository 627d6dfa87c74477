import { isNetplugError, never, reasonOf } from '../../base/errors.ts';
import { forEachLimit } from '../../base/for-each-limit.ts';
import type { Log } from '../../base/log.ts';
import { KINDS } from '../../model/kinds.ts';
import type { IpPool } from '../../model/ip-pool.ts';
import { compareCidrs } from '../../net/cidr.ts';
import type { OrchApi } from '../../kube/orch-api.ts';
import { isObjectName } from '../../kube/paths.ts';
import type { Change, Outcome, Stored } from '../allocation-store.ts';
import { blockAfter } from '../block-after.ts';
import { blockObjectName } from './names.ts';
import { type BlockWrite, revertWrite, type Written, writeBlock } from './write-block.ts';
import { deleteEndpoint, putEndpoint } from './write-endpoint.ts';
import type { WrittenBlocks } from './written-blocks.ts';

/** The revert has its own timeout: the caller's deadline may be over. */
const UNDO_MS = 10_000;
/** Number of endpoints that are written at once. */
const AT_ONCE = 8;
export const POOLS = { group: 'netplug.io', version: 'v3', plural: KINDS.IPPool.plural } as const;

/** Changes of a commit, by kind: each part names what it expects. */
interface Parts {
  readonly blocks: BlockWrite[];
  /** Pools that blocks are made from. */
  readonly pools: Stored<IpPool>[];
  readonly gonePools: Stored<IpPool>[];
  readonly endpoints: Extract<Change, { kind: 'put-endpoint' }>[];
  readonly goneEndpoints: Extract<Change, { kind: 'delete-endpoint' }>[];
}

/**
 * Applies changes without a transaction, in an order that is safe against a crash at any point: an endpoint is removed
 * before its addresses are released, and written after the blocks hold them. The blocks decide. They are written in the
 * order of their CIDRs, so that two writers of the same blocks conflict at the first one. When a later block conflicts,
 * the earlier ones are reverted, except for allocations that were returned to a caller. What a crash leaves carries its
 * handle: the next ADD of the attachment, DEL or GC finds it. An endpoint that the API refuses is logged and skipped: the pod
 * has its address.
 */
export async function commitChanges(
  parts: {
    readonly api: OrchApi;
    readonly log: Log;
    /** Where this process follows the blocks that it writes. */
    readonly writtenBlocks: WrittenBlocks | undefined;
  },
  changes: readonly Change[],
  signal: AbortSignal,
): Promise<Outcome> {
  const { api, writtenBlocks } = parts;
  const { blocks, pools, gonePools, endpoints, goneEndpoints } = partsOf(changes);
  const removal = await forAll(goneEndpoints, async ({ before }) =>
    ifTaken(parts, async () => deleteEndpoint(api, before, signal)),
  );
  if (removal === 'conflict') return 'conflict';
  const written: Written[] = [];
  const decided = await decide({ api, writtenBlocks }, { blocks, pools, gonePools, written }, signal);
  const outcome =
    decided === 'conflict'
      ? decided
      : await forAll(endpoints, async (each) => ifTaken(parts, async () => putEndpoint(api, each, signal)));
  if (outcome === 'conflict') {
    const undoSignal = AbortSignal.timeout(UNDO_MS);
    for (const write of written.reverse()) {
      writtenBlocks?.forget(blockObjectName(write.cidr));
      await revertWrite(api, write, undoSignal);
    }
    return 'conflict';
  }
  return 'committed';
}

/** Makes all changes, also after one of them was in conflict. */
async function forAll<T>(changes: readonly T[], act: (change: T) => Promise<Outcome>): Promise<Outcome> {
  let outcome: Outcome = 'committed';
  await forEachLimit(changes, AT_ONCE, async (change) => {
    if ((await act(change)) === 'conflict') outcome = 'conflict';
  });
  return outcome;
}

async function ifTaken({ log }: { readonly log: Log }, write: () => Promise<Outcome>): Promise<Outcome> {
  try {
    return await write();
  } catch (cause) {
    if (!isNetplugError(cause, 'resource/invalid', 'store/refused')) throw cause;
    log.warning('endpoint not written', { reason: reasonOf(cause) });
    return 'committed';
  }
}

async function decide(
  { api, writtenBlocks }: { readonly api: OrchApi; readonly writtenBlocks: WrittenBlocks | undefined },
  {
    blocks,
    pools,
    gonePools,
    written,
  }: Pick<Parts, 'blocks' | 'pools' | 'gonePools'> & { readonly written: Written[] },
  signal: AbortSignal,
): Promise<Outcome> {
  for (const write of blocks.sort((a, b) => compareCidrs(a.cidr, b.cidr))) {
    const writing = writeBlock(api, write, signal);
    const done = await (writtenBlocks?.remember(blockObjectName(write.cidr), writing) ?? writing);
    if (done === 'conflict') return 'conflict';
    written.push(done);
  }
  // A pool that goes away is disabled first and its blocks are listed after that. So either its version has changed by
  // now and our block is reverted, or our block was there before it was disabled and the listing sees it.
  for (const pool of new Map(pools.map((each) => [each.value.metadata.name, each])).values()) {
    if (!(await isUnchanged(api, pool, signal))) return 'conflict';
  }
  for (const pool of gonePools) {
    const { name } = pool.value.metadata;
    const preconditions = { resourceVersion: pool.version };
    const answer = await api.delete({ collection: POOLS, name, preconditions }, signal);
    if (answer.outcome !== 'ok' && !(answer.outcome === 'not-found' && answer.mayBeOurs)) return 'conflict';
  }
  return 'committed';
}

async function isUnchanged(api: OrchApi, pool: Stored<IpPool>, signal: AbortSignal): Promise<boolean> {
  const { name } = pool.value.metadata;
  if (!isObjectName(name)) return false;
  const answer = await api.get(POOLS, name, signal);
  return answer.outcome === 'ok' && answer.value.metadata.resourceVersion === pool.version;
}

function partsOf(changes: readonly Change[]): Parts {
  const parts: Parts = { blocks: [], pools: [], gonePools: [], endpoints: [], goneEndpoints: [] };
  for (const change of changes) {
    switch (change.kind) {
      case 'create-block':
        parts.blocks.push({ cidr: change.block.cidr, before: undefined, after: blockAfter(change) });
        if (change.pool !== undefined) parts.pools.push(change.pool);
        break;
      case 'update-block':
        parts.blocks.push({
          cidr: change.before.value.cidr,
          before: change.before,
          after: blockAfter(change),
          ...(change.returned === undefined ? {} : { returned: change.returned }),
        });
        break;
      case 'delete-block':
        parts.blocks.push({ cidr: change.before.value.cidr, before: change.before, after: undefined });
        break;
      case 'put-endpoint':
        parts.endpoints.push(change);
        break;
      case 'delete-endpoint':
        parts.goneEndpoints.push(change);
        break;
      case 'delete-pool':
        parts.gonePools.push(change.before);
        break;
      default:
        never(change);
    }
  }
  return parts;
}
