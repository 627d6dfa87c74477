import type { AllocationStore } from '../datastore/allocation-store.ts';
import { NetplugError } from '../base/errors.ts';
import { backOffConflict, type RetryPorts } from '../base/back-off.ts';
import { releaseTime } from '../model/cool-down.ts';
import { heldAddresses } from '../model/ip-block.ts';
import type { NodeName } from '../model/names.ts';
import type { WorkloadEndpoint } from '../model/workload-endpoint.ts';
import { addRetired, type Holdings, NOTHING_RETIRED, planRetirement, type Retired } from './plan-retirement.ts';

export interface RetirePorts extends RetryPorts {
  readonly store: AllocationStore;
}

export interface Retirement {
  readonly retired: Retired;
  /** Records that could not be decoded. They may belong to the node. */
  readonly problems: readonly string[];
}

/** Number of times that the node is read again. A node that still gains records after that is not gone. */
const ATTEMPTS = 40;

/** Returns what `retireNode` would remove now, and writes nothing. */
export async function dryRunRetirement(
  store: AllocationStore,
  node: NodeName,
  signal: AbortSignal,
): Promise<Retirement> {
  const { holdings, problems } = await readHoldings(store, node, signal);
  const retired = planRetirement(holdings).reduce((sum, step) => addRetired(sum, step.retired), NOTHING_RETIRED);
  return { retired, problems };
}

/**
 * Releases every address, block and endpoint of a node that was removed. Idempotent; keeps concurrent writes of other
 * nodes. @throws store/conflict when the node keeps assigning addresses
 */
export async function retireNode(ports: RetirePorts, node: NodeName, signal: AbortSignal): Promise<Retirement> {
  const { store } = ports;
  let retired = NOTHING_RETIRED;
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    await backOffConflict(ports, attempt, signal);
    const { holdings, problems } = await readHoldings(store, node, signal);
    const steps = planRetirement(holdings, releaseTime(ports.clock));
    if (steps.length === 0) return { retired, problems };
    for (const step of steps) {
      if ((await store.commit(step.changes, signal)) === 'committed') retired = addRetired(retired, step.retired);
    }
  }
  throw new NetplugError('store/conflict', `Cannot retire node "${node}": its blocks or endpoints keep being changed`, {
    hint: 'Stop netplug-agent and the container runtime on that node, then repeat the command',
    facts: { node },
  });
}

/**
 * Releases the blocks and endpoints of a node that is gone, if it holds no address and no endpoint of it is in use. Returns
 * undefined, and leaves the rest, when something is in use or cannot be decoded, the datastore is locked, or another program
 * writes a record meanwhile.
 */
export async function retireIdleNode(
  store: AllocationStore,
  { node, isInUse }: { readonly node: NodeName; readonly isInUse: (endpoint: WorkloadEndpoint) => Promise<boolean> },
  signal: AbortSignal,
): Promise<Retired | undefined> {
  const { holdings, endpointProblems, isLocked } = await readHoldings(store, node, signal);
  if (isLocked || endpointProblems.length > 0) return undefined;
  const blocks = [...holdings.owned, ...holdings.borrowed];
  if (blocks.some(({ value }) => heldAddresses(value, (held) => held.node === node).length > 0)) return undefined;
  for (const { value } of holdings.endpoints) if (await isInUse(value)) return undefined;
  let retired = NOTHING_RETIRED;
  for (const step of planRetirement(holdings)) {
    if ((await store.commit(step.changes, signal)) === 'conflict') return undefined;
    retired = addRetired(retired, step.retired);
  }
  return retired;
}

async function readHoldings(
  store: AllocationStore,
  node: NodeName,
  signal: AbortSignal,
): Promise<{
  readonly holdings: Holdings;
  readonly problems: readonly string[];
  readonly endpointProblems: readonly string[];
  readonly isLocked: boolean;
}> {
  const { endpoints, problems: endpointProblems } = await store.listEndpoints(node, signal);
  const { owned, borrowed, isLocked, problems } = await store.readNodeView(node, undefined, signal);
  const holdings = { node, owned, borrowed, endpoints };
  return { holdings, problems: [...problems, ...endpointProblems], endpointProblems, isLocked };
}
