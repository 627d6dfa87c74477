import type { AllocationStore } from '../../datastore/allocation-store.ts';
import { NetplugError } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import { backOffConflict, type RetryPorts } from '../../base/back-off.ts';
import { assertLiving } from '../assert-living.ts';
import { livingKey } from '../plan-assertion.ts';
import type { HeldAddress } from '../../model/ip-block.ts';
import { type Handle, interfaceKey, type NodeName } from '../../model/names.ts';
import { handleIn, reclaimOperations } from '../../model/slot-operation.ts';
import { attachmentOf, endpointIdOf, endpointKey } from '../../model/workload-endpoint.ts';
import { addressAt, formatCidr } from '../../net/cidr.ts';
import type { DatastoreId } from './datastore-id.ts';
import type { EndpointChange, Entry } from './entry.ts';
import type { JournalPlace } from './journal.ts';
import { damagedSegments, type LeftJournal, readJournal, runsToRecover, takeJournal } from './left-journals.ts';
import { fittingBlocks, fittingEntries, planPublication, type PublicationOptions } from './plan-publication.ts';
import { type Host, isOfBoot } from './run-id.ts';
import { isOfRun } from './own-stock.ts';
import { takenBack } from './taken-back.ts';

/** How long another process may take that is about to finish the same work, or to end. */
const LOCK_TRIES = 9;

export interface RecoveryPorts extends RetryPorts {
  readonly store: AllocationStore;
  readonly log: Log;
  readonly host: Host;
  readonly place: JournalPlace;
  /** `<containerId>/<ifName>` of every pod link the kernel has. */
  readonly listAttached: () => ReadonlySet<string>;
}

export interface Leftover {
  readonly datastore: DatastoreId;
  readonly node: NodeName;
  /** The run of the process itself. */
  readonly except?: string;
}

/**
 * Replays the orphaned journals of the datastore, gives the stock of their runs back and removes them. Addresses of pods
 * whose link the kernel does not have are released: their ADD never ended. A journal with damaged lines is replayed as
 * far as it can be read and kept aside; the stock of its run stays taken until the machine is started again, because the
 * lost lines may have handed it out. @throws store/*; then the journals stay
 */
export async function recoverJournals(
  ports: RecoveryPorts,
  { datastore, node, except }: Leftover,
  signal: AbortSignal,
): Promise<void> {
  for (const run of runsToRecover(ports.place.folder, datastore)) {
    if (run === except) continue;
    await recoverRun(ports, { datastore, node, run, tries: LOCK_TRIES }, signal);
  }
}

/** Whether the run's journal is settled; false when its owner, or a process that recovers it, lives on. */
async function recoverRun(
  ports: RecoveryPorts,
  { node, run, tries }: Leftover & { readonly run: string; readonly tries: number },
  signal: AbortSignal,
): Promise<boolean> {
  for (let attempt = 1; attempt <= tries; attempt += 1) {
    const journal = takeJournal(ports.place, run);
    if (journal === 'gone') return true;
    if (journal === undefined) {
      if (attempt < tries) await backOffConflict(ports, attempt, signal);
      continue;
    }
    try {
      await settle(ports, { journal, run, node: (journal.node ?? node) as NodeName }, signal);
      return true;
    } finally {
      journal.letGo();
    }
  }
  return false;
}

/**
 * What the standalone program does first: nothing when there are no journals. When an agent lives without answering,
 * attachments that its journal mentions have to wait for it.
 * @throws agent/busy, store/*
 */
export async function recoverForCall(
  ports: RecoveryPorts,
  leftover: Leftover,
  { handle, signal }: { readonly handle: Handle; readonly signal: AbortSignal },
): Promise<void> {
  const { folder } = ports.place;
  for (const run of runsToRecover(folder, leftover.datastore)) {
    if (await recoverRun(ports, { ...leftover, run, tries: 1 }, signal)) continue;
    const isMentioned = readJournal(folder, run).some(({ slots }) => slots.some((slot) => handleIn(slot) === handle));
    // It may be about to end, as on an upgrade.
    if (!isMentioned || (await recoverRun(ports, { ...leftover, run, tries: LOCK_TRIES }, signal))) continue;
    throw new NetplugError(
      'agent/busy',
      'Cannot serve this attachment now: an agent that does not answer has its address in hand',
      { hint: 'Try again in a moment; if it goes on, restart netplug-agent on this node', facts: { run } },
    );
  }
}

/** Damaged segments of runs before the last boot: no pod of theirs can be alive. */
export function outdatedDamage({ place, host }: Pick<RecoveryPorts, 'place' | 'host'>): readonly string[] {
  return damagedSegments(place.folder).flatMap(({ path, run }) => (isOfBoot(run, host) ? [] : path));
}

async function settle(
  ports: RecoveryPorts,
  { journal, run, node }: { readonly journal: LeftJournal; readonly run: string; readonly node: NodeName },
  signal: AbortSignal,
): Promise<void> {
  const { host, log } = ports;
  const { damaged, entries } = journal;
  const isIncomplete = damaged.length > 0 && isOfBoot(run, host);
  await replay(ports, { node, entries }, signal);
  if (!isIncomplete) await giveStockBack(ports, { node, run }, signal);
  journal.remove(isIncomplete ? 'keep' : 'remove');
  log.info('journal recovered', { run, node, entries: entries.length });
  if (isIncomplete) {
    log.error('journal damaged: what it cannot tell may be in use, so the addresses set aside by its run stay taken', {
      run,
      segments: damaged,
      hint: 'Compare with "netplugctl ipam check", then delete the files named *.damaged and restart netplug-agent',
    });
  }
}

async function replay(
  ports: RecoveryPorts,
  { node, entries }: { readonly node: NodeName; readonly entries: readonly Entry[] },
  signal: AbortSignal,
): Promise<void> {
  const undone = neverEnded(entries, ports.listAttached());
  const left = [...entries, ...undone.map((entry) => takenBack(entry, []))];
  const isReturned = (entry: Entry): boolean => !undone.includes(entry);
  const toldInVain: Entry[] = [];
  while (left.length > 0) {
    const { lost, count } = await publish(ports, { node, entries: left, isReturned, adjust: () => [] }, signal);
    toldInVain.push(...[...lost].filter(isReturned));
    left.splice(0, count);
  }
  await assertTold(ports, { node, told: takenFor(toldInVain, entries) }, signal);
}

/** Records what pods were told although its block is gone, as after a backup was restored; reports what others hold. */
async function assertTold(
  ports: RecoveryPorts,
  { node, told }: { readonly node: NodeName; readonly told: readonly HeldAddress[] },
  signal: AbortSignal,
): Promise<void> {
  if (told.length === 0) return;
  const living = told.map(({ address, allocation }) => ({ address, owner: allocation, allocation }));
  const known = new Map(living.map((each) => [livingKey(each), each.allocation]));
  await assertLiving(
    { ...ports, listLiving: async () => Promise.resolve(living) },
    { node, known: () => known, pending: () => new Set() },
    signal,
  );
}

/** What these of the entries take and no entry of all frees. */
function takenFor(some: readonly Entry[], all: readonly Entry[]): readonly HeldAddress[] {
  const freed = new Set(all.flatMap(({ slots }) => slots.flatMap((slot) => (slot.kind === 'free' ? slot.id : []))));
  return some.flatMap(({ slots }) =>
    slots.flatMap((slot) =>
      slot.kind === 'take' && !freed.has(slot.allocation.id)
        ? { address: addressAt(slot.block, slot.ordinal), allocation: slot.allocation }
        : [],
    ),
  );
}

async function giveStockBack(
  ports: RecoveryPorts,
  { node, run }: { readonly node: NodeName; readonly run: string },
  signal: AbortSignal,
): Promise<void> {
  for (let isLeft = true; isLeft;) {
    isLeft = false;
    const adjust: PublicationOptions['adjust'] = (blocks) => {
      const withStock = [...blocks].filter(([, { stock }]) => [...stock.values()].some((id) => isOfRun(id, run)));
      const some = fittingBlocks(withStock);
      isLeft = some.length < withStock.length;
      return some.flatMap(([, block]) => reclaimOperations(block, (id) => isOfRun(id, run)));
    };
    await publish(ports, { node, entries: [], isReturned: () => false, adjust }, signal);
  }
}

/** Publishes as many of the first entries as one write takes. Returns those that cannot be made true any more. */
async function publish(
  { store, ...ports }: RecoveryPorts,
  { node, entries, ...options }: PublicationOptions & { readonly node: NodeName; readonly entries: readonly Entry[] },
  signal: AbortSignal,
): Promise<{ readonly lost: ReadonlySet<Entry>; readonly count: number }> {
  for (let attempt = 0; ; attempt += 1) {
    await backOffConflict(ports, attempt, signal);
    const [view, { endpoints }] = await Promise.all([
      store.readNodeView(node, undefined, signal),
      store.listEndpoints(node, signal),
    ]);
    const known = {
      blocks: new Map([...view.owned, ...view.borrowed].map((block) => [formatCidr(block.value.cidr), block])),
      endpoints: new Map(endpoints.map((endpoint) => [endpointKey(endpointIdOf(endpoint.value)), endpoint])),
    };
    const count = fittingEntries(entries, known.blocks);
    const { changes, lost } = planPublication(known, entries.slice(0, count), options);
    if (changes.length === 0 || (await store.commit(changes, signal)) === 'committed') return { lost, count };
  }
}

/** The entries whose pod has no link: nobody was ever told of those addresses, or the pod is gone. */
function neverEnded(entries: readonly Entry[], attached: ReadonlySet<string>): readonly Entry[] {
  return entries.filter(({ endpoints }) => endpoints.some((change) => isUnlinked(change, attached)));
}

/** An endpoint without an interface of ours belongs to another main plugin: there the kernel tells nothing. */
function isUnlinked(change: EndpointChange, attached: ReadonlySet<string>): boolean {
  if (change.kind !== 'put') return false;
  return change.endpoint.spec.interfaceName !== '' && !attached.has(interfaceKey(attachmentOf(change.endpoint)));
}
