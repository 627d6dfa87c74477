import { NetplugError } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { backOff, type Patience } from '../base/retry.ts';
import type { Store } from '../datastore/store.ts';
import { giveBack, type IpBlock } from '../model/ip-block.ts';
import { type Handle, interfaceKey, type NodeName } from '../model/names.ts';
import { attachmentOf, endpointIdOf, endpointKey } from '../model/workload-endpoint.ts';
import { formatCidr } from '../net/cidr.ts';
import type { Datastore } from '../netconf/connection.ts';
import type { EndpointChange, Entry } from './entry.ts';
import type { JournalPlace } from './journal.ts';
import { type LeftJournal, listRuns, readJournal, takeJournal } from './left-journals.ts';
import { ENTRIES_PER_WRITE, planPublication } from './plan-publication.ts';
import { handleIn } from './slot-change.ts';
import { isOfRun } from './own-stock.ts';
import { takenBack } from './taken-back.ts';

/** How long another process may take that is about to finish the same work, or to end. */
const LOCK_TRIES = 9;

export interface RecoveryPorts extends Patience {
  readonly store: Store;
  readonly log: Log;
  readonly place: JournalPlace;
  /** `<containerId>/<ifName>` of every pod link the kernel has. */
  readonly listAttached: () => ReadonlySet<string>;
}

export interface Leftover {
  readonly datastore: Datastore;
  readonly node: NodeName;
}

/**
 * Publishes what agents that are gone had decided, gives their stock back and removes their journals. Addresses of pods
 * whose link the kernel does not have are freed: their ADD never ended. Returns the runs whose owners live.
 * @throws store/*; then the journals stay
 */
export async function recoverJournals(
  ports: RecoveryPorts,
  { datastore, node }: Leftover,
  signal: AbortSignal,
): Promise<ReadonlySet<string>> {
  const living = new Set<string>();
  for (const run of listRuns(ports.place, datastore)) {
    if (!(await recoverRun(ports, { datastore, node, run, tries: LOCK_TRIES }, signal))) living.add(run);
  }
  return living;
}

/** Whether the run's journal is settled; false when its owner, or somebody who recovers it, lives on. */
async function recoverRun(
  ports: RecoveryPorts,
  { datastore, node, run, tries }: Leftover & { readonly run: string; readonly tries: number },
  signal: AbortSignal,
): Promise<boolean> {
  for (let attempt = 1; attempt <= tries; attempt += 1) {
    const journal = takeJournal(ports.place, datastore, run);
    if (journal === 'gone') return true;
    if (journal === undefined) {
      if (attempt < tries) await ports.clock.sleep(2 ** attempt, signal);
      continue;
    }
    try {
      await replay(ports, { journal, node: journal.header.node as NodeName }, signal);
      journal.remove();
      ports.log.info('journal recovered', { run, node, entries: journal.entries.length });
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
  const { datastore } = leftover;
  for (const run of listRuns(ports.place, datastore)) {
    if (await recoverRun(ports, { ...leftover, run, tries: 1 }, signal)) continue;
    const isMentioned = readJournal(ports.place.folder, datastore, run).some(({ slots }) =>
      slots.some((slot) => handleIn(slot) === handle),
    );
    // It may be about to end, as on an upgrade.
    if (!isMentioned || (await recoverRun(ports, { ...leftover, run, tries: LOCK_TRIES }, signal))) continue;
    throw new NetplugError(
      'agent/busy',
      'Cannot serve this attachment now: an agent that does not answer has its address in hand',
      { hint: 'Try again in a moment; if it goes on, restart netplug-agent on this node', facts: { run } },
    );
  }
}

async function replay(
  ports: RecoveryPorts,
  { journal, node }: { readonly journal: LeftJournal; readonly node: NodeName },
  signal: AbortSignal,
): Promise<void> {
  const entries = [...journal.entries, ...neverEnded(journal.entries, ports.listAttached())];
  for (let from = 0; from < entries.length; from += ENTRIES_PER_WRITE) {
    await publish(ports, { node, entries: entries.slice(from, from + ENTRIES_PER_WRITE), run: undefined }, signal);
  }
  await publish(ports, { node, entries: [], run: journal.header.run }, signal);
}

async function publish(
  { store, ...patience }: RecoveryPorts,
  {
    node,
    entries,
    run,
  }: { readonly node: NodeName; readonly entries: readonly Entry[]; readonly run: string | undefined },
  signal: AbortSignal,
): Promise<void> {
  const withoutStock = (blocks: ReadonlyMap<string, IpBlock>): ReadonlyMap<string, IpBlock> =>
    run === undefined
      ? blocks
      : new Map([...blocks].map(([key, block]) => [key, giveBack(block, (id) => isOfRun(id, run))]));
  for (let attempt = 0; ; attempt += 1) {
    await backOff(patience, attempt, signal);
    const [view, { endpoints }] = await Promise.all([
      store.readNodeView(node, undefined, signal),
      store.listEndpoints(node, signal),
    ]);
    const known = {
      blocks: new Map([...view.owned, ...view.borrowed].map((block) => [formatCidr(block.value.cidr), block])),
      endpoints: new Map(endpoints.map((endpoint) => [endpointKey(endpointIdOf(endpoint.value)), endpoint])),
    };
    const { changes } = planPublication(known, entries, { adjust: withoutStock, isTold: () => false });
    if (changes.length === 0 || (await store.commit(changes, signal)) === 'committed') return;
  }
}

/** Undoes the entries whose pod has no link: nobody was ever told of those addresses, or the pod is gone. */
function neverEnded(entries: readonly Entry[], attached: ReadonlySet<string>): Entry[] {
  return entries
    .filter(({ endpoints }) => endpoints.some((change) => isUnlinked(change, attached)))
    .map((entry) => takenBack(entry, []));
}

/** An endpoint without an interface of ours belongs to another main plugin: there the kernel tells nothing. */
function isUnlinked(change: EndpointChange, attached: ReadonlySet<string>): boolean {
  if (change.kind !== 'put') return false;
  return change.endpoint.spec.interfaceName !== '' && !attached.has(interfaceKey(attachmentOf(change.endpoint)));
}
