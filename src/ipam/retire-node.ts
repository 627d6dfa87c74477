import type { AllocationStore } from '../datastore/allocation-store.ts';
import { NetplugError } from '../base/errors.ts';
import { backOffConflict, type RetryPorts } from '../base/back-off.ts';
import type { NodeName } from '../model/names.ts';
import { addRetired, type Holdings, NOTHING_RETIRED, planRetirement, type Retired } from './plan-retirement.ts';

export interface RetirePorts extends RetryPorts {
  readonly store: AllocationStore;
}

export interface Retirement {
  readonly retired: Retired;
  /** Records that could not be decoded: they may be the node's. */
  readonly problems: readonly string[];
}

/** How often the node is read again; a node that still has something new then is not gone. */
const LOOKS = 40;

/** What `retireNode` would do now. */
export async function rehearseRetirement(
  store: AllocationStore,
  node: NodeName,
  signal: AbortSignal,
): Promise<Retirement> {
  const { holdings, problems } = await readHoldings(store, node, signal);
  const retired = planRetirement(holdings).reduce((sum, step) => addRetired(sum, step.retired), NOTHING_RETIRED);
  return { retired, problems };
}

/**
 * Releases every address, block and endpoint of a node that was removed; idempotent. Concurrent writes of other nodes are
 * kept. @throws store/conflict when the node goes on taking addresses
 */
export async function retireNode(ports: RetirePorts, node: NodeName, signal: AbortSignal): Promise<Retirement> {
  const { store } = ports;
  let retired = NOTHING_RETIRED;
  for (let attempt = 0; attempt < LOOKS; attempt += 1) {
    await backOffConflict(ports, attempt, signal);
    const { holdings, problems } = await readHoldings(store, node, signal);
    const steps = planRetirement(holdings);
    if (steps.length === 0) return { retired, problems };
    for (const step of steps) {
      if ((await store.commit(step.changes, signal)) === 'committed') retired = addRetired(retired, step.retired);
    }
  }
  throw new NetplugError('store/conflict', `Cannot retire node "${node}": its blocks or endpoints keep being changed`, {
    hint: 'Make sure that neither netplug-agent nor a runtime is alive on it, then repeat the command',
    facts: { node },
  });
}

async function readHoldings(
  store: AllocationStore,
  node: NodeName,
  signal: AbortSignal,
): Promise<{ readonly holdings: Holdings; readonly problems: readonly string[] }> {
  const { endpoints, problems } = await store.listEndpoints(node, signal);
  const view = await store.readNodeView(node, undefined, signal);
  const { owned, borrowed } = view;
  return { holdings: { node, owned, borrowed, endpoints }, problems: [...view.problems, ...problems] };
}
