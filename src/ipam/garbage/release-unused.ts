import { forEachLimit } from '../../base/for-each-limit.ts';
import type { AllocationStore } from '../../datastore/allocation-store.ts';
import type { Allocation, HeldAddress } from '../../model/ip-block.ts';
import type { NodeName } from '../../model/names.ts';
import { isTunnelAddress } from '../../model/tunnel-attachment.ts';
import { isEndpointOf } from '../../model/workload-endpoint.ts';
import type { IpamPorts } from '../assign.ts';
import { release } from '../release.ts';
import { type Fate, fateOf } from './fate.ts';
import type { PodPresence } from './pod-presence.ts';
import type { LiveView } from './views.ts';

/** Number of requests to the orchestrator's API that are on their way at once. */
export const REQUESTS = 16;

export type ReleaserPorts = Omit<IpamPorts, 'store'> & { readonly store: AllocationStore; readonly live: LiveView };

export interface UnusedRequest {
  readonly held: readonly HeldAddress[];
  /** What may become of the addresses that are released. */
  readonly fates: readonly Fate[];
  /** Called with what was released of one node, before the next one is looked at. */
  readonly onReleased: (released: readonly HeldAddress[]) => Promise<void>;
}

export interface ReleasedUnused {
  readonly released: readonly HeldAddress[];
  /** Why nodes could not be looked at, one each. The others were. */
  readonly failures: readonly unknown[];
}

/**
 * Asks the API once more, and releases those of the held addresses whose fate now is one of `fates`, node by node. The pods are
 * asked for first: one that is gone stays so, and so both were true when the API told of the node.
 * @throws the signal's reason
 */
export async function releaseUnused(
  ports: ReleaserPorts,
  { held, fates, onReleased }: UnusedRequest,
  signal: AbortSignal,
): Promise<ReleasedUnused> {
  const released: HeldAddress[] = [];
  const failures: unknown[] = [];
  for (const ofNode of Map.groupBy(held, ({ allocation }) => allocation.node).values()) {
    try {
      const freed = await releaseOfNode(ports, { held: ofNode, fates }, signal);
      released.push(...freed);
      if (freed.length > 0) await onReleased(freed);
    } catch (cause) {
      signal.throwIfAborted();
      failures.push(cause);
    }
  }
  return { released, failures };
}

async function releaseOfNode(
  ports: ReleaserPorts,
  { held, fates }: Pick<UnusedRequest, 'held' | 'fates'>,
  signal: AbortSignal,
): Promise<readonly HeldAddress[]> {
  const [first] = held;
  if (first === undefined) return [];
  const { node } = first.allocation;
  const pods = await findHolderPods(ports.live, held, signal);
  const standing = await ports.live.standingOf(node, signal);
  const unused = held.filter(({ allocation }) =>
    fates.includes(fateOf(allocation, { standing, pod: pods.get(allocation.id) })),
  );
  if (unused.length === 0) return [];
  await deleteEndpoints(ports, { node, held: unused }, signal);
  // An agent that records an address again, as found in use, may keep its id.
  const wishes = new Map(unused.map(({ allocation }) => [allocation.id, allocation.chosenBy]));
  const freed = await release(ports, { node, which: ({ id, chosenBy }) => wishes.get(id) === chosenBy }, signal);
  const gone = new Set(freed.map(({ id }) => id));
  return unused.filter(({ allocation }) => gone.has(allocation.id));
}

/** Returns the pods that the API has now under the names of the holders, by the id of the allocation. @throws store/* */
export async function findHolderPods(
  live: LiveView,
  held: readonly HeldAddress[],
  signal: AbortSignal,
): Promise<ReadonlyMap<string, PodPresence>> {
  const pods = new Map<string, PodPresence>();
  const ofPods = held.map(({ allocation }) => allocation).filter((each: Allocation) => !isTunnelAddress(each));
  await forEachLimit(ofPods, REQUESTS, async ({ id, namespace = '', pod = '' }) => {
    const found = await live.findPod(namespace, pod, signal);
    if (found !== undefined) pods.set(id, found);
  });
  return pods;
}

/** Before the addresses, because these may be assigned to another attachment as soon as they are free. */
async function deleteEndpoints(
  { store }: ReleaserPorts,
  { node, held }: { readonly node: NodeName; readonly held: readonly HeldAddress[] },
  signal: AbortSignal,
): Promise<void> {
  const { endpoints } = await store.listEndpoints(node, signal);
  for (const before of endpoints)
    if (held.some(({ allocation }) => isEndpointOf(before.value, allocation)))
      await store.commit([{ kind: 'delete-endpoint', before }], signal);
}
