import { join } from 'node:path';
import type { Call, CniPorts } from '../cni/call.ts';
import type { Surroundings } from '../cni/run-plugin.ts';
import { tryLockFile } from '../dataplane/linux/file-lock.ts';
import { assertLiving } from '../ipam/assert-living.ts';
import { livingKey } from '../ipam/plan-assertion.ts';
import type { Allocation } from '../model/ip-block.ts';
import { handleOf } from '../model/names.ts';
import type { Datastore } from '../netconf/connection.ts';
import { datastoreIdOf } from '../resident/datastore-id.ts';
import { allocationsInJournals, runsWithJournal } from '../resident/left-journals.ts';
import { recoverForCall } from '../resident/recover.ts';
import { attachedIn } from './attached.ts';
import { livingIn } from './living-in.ts';
import { hostIn } from './host-in.ts';
import { stateDir } from './registration.ts';

/** Where journals of agents lie. */
export function journalFolder(env: NodeJS.ProcessEnv): string {
  return join(stateDir(env), 'journal');
}

/** What the standalone program does before it serves a call. */
export function settleLeftoversIn(env: NodeJS.ProcessEnv): Surroundings['settleLeftovers'] {
  return async (ports, { call, command, datastore }) => {
    const folder = journalFolder(env);
    if (runsWithJournal(folder).size > 0) await recoverIn(env, ports, { call, datastore });
    if (command === 'ADD') await assertIn(folder, ports, call);
  };
}

async function recoverIn(
  env: NodeJS.ProcessEnv,
  ports: CniPorts,
  { call: { node, attachment, signal }, datastore }: { readonly call: Call; readonly datastore: Datastore },
): Promise<void> {
  const place = { folder: journalFolder(env), tryLock: tryLockFile };
  const { clusterId } = await ports.store.readNodeView(node, undefined, signal);
  if (clusterId === undefined) {
    ports.log.warning('journals kept: the datastore has no cluster id yet', { folder: place.folder });
    return;
  }
  await recoverForCall(
    { ...ports, host: hostIn(env), place, listAttached: attachedIn(ports.kernel) },
    { datastore: datastoreIdOf(datastore.type, clusterId), node },
    { handle: handleOf(attachment), signal },
  );
}

/** Nothing is read where no pod has a link. */
async function assertIn(folder: string, ports: CniPorts, { node, signal }: Call): Promise<void> {
  const listLiving = livingIn(ports.kernel, ports.attachments);
  if ((await listLiving()).length === 0) return;
  const view = await ports.store.readNodeView(node, undefined, signal);
  // What a journal gives is recorded as the journal says, so that replaying it later changes nothing.
  const known = (): ReadonlyMap<string, Allocation> =>
    new Map(
      allocationsInJournals(folder).map(({ address, allocation }) => [
        livingKey({ address, owner: allocation }),
        allocation,
      ]),
    );
  await assertLiving({ ...ports, listLiving }, { node, view, known, pending: () => new Set() }, signal);
}
