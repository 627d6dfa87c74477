import type { AllocationStore } from '../datastore/allocation-store.ts';
import { NetplugError } from '../base/errors.ts';
import { backOffConflict, type RetryPorts } from '../base/back-off.ts';
import type { Log } from '../base/log.ts';
import type { Allocation } from '../model/ip-block.ts';
import { handleOf, interfaceKey, type NodeName } from '../model/names.ts';
import { attachmentOf, type WorkloadEndpoint } from '../model/workload-endpoint.ts';
import { formatAddress } from '../net/address.ts';
import { hostCidr } from '../net/cidr.ts';
import { decodePools } from './choose-pools.ts';
import {
  type AddressConflict,
  findUnrecorded,
  type AddressInUse,
  addressInUseKey,
  planAssertion,
} from './plan-assertion.ts';
import { release } from './release.ts';

/** The pods of the node in its kernel. */
export interface LinkedPorts {
  /** `<containerId>/<ifName>` of every pod link the kernel has. */
  readonly listAttached: () => ReadonlySet<string>;
  /** The addresses of this address manager that the kernel routes to links of the node's pods. */
  readonly listAddressesInUse: () => Promise<readonly AddressInUse[]>;
}

export interface AssertLivingPorts extends RetryPorts, Pick<LinkedPorts, 'listAddressesInUse'> {
  readonly store: AllocationStore;
  readonly log: Log;
}

export interface AssertLivingRequest {
  readonly node: NodeName;
  /** Returns what to record for the addresses that this node remembers, by `addressInUseKey`. */
  readonly known: () => ReadonlyMap<string, Allocation>;
  /** Returns `addressInUseKey` of the addresses that a pending write records. Like `known`, called after the links are listed. */
  readonly pending: () => ReadonlySet<string>;
}

export interface AssertedAddresses {
  readonly asserted: readonly AddressInUse[];
  readonly conflicts: readonly AddressConflict[];
}

/** The most plans that may lose to concurrent writers of the same blocks. */
const ATTEMPTS = 16;

/**
 * Records in the datastore every address that a pod link of this node uses and that the datastore has lost, as after
 * a backup was restored. Reports addresses that another attachment holds by now and leaves them unchanged.
 * @throws store/*
 */
export async function restoreUsedAddresses(
  ports: AssertLivingPorts,
  { node, ...request }: AssertLivingRequest,
  signal: AbortSignal,
): Promise<AssertedAddresses> {
  const { store } = ports;
  const asserted: AddressInUse[] = [];
  for (let attempt = 0; ; attempt += 1) {
    await backOffConflict(ports, attempt, signal);
    // Links before blocks: an address is recorded before its link is made.
    const living = await ports.listAddressesInUse();
    if (living.length === 0) return finish(ports, { node, asserted, conflicts: [] }, signal);
    const [known, pending] = [request.known(), request.pending()];
    const view = await store.readNodeView(node, undefined, signal);
    const pools = decodePools(view.pools);
    const { missing, conflicts } = findUnrecorded(view, {
      node,
      pools,
      living,
      isPending: (each) => pending.has(addressInUseKey(each)),
    });
    if (missing.length === 0) return finish(ports, { node, asserted, conflicts }, signal);
    const endpoints = await endpointsOf(store, node, signal);
    const claims = await store.listClaims(
      missing.map(({ address }) => hostCidr(address)),
      signal,
    );
    const blocks = await store.getBlocks(
      claims.map(({ cidr }) => cidr),
      signal,
    );
    const allocationOf = (each: AddressInUse): Allocation =>
      known.get(addressInUseKey(each)) ??
      newAllocation(ports, { node, living: each, endpoint: endpoints.get(interfaceKey(each.owner)) });
    const plan = planAssertion(missing, { node, pools, blocks, allocationOf });
    let isWritten = true;
    for (const { change, recorded } of plan.writes) {
      isWritten &&= (await store.commit([change], signal)) === 'committed';
      if (isWritten) asserted.push(...recorded);
    }
    if (isWritten) return finish(ports, { node, asserted, conflicts: [...conflicts, ...plan.conflicts] }, signal);
    if (attempt === ATTEMPTS) throw overtaken(node);
  }
}

async function finish(
  ports: AssertLivingPorts,
  { node, asserted, conflicts }: AssertedAddresses & { readonly node: NodeName },
  signal: AbortSignal,
): Promise<AssertedAddresses> {
  await releaseEnded(ports, { node, asserted }, signal);
  const { log } = ports;
  for (const { address, owner } of asserted)
    log.warning('address restored', { address: formatAddress(address), ...owner });
  for (const { address, owner, holder } of conflicts) {
    log.error('address conflict found', {
      address: formatAddress(address),
      ...owner,
      holderNode: holder.node,
      holder: holder.pod === undefined ? holder.handle : `${holder.namespace ?? ''}/${holder.pod}`,
    });
  }
  return { asserted, conflicts };
}

/** An error, because the node must not assign addresses before every address in use is recorded. */
function overtaken(node: NodeName): NetplugError {
  return new NetplugError(
    'store/conflict',
    `Cannot record what pods of node "${node}" use: ${String(ATTEMPTS)} tries lost to other writers`,
    { hint: 'Run "netplugctl ipam check"; it finds damaged blocks and claims without a block' },
  );
}

/** Releases recorded addresses whose link is gone since: the DEL of their pod ran before they were recorded. */
async function releaseEnded(
  ports: AssertLivingPorts,
  { node, asserted }: { readonly node: NodeName; readonly asserted: readonly AddressInUse[] },
  signal: AbortSignal,
): Promise<void> {
  if (asserted.length === 0) return;
  const living = new Set((await ports.listAddressesInUse()).map(addressInUseKey));
  const ended = new Set(
    asserted.filter((each) => !living.has(addressInUseKey(each))).map(({ owner }) => interfaceKey(owner)),
  );
  if (ended.size === 0) return;
  await release(ports, { node, which: (allocation) => ended.has(interfaceKey(allocation)) }, signal);
}

async function endpointsOf(
  store: AllocationStore,
  node: NodeName,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, WorkloadEndpoint>> {
  const { endpoints } = await store.listEndpoints(node, signal);
  return new Map(endpoints.map(({ value }) => [interfaceKey(attachmentOf(value)), value]));
}

function newAllocation(
  { clock, random }: RetryPorts,
  {
    node,
    living: { owner },
    endpoint,
  }: { readonly node: NodeName; readonly living: AddressInUse; readonly endpoint: WorkloadEndpoint | undefined },
): Allocation {
  const { pod, podUID: podUid } = endpoint?.spec ?? {};
  const namespace = endpoint?.metadata.namespace;
  return {
    id: random.id(),
    handle: handleOf(owner),
    node,
    network: owner.network,
    containerId: owner.containerId,
    ifName: owner.ifName,
    ...(pod === undefined || namespace === undefined ? {} : { namespace, pod }),
    ...(podUid === undefined ? {} : { podUid }),
    at: new Date(clock.now()).toISOString(),
    chosenBy: 'living-link',
  };
}
