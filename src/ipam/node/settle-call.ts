import { assertLiving } from '../assert-living.ts';
import { type LivingAddress, livingKey } from '../plan-assertion.ts';
import type { Allocation } from '../../model/ip-block.ts';
import { type Attachment, handleOf, type NodeName } from '../../model/names.ts';
import type { Datastore } from '../../config/connection.ts';
import { datastoreIdOf } from './datastore-id.ts';
import { allocationsInJournals, runsWithJournal } from './left-journals.ts';
import { type RecoveryPorts, recoverForCall } from './recover.ts';

export interface SettlePorts extends RecoveryPorts {
  /** The addresses of this address manager that the kernel routes to links of the node's pods. */
  readonly listLiving: () => Promise<readonly LivingAddress[]>;
}

export interface SettledCall {
  readonly node: NodeName;
  readonly attachment: Attachment;
  readonly type: Datastore['type'];
  /** Whether the call may assign addresses. */
  readonly isAdd: boolean;
}

/**
 * Settles what agents that are gone have left for the node, and before an ADD records what living pods use and the
 * datastore has lost: what the standalone program does before it serves a call. Reads nothing where there is neither a
 * journal nor a pod. @throws agent/busy, store/*
 */
export async function settleForCall(ports: SettlePorts, call: SettledCall, signal: AbortSignal): Promise<void> {
  const { folder } = ports.place;
  if (runsWithJournal(folder).size > 0) await recover(ports, call, signal);
  if (call.isAdd) await assertPods(ports, call.node, signal);
}

async function recover(
  ports: SettlePorts,
  { node, attachment, type }: SettledCall,
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

async function assertPods(ports: SettlePorts, node: NodeName, signal: AbortSignal): Promise<void> {
  // What a journal gives is recorded as the journal says, so that replaying it later changes nothing.
  const known = (): ReadonlyMap<string, Allocation> =>
    new Map(
      allocationsInJournals(ports.place.folder).map(({ address, allocation }) => [
        livingKey({ address, owner: allocation }),
        allocation,
      ]),
    );
  await assertLiving(ports, { node, known, pending: () => new Set() }, signal);
}
