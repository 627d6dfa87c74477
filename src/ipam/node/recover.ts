import type { AllocationStore } from '../../datastore/allocation-store.ts';
import { NetplugError } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import { backOffConflict, type RetryPorts } from '../../base/back-off.ts';
import { type LinkedPorts, restoreUsedAddresses } from '../restore-used-addresses.ts';
import { addressInUseKey } from '../plan-assertion.ts';
import type { HeldAddress } from '../../model/ip-block.ts';
import { releaseTime } from '../../model/cool-down.ts';
import { type Handle, interfaceKey, type NodeName } from '../../model/names.ts';
import { handleIn, reclaimOperations } from '../../model/slot-operation.ts';
import { attachmentOf, endpointIdOf, endpointKey } from '../../model/workload-endpoint.ts';
import { formatCidr } from '../../net/cidr.ts';
import type { DatastoreId } from './datastore-id.ts';
import { type EndpointChange, type Entry, takenBy } from './entry.ts';
import type { JournalPlace } from './journal.ts';
import {
  damagedSegments,
  type OrphanedJournal,
  readJournal,
  runsToRecover,
  takeOverJournal,
} from './orphaned-journals.ts';
import { fittingBlocks, fittingEntries, planFlush, type FlushOptions } from './plan-flush.ts';
import { type Host, isOfBoot } from './run-id.ts';
import { isOfRun } from './preallocated.ts';
import { undoEntry } from './undo-entry.ts';

/** Number of times that the lock is tried: another process may be about to complete the recovery, or to exit. */
const LOCK_TRIES = 9;

export interface RecoveryPorts extends RetryPorts, Pick<LinkedPorts, 'listAttached'> {
  readonly store: AllocationStore;
  readonly log: Log;
  readonly host: Host;
  readonly place: JournalPlace;
}

export interface RecoveryScope {
  readonly datastore: DatastoreId;
  readonly node: NodeName;
  /** The run of the process itself. */
  readonly ownRun?: string;
}

/**
 * Replays the orphaned journals of the datastore, reclaims the addresses that their runs pre-allocated, and removes them.
 * Releases addresses of pods without a link in the kernel: their ADD did not complete. Replays the readable lines of a
 * damaged journal, and keeps it. The pre-allocated addresses of its run stay allocated until the machine restarts, because
 * the damaged lines may have assigned them. Leaves the journals of newer releases, and returns their runs.
 * @throws store/*; then the journals stay
 */
export async function recoverJournals(
  ports: RecoveryPorts,
  { datastore, node, ownRun }: RecoveryScope,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const newer: string[] = [];
  for (const run of runsToRecover(ports.place.folder, datastore)) {
    if (run === ownRun) continue;
    const outcome = await recoverRun(ports, { datastore, node, run, tries: LOCK_TRIES }, signal);
    if (outcome === 'newer') newer.push(run);
  }
  return newer;
}

/** Recovers the journal of a run. Returns `locked` while its owner or another recovering process holds the lock. */
async function recoverRun(
  ports: RecoveryPorts,
  { node, run, tries }: RecoveryScope & { readonly run: string; readonly tries: number },
  signal: AbortSignal,
): Promise<'recovered' | 'newer' | 'locked'> {
  for (let attempt = 1; attempt <= tries; attempt += 1) {
    const journal = takeOverJournal(ports.place, run);
    if (journal === 'gone') return 'recovered';
    if (journal === 'newer') return 'newer';
    if (journal === undefined) {
      if (attempt < tries) await backOffConflict(ports, attempt, signal);
      continue;
    }
    try {
      await replayJournal(ports, { journal, run, node: (journal.node ?? node) as NodeName }, signal);
      return 'recovered';
    } finally {
      journal.unlock();
    }
  }
  return 'locked';
}

/**
 * Recovers orphaned journals before a call of the standalone program. Refuses the call when an agent that is alive, but
 * does not answer, has pending writes for the attachment.
 * @throws agent/busy, store/*
 */
export async function recoverForCall(
  ports: RecoveryPorts,
  scope: RecoveryScope,
  { handle, signal }: { readonly handle: Handle; readonly signal: AbortSignal },
): Promise<void> {
  const { folder } = ports.place;
  for (const run of runsToRecover(folder, scope.datastore)) {
    if ((await recoverRun(ports, { ...scope, run, tries: 1 }, signal)) !== 'locked') continue;
    const entries = readJournal(folder, run);
    // What this release cannot read may be about it.
    const isMentioned =
      entries === 'newer' || entries.some(({ slots }) => slots.some((slot) => handleIn(slot) === handle));
    // The owner may be shutting down, as on an upgrade.
    if (!isMentioned) continue;
    if ((await recoverRun(ports, { ...scope, run, tries: LOCK_TRIES }, signal)) !== 'locked') continue;
    throw new NetplugError(
      'agent/busy',
      'Cannot serve this attachment now: an agent that does not answer has pending writes for it',
      { hint: 'Try again in a moment; if it persists, restart netplug-agent on this node', facts: { run } },
    );
  }
}

/** Returns the damaged segments of runs before the last boot, whose pods are all gone. */
export function outdatedDamagedSegments({ place, host }: Pick<RecoveryPorts, 'place' | 'host'>): readonly string[] {
  return damagedSegments(place.folder).flatMap(({ path, run }) => (isOfBoot(run, host) ? [] : path));
}

async function replayJournal(
  ports: RecoveryPorts,
  { journal, run, node }: { readonly journal: OrphanedJournal; readonly run: string; readonly node: NodeName },
  signal: AbortSignal,
): Promise<void> {
  const { host, log } = ports;
  const { damaged, entries } = journal;
  const isIncomplete = damaged.length > 0 && isOfBoot(run, host);
  await replay(ports, { node, entries }, signal);
  if (!isIncomplete) await reclaimWarmPool(ports, { node, run }, signal);
  journal.remove(isIncomplete ? 'keep' : 'remove');
  log.info('journal recovered', { run, node, entries: entries.length });
  if (isIncomplete) {
    log.error('journal damaged', {
      run,
      segments: damaged,
      hint: 'The pre-allocated addresses of the run stay taken. Compare with "netplugctl ipam check", then delete the files named *.damaged and restart netplug-agent',
    });
  }
}

async function replay(
  ports: RecoveryPorts,
  { node, entries }: { readonly node: NodeName; readonly entries: readonly Entry[] },
  signal: AbortSignal,
): Promise<void> {
  const undone = unfinishedEntries(entries, ports.listAttached());
  // The pod may have run: its link may have gone with the machine's restart.
  const releasedAt = releaseTime(ports.clock);
  const left = [...entries, ...undone.map((entry) => undoEntry(entry, [], releasedAt))];
  const isReturned = (entry: Entry): boolean => !undone.includes(entry);
  const returnedAndLost: Entry[] = [];
  while (left.length > 0) {
    const { lost, count } = await flush(ports, { node, entries: left, isReturned, adjust: () => [] }, signal);
    returnedAndLost.push(...[...lost].filter(isReturned));
    left.splice(0, count);
  }
  await assertReturned(ports, { node, returned: takenFor(returnedAndLost, entries) }, signal);
}

/** Records addresses that were returned to pods and whose block is missing, as after a restore; reports conflicts. */
async function assertReturned(
  ports: RecoveryPorts,
  { node, returned }: { readonly node: NodeName; readonly returned: readonly HeldAddress[] },
  signal: AbortSignal,
): Promise<void> {
  if (returned.length === 0) return;
  const living = returned.map(({ address, allocation }) => ({ address, owner: allocation, allocation }));
  const known = new Map(living.map((each) => [addressInUseKey(each), each.allocation]));
  await restoreUsedAddresses(
    { ...ports, listAddressesInUse: async () => Promise.resolve(living) },
    { node, known: () => known, pending: () => new Set() },
    signal,
  );
}

/** Returns the addresses that `some` assigns and that no entry of `all` releases. */
function takenFor(some: readonly Entry[], all: readonly Entry[]): readonly HeldAddress[] {
  const freed = new Set(all.flatMap(({ slots }) => slots.flatMap((slot) => (slot.kind === 'free' ? slot.id : []))));
  return some.flatMap(({ slots }) => takenBy(slots)).filter(({ allocation }) => !freed.has(allocation.id));
}

async function reclaimWarmPool(
  ports: RecoveryPorts,
  { node, run }: { readonly node: NodeName; readonly run: string },
  signal: AbortSignal,
): Promise<void> {
  for (let isLeft = true; isLeft;) {
    isLeft = false;
    const adjust: FlushOptions['adjust'] = (blocks) => {
      const withPreallocated = [...blocks].filter(([, { preallocated }]) =>
        [...preallocated.values()].some((id) => isOfRun(id, run)),
      );
      const some = fittingBlocks(withPreallocated);
      isLeft = some.length < withPreallocated.length;
      return some.flatMap(([, block]) => reclaimOperations(block, (id) => isOfRun(id, run)));
    };
    await flush(ports, { node, entries: [], isReturned: () => false, adjust }, signal);
  }
}

/** Writes as many of the first entries as one write takes. Returns those that can no longer be written. */
async function flush(
  { store, ...ports }: RecoveryPorts,
  { node, entries, ...options }: FlushOptions & { readonly node: NodeName; readonly entries: readonly Entry[] },
  signal: AbortSignal,
): Promise<{ readonly lost: ReadonlySet<Entry>; readonly count: number }> {
  for (let attempt = 0; ; attempt += 1) {
    await backOffConflict(ports, attempt, signal);
    const [view, { endpoints, problems }] = await Promise.all([
      store.readNodeView(node, undefined, signal),
      store.listEndpoints(node, signal),
    ]);
    const known = {
      blocks: new Map([...view.owned, ...view.borrowed].map((block) => [formatCidr(block.value.cidr), block])),
      endpoints: new Map(endpoints.map((endpoint) => [endpointKey(endpointIdOf(endpoint.value)), endpoint])),
      problems,
    };
    const count = fittingEntries(entries, known.blocks);
    const { changes, lost } = planFlush(known, entries.slice(0, count), options);
    if (changes.length === 0 || (await store.commit(changes, signal)) === 'committed') return { lost, count };
  }
}

/** Returns the entries whose pod has no link: their addresses were never returned to a caller, or the pod is gone. */
export function unfinishedEntries(entries: readonly Entry[], attached: ReadonlySet<string>): readonly Entry[] {
  return entries.filter(({ endpoints }) => endpoints.some((change) => isUnlinked(change, attached)));
}

/** Returns false for an endpoint without an interface: another main plugin made it, and the kernel has no netplug link. */
function isUnlinked(change: EndpointChange, attached: ReadonlySet<string>): boolean {
  if (change.kind !== 'put') return false;
  return change.endpoint.spec.interfaceName !== '' && !attached.has(interfaceKey(attachmentOf(change.endpoint)));
}
