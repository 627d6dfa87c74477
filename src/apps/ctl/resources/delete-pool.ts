import { isNetplugError, NetplugError } from '../../../base/errors.ts';
import { backOffConflict } from '../../../base/back-off.ts';
import { resourceChanged, resourceNotFound } from '../../../datastore/resource-errors.ts';
import type { Change, Stored } from '../../../datastore/allocation-store.ts';
import type { IpBlock } from '../../../model/ip-block.ts';
import type { IpPool } from '../../../model/ip-pool.ts';
import { isTunnelAddress } from '../../../model/tunnel-attachment.ts';
import { cidrContains, formatCidr, parseCidr } from '../../../net/cidr.ts';
import { counted } from '../../../base/counted.ts';
import { refuseCreatedAgain } from './refuse-owned-pool.ts';
import type { Writing } from './write-resource.ts';

/** Blocks deleted in one commit: two keys each stay below the 128 operations etcd takes in a transaction. */
const BLOCKS_PER_COMMIT = 50;
const TRIES = 5;
const CLEANUP_MS = 5000;
/** A running agent returns its pre-allocated addresses, and moves its tunnels, within two seconds of the change. */
const AGENTS_MS = 15_000;
const AGENTS_PERIOD_MS = 50;

interface Which {
  readonly name: string;
  readonly resourceVersion?: string | undefined;
}

/**
 * Deletes a pool, together with its blocks, if no pod holds one of its addresses. Disables the pool first: its new version
 * stops nodes from claiming blocks, and agents return their pre-allocated addresses and those of their tunnels.
 * @throws resource/not-found, resource/changed, resource/in-use, resource/owned, store/conflict
 */
export async function deletePool(writing: Writing, which: Which): Promise<void> {
  const { store, signal } = writing;
  const { name } = which;
  const before = await dryRunPoolDeletion(writing, which);
  if (before.spec.disabled) return deleteDisabled(writing, name);
  const disabled = await store.updateResource({ ...before, spec: { ...before.spec, disabled: true } }, signal);
  try {
    await deleteDisabled(writing, name);
  } catch (cause) {
    // A pod was assigned an address in the meantime: enable the pool again.
    await enableAgain(writing, { ...before, metadata: disabled.metadata }, cause);
    throw cause;
  }
}

/** Makes the checks of a deletion, as far as they hold before the pool is disabled. @throws as `deletePool` */
export async function dryRunPoolDeletion(writing: Writing, { name, resourceVersion }: Which): Promise<IpPool> {
  const pool = await findPool(writing, name);
  if (resourceVersion !== undefined && resourceVersion !== pool.metadata.resourceVersion) {
    throw resourceChanged({ kind: 'IPPool', name });
  }
  await refuseCreatedAgain(writing.store, pool, writing.signal);
  await assertUnused(writing, pool);
  return pool;
}

async function deleteDisabled(writing: Writing, name: string): Promise<void> {
  const { store, signal } = writing;
  for (let attempt = 0; attempt < TRIES; attempt += 1) {
    await backOffConflict(writing, attempt, signal);
    const pool = await findPool(writing, name);
    const blocks = await leftByAgents(writing, pool);
    const deletions = blocks.map((before): Change => ({ kind: 'delete-block', before }));
    const stored: Stored<IpPool> = { value: pool, version: pool.metadata.resourceVersion ?? '' };
    let outcome = 'committed';
    while (deletions.length > BLOCKS_PER_COMMIT && outcome === 'committed') {
      outcome = await store.commit(deletions.splice(0, BLOCKS_PER_COMMIT), signal);
    }
    if (outcome !== 'committed') continue;
    outcome = await store.commit([...deletions, { kind: 'delete-pool', before: stored }], signal);
    if (outcome === 'committed') return;
  }
  throw new NetplugError('store/conflict', `Cannot delete IPPool "${name}": its blocks keep being changed`, {
    hint: 'Find out which pods are being started from the pool, then try again',
    facts: { pool: name },
  });
}

async function findPool({ store, signal }: Writing, name: string): Promise<IpPool> {
  const pool = await store.findResource({ kind: 'IPPool', name }, signal);
  if (pool === undefined) throw resourceNotFound({ kind: 'IPPool', name });
  return pool;
}

/** Returns the blocks of the pool once agents have returned their tunnel and pre-allocated addresses. */
async function leftByAgents(writing: Writing, pool: IpPool): Promise<readonly Stored<IpBlock>[]> {
  const { clock, signal } = writing;
  for (const untilMs = clock.monotonic() + AGENTS_MS; ;) {
    const blocks = await assertUnused(writing, pool);
    const left = ofAgents(blocks.map(({ value }) => value));
    if (left.size === 0) return blocks;
    if (clock.monotonic() > untilMs) throw agentsHold(pool, left);
    await clock.sleep(AGENTS_PERIOD_MS, signal);
  }
}

/** Returns the number of tunnel and pre-allocated addresses by node. */
function ofAgents(blocks: readonly IpBlock[]): ReadonlyMap<string, number> {
  const left = new Map<string, number>();
  const add = (node: string, count: number): unknown => left.set(node, (left.get(node) ?? 0) + count);
  for (const { slots, preallocated, node } of blocks) {
    for (const allocation of slots.values()) if (isTunnelAddress(allocation)) add(allocation.node, 1);
    if (preallocated.size > 0) add(node ?? '', preallocated.size);
  }
  return left;
}

function agentsHold({ metadata: { name } }: IpPool, left: ReadonlyMap<string, number>): NetplugError {
  const nodes = [...left.keys()].sort();
  const held = [...left.values()].reduce((sum, count) => sum + count, 0);
  const [first = ''] = nodes;
  const which = `${nodes.length === 1 ? 'node' : 'nodes'} ${shortList(nodes)}`;
  return new NetplugError(
    'resource/in-use',
    `Cannot delete IPPool "${name}": the agents of ${which} keep ${counted(held, 'address', 'addresses')} of it for tunnels and pods to come`,
    {
      hint: `Start netplug-agent on these nodes again and repeat the command; for a node that does not return: "netplugctl node remove ${first}"`,
      facts: { pool: name, nodes, held },
    },
  );
}

function shortList(nodes: readonly string[]): string {
  return nodes.slice(0, 3).join(', ') + (nodes.length > 3 ? ', …' : '');
}

/** The blocks of the pool, none of which has an address of a pod. @throws resource/in-use, store/corrupt */
async function assertUnused({ store, signal }: Writing, pool: IpPool): Promise<readonly Stored<IpBlock>[]> {
  const { name } = pool.metadata;
  const cidr = parseCidr(pool.spec.cidr);
  const claims = (await store.listClaims([cidr], signal)).filter((claim) => cidrContains(cidr, claim.cidr));
  // Throws for an unreadable block, because its addresses may be held.
  const blocks = await store.getBlocks(
    claims.map((claim) => claim.cidr),
    signal,
  );
  const holders = blocks.flatMap(({ value }) => [...value.slots.values()].filter((each) => !isTunnelAddress(each)));
  const held = holders.length;
  if (held === 0) return blocks;
  const nodes = [...new Set(holders.map(({ node }) => node))].sort();
  const where = `${counted(nodes.length, 'node')} (${shortList(nodes)})`;
  throw new NetplugError(
    'resource/in-use',
    `Cannot delete IPPool "${name}": ${counted(held, 'address', 'addresses')} of it held on ${where}`,
    {
      hint: `Set "disabled: true" and recreate the pods; "netplugctl ipam show --blocks" lists them`,
      facts: { pool: name, cidr: formatCidr(cidr), held },
    },
  );
}

/** Enables the pool, with a timeout of its own, because the command may have timed out. */
async function enableAgain({ store }: Writing, pool: IpPool, reason: unknown): Promise<void> {
  try {
    await store.updateResource(pool, AbortSignal.timeout(CLEANUP_MS));
  } catch (cause) {
    // The deletion succeeded nevertheless, or another program has changed the pool.
    if (isNetplugError(cause, 'resource/not-found', 'resource/changed')) return;
    const left = new NetplugError(
      'store/unavailable',
      `Cannot enable IPPool "${pool.metadata.name}" again: it stays disabled`,
      {
        hint: 'Set "disabled: false" on it, or repeat the deletion',
        cause,
      },
    );
    throw new AggregateError([reason, left], 'Cannot delete the pool or re-enable it', { cause });
  }
}
