import { type LinkedPorts, restoreUsedAddresses } from '../restore-used-addresses.ts';
import { addressInUseKey } from '../plan-assertion.ts';
import type { Allocation } from '../../model/ip-block.ts';
import { type Attachment, handleOf, type NodeName } from '../../model/names.ts';
import type { Datastore } from '../../config/connection.ts';
import { datastoreIdOf } from './datastore-id.ts';
import { allocationsInJournals, runsWithJournal } from './orphaned-journals.ts';
import { type RecoveryPorts, recoverForCall } from './recover.ts';

export type RecoverBeforeCallPorts = RecoveryPorts & LinkedPorts;

export interface RecoveringCall {
  readonly node: NodeName;
  readonly attachment: Attachment;
  readonly type: Datastore['type'];
  /** Whether the call may assign addresses. */
  readonly isAdd: boolean;
}

/**
 * Replays orphaned journals of the node, and before an ADD records addresses that pods use and the datastore has lost. The
 * standalone program does so before it serves a call. Reads nothing on a node without journals and pods.
 * @throws agent/busy, store/*
 */
export async function recoverBeforeCall(
  ports: RecoverBeforeCallPorts,
  call: RecoveringCall,
  signal: AbortSignal,
): Promise<void> {
  const { folder } = ports.place;
  if (runsWithJournal(folder).size > 0) await recover(ports, call, signal);
  if (call.isAdd) await assertPods(ports, call.node, signal);
}

async function recover(
  ports: RecoverBeforeCallPorts,
  { node, attachment, type }: RecoveringCall,
  signal: AbortSignal,
): Promise<void> {
  const { clusterId } = await ports.store.readNodeView(node, undefined, signal);
  if (clusterId === undefined) {
    ports.log.warning('journals kept: the datastore has no cluster id yet', { folder: ports.place.folder });
    return;
  }
  const datastore = datastoreIdOf(type, clusterId);
  await recoverForCall(ports, { datastore, node }, { handle: handleOf(attachment), signal });
}

async function assertPods(ports: RecoverBeforeCallPorts, node: NodeName, signal: AbortSignal): Promise<void> {
  // An allocation of a journal is recorded as the journal says, so that replaying it later changes nothing.
  const known = (): ReadonlyMap<string, Allocation> =>
    new Map(
      allocationsInJournals(ports.place.folder).map(({ address, allocation }) => [
        addressInUseKey({ address, owner: allocation }),
        allocation,
      ]),
    );
  await restoreUsedAddresses(ports, { node, known, pending: () => new Set() }, signal);
}
