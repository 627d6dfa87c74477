import { forEachLimit } from '../../base/for-each-limit.ts';
import type { AllocationStore } from '../../datastore/allocation-store.ts';
import type { ResourceStore } from '../../datastore/resource-store.ts';
import { CLUSTER_INFORMATION_ID, isLocked } from '../../model/cluster-information.ts';
import { type Allocation, heldAddresses, type HeldAddress, type IpBlock } from '../../model/ip-block.ts';
import type { NodeName } from '../../model/names.ts';
import { isStaticPodUid } from '../../model/pod.ts';
import { isTunnelAddress } from '../../model/tunnel-attachment.ts';
import { isEndpointOf, type WorkloadEndpoint } from '../../model/workload-endpoint.ts';
import type { IpamPorts } from '../assign.ts';
import type { Retired } from '../plan-retirement.ts';
import { release } from '../release.ts';
import { retireIdleNode } from '../retire-node.ts';
import { LeakCandidates } from './leak-candidates.ts';
import { isHeldBy } from './pod-presence.ts';
import { activityOf, findSuspects, isJudged } from './suspects.ts';
import type { CachedView, LiveView, NodeStanding } from './views.ts';

export type CollectorPorts = Omit<IpamPorts, 'store'> & {
  readonly store: AllocationStore & Pick<ResourceStore, 'findResource'>;
  readonly cached: CachedView;
  readonly live: LiveView;
};

export interface CollectorSettings {
  /** For how long an address must have been without a user, and a node gone, before it is released. In milliseconds. */
  readonly graceMs: number;
  /** The time between passes, in milliseconds. */
  readonly periodMs: number;
}

/** Result of one pass. */
export interface CollectedGarbage {
  /** Addresses that will be released unless their user comes back. */
  readonly candidates: readonly HeldAddress[];
  /** Held addresses among them that this pass found. */
  readonly found: readonly HeldAddress[];
  readonly released: readonly HeldAddress[];
  /** Nodes that are gone and hold nothing any more, with what was given back of each. */
  readonly retired: ReadonlyMap<NodeName, Retired>;
  /**
   * Addresses with a holder that the orchestrator does not know, on nodes that are gone or of which it is not known that it ever
   * had them. They are never released.
   */
  readonly unknown: readonly HeldAddress[];
  /** Reasons why nothing, or not everything, was judged. */
  readonly problems: readonly string[];
}

const NOTHING: CollectedGarbage = {
  candidates: [],
  found: [],
  released: [],
  retired: new Map(),
  unknown: [],
  problems: [],
};
/** Passes that come later than this leave open what was the case in between. */
const GAP_PERIODS = 3;
/** Number of requests to the orchestrator's API that are on their way at once. */
const AT_ONCE = 16;

/**
 * Releases addresses of pods, tunnel devices and nodes that are gone for certain: the cached view and the API itself have said
 * so in every pass for the whole grace period, the node is gone or out of service, and the API says so again directly before.
 * Of a node that is there, only its own agent knows which attachments have ended. Releases by allocation id, so that a newer
 * holder of the address keeps it.
 */
export class GarbageCollector {
  readonly #ports: CollectorPorts;
  readonly #settings: CollectorSettings;
  readonly #candidates = new LeakCandidates();

  constructor(ports: CollectorPorts, settings: CollectorSettings) {
    this.#ports = ports;
    this.#settings = settings;
  }

  /** Does nothing while the datastore is locked. A failed call ends the pass. @throws store/* */
  async pass(signal: AbortSignal): Promise<CollectedGarbage> {
    const { store, cached, clock } = this.#ports;
    const { graceMs, periodMs } = this.#settings;
    const cluster = await store.findResource(CLUSTER_INFORMATION_ID, signal);
    if (isLocked(cluster)) return { ...NOTHING, problems: ['the datastore is locked for maintenance'] };
    const { blocks: stored, problems } = await store.listBlocks(signal);
    const blocks = stored.map(({ value }) => value);
    const suspects = findSuspects(blocks, cached);
    const standings = await this.#standings(new Set([...suspects.addresses.keys(), ...suspects.nodes]), signal);
    const leaked = await this.#withoutUser(suspects.addresses, standings, signal);
    const gone = [...suspects.nodes].filter((node) => standings.get(node) === 'gone');
    const activities = new Map(gone.map((node) => [node, activityOf(node, blocks)]));

    const nowMs = clock.monotonic();
    const keys = [...leaked.map(({ allocation }) => allocation.id), ...activities.values()];
    const fresh = this.#candidates.observe(keys, { nowMs, gapMs: GAP_PERIODS * periodMs });
    const isDue = (key: string): boolean => this.#candidates.isDue(key, { nowMs, graceMs });
    const due = leaked.filter(({ allocation }) => isDue(allocation.id));
    const released = await this.#release(due, signal);
    const done = new Set(released.map(({ allocation }) => allocation.id));
    return {
      candidates: leaked.filter(({ allocation }) => !done.has(allocation.id)),
      found: leaked.filter(({ allocation }) => fresh.has(allocation.id)),
      released,
      retired: await this.#retire(
        // A record that cannot be decoded may be of any of them.
        problems.length > 0 ? [] : gone.filter((node) => isDue(activities.get(node) ?? '')),
        signal,
      ),
      unknown: [...unknownOn(new Set(gone), blocks), ...ofForeignNodes(suspects.addresses, standings)],
      problems,
    };
  }

  async #standings(nodes: ReadonlySet<NodeName>, signal: AbortSignal): Promise<ReadonlyMap<NodeName, NodeStanding>> {
    const standings = new Map<NodeName, NodeStanding>();
    await forEachLimit([...nodes], AT_ONCE, async (node) => {
      standings.set(node, await this.#ports.live.standingOf(node, signal));
    });
    return standings;
  }

  /** Returns the addresses of which the API says, now, that they have no user. */
  async #withoutUser(
    suspects: ReadonlyMap<NodeName, readonly HeldAddress[]>,
    standings: ReadonlyMap<NodeName, NodeStanding>,
    signal: AbortSignal,
  ): Promise<readonly HeldAddress[]> {
    const { live } = this.#ports;
    const asked = [...suspects].flatMap(([node, held]) =>
      held.filter(({ allocation }) => canHaveLeaked(standings.get(node), allocation)),
    );
    const used = new Set<string>();
    await forEachLimit(asked, AT_ONCE, async ({ allocation }) => {
      if (isTunnelAddress(allocation)) return;
      const { id, namespace = '', pod = '' } = allocation;
      if (isHeldBy(await live.findPod(namespace, pod, signal), allocation)) used.add(id);
    });
    return asked.filter(({ allocation }) => !used.has(allocation.id));
  }

  /** Asks the API once more for each, and releases those that still have no user, node by node. */
  async #release(due: readonly HeldAddress[], signal: AbortSignal): Promise<readonly HeldAddress[]> {
    const released: HeldAddress[] = [];
    for (const [node, held] of Map.groupBy(due, ({ allocation }) => allocation.node)) {
      const standings = new Map([[node, await this.#ports.live.standingOf(node, signal)]]);
      const confirmed = await this.#withoutUser(new Map([[node, held]]), standings, signal);
      if (confirmed.length === 0) continue;
      await this.#deleteEndpoints(node, confirmed, signal);
      const ids = new Set(confirmed.map(({ allocation }) => allocation.id));
      const freed = await release(this.#ports, { node, which: ({ id }) => ids.has(id) }, signal);
      const gone = new Set(freed.map(({ id }) => id));
      released.push(...confirmed.filter(({ allocation }) => gone.has(allocation.id)));
    }
    return released;
  }

  /** Before the addresses, because these may be assigned to another attachment as soon as they are free. */
  async #deleteEndpoints(node: NodeName, held: readonly HeldAddress[], signal: AbortSignal): Promise<void> {
    const { store } = this.#ports;
    const { endpoints } = await store.listEndpoints(node, signal);
    for (const before of endpoints)
      if (held.some(({ allocation }) => isEndpointOf(before.value, allocation)))
        await store.commit([{ kind: 'delete-endpoint', before }], signal);
  }

  async #retire(nodes: readonly NodeName[], signal: AbortSignal): Promise<ReadonlyMap<NodeName, Retired>> {
    const { live, store } = this.#ports;
    const all = new Map<NodeName, Retired>();
    for (const node of nodes) {
      if ((await live.standingOf(node, signal)) !== 'gone') continue;
      const retired = await retireIdleNode(
        store,
        { node, isInUse: async (each) => this.#isInUse(each, signal) },
        signal,
      );
      if (retired !== undefined) all.set(node, retired);
    }
    return all;
  }

  /** An endpoint without a pod is none of the orchestrator's: it counts as used. */
  async #isInUse({ metadata, spec }: WorkloadEndpoint, signal: AbortSignal): Promise<boolean> {
    if (spec.pod === undefined) return true;
    const pod = await this.#ports.live.findPod(metadata.namespace ?? 'default', spec.pod, signal);
    return isHeldBy(pod, { podUid: spec.podUID, node: spec.node });
  }
}

/**
 * The address of a tunnel device leaks only with its node, which changes it itself otherwise. That of a static pod as well: the
 * API need not know a pod that a kubelet runs.
 */
function canHaveLeaked(standing: NodeStanding | undefined, allocation: Allocation): boolean {
  const isOfNode = isTunnelAddress(allocation) || isStaticPodUid(allocation.podUid);
  return standing === 'gone' || (standing === 'out-of-service' && !isOfNode);
}

/** Pods that the orchestrator has not, on nodes of which it is not known that it ever had them. */
function ofForeignNodes(
  suspects: ReadonlyMap<NodeName, readonly HeldAddress[]>,
  standings: ReadonlyMap<NodeName, NodeStanding>,
): readonly HeldAddress[] {
  return [...suspects].flatMap(([node, held]) =>
    standings.get(node) === 'foreign' ? held.filter(({ allocation }) => !isTunnelAddress(allocation)) : [],
  );
}

function unknownOn(gone: ReadonlySet<NodeName>, blocks: readonly IpBlock[]): readonly HeldAddress[] {
  return blocks.flatMap((block) =>
    heldAddresses(block, (allocation) => gone.has(allocation.node) && !isJudged(allocation)),
  );
}
