import { forEachLimit } from '../../base/for-each-limit.ts';
import type { AllocationStore } from '../../datastore/allocation-store.ts';
import type { ResourceStore } from '../../datastore/resource-store.ts';
import { CLUSTER_INFORMATION_ID, isLocked } from '../../model/cluster-information.ts';
import { heldAddresses, type HeldAddress, type IpBlock } from '../../model/ip-block.ts';
import type { NodeName } from '../../model/names.ts';
import { isTunnelAddress } from '../../model/tunnel-attachment.ts';
import type { WorkloadEndpoint } from '../../model/workload-endpoint.ts';
import { lockedError } from '../locked.ts';
import type { Retired } from '../plan-retirement.ts';
import { retireIdleNode } from '../retire-node.ts';
import { fateOf, type Fate, isAskedFor } from './fate.ts';
import { LeakCandidates } from './leak-candidates.ts';
import { isHeldBy, type PodPresence } from './pod-presence.ts';
import { REQUESTS, findHolderPods, type ReleasedUnused, type ReleaserPorts, releaseUnused } from './release-unused.ts';
import { activityOf, findSuspects, isJudged } from './suspects.ts';
import type { CachedView, NodeStanding } from './views.ts';

export type CollectorPorts = Omit<ReleaserPorts, 'store'> & {
  readonly store: AllocationStore & Pick<ResourceStore, 'findResource'>;
  readonly cached: CachedView;
  /** Called with what was released of one node, as it happens: without a grace period, or after it. */
  readonly onReleased: (released: readonly HeldAddress[], fate: ReleasedFate, signal: AbortSignal) => Promise<void>;
};

export type ReleasedFate = Exclude<Fate, 'kept'>;

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
  /** Nodes that are gone and hold nothing any more, with what was given back of each. */
  readonly retired: ReadonlyMap<NodeName, Retired>;
  /**
   * Addresses with a holder that the orchestrator does not know, on nodes that are gone or of which it is not known that it ever
   * had them. They are never released.
   */
  readonly unknown: readonly HeldAddress[];
  /** Reasons why nothing, or not everything, was judged. */
  readonly problems: readonly string[];
  /** Why addresses of nodes could not be released, one for each node. Those of the others were. */
  readonly failures: readonly unknown[];
}

const NOTHING: CollectedGarbage = {
  candidates: [],
  found: [],
  retired: new Map(),
  unknown: [],
  problems: [],
  failures: [],
};
/** Passes that come later than this leave open what was the case in between. */
const GAP_PERIODS = 3;
/** What may have become of an address that is released. One that has waited may have become due at once meanwhile. */
const FATES: Readonly<Record<ReleasedFate, readonly Fate[]>> = {
  'at-once': ['at-once'],
  'after-grace': ['after-grace', 'at-once'],
};

/**
 * Releases addresses of pods, tunnel devices and nodes that are gone for certain: the cached view and the API itself have said
 * so in every pass for the whole grace period, the node is gone or out of service, and the API says so again directly before.
 * An address that was asked for does not wait for the grace period where the node is out of service.
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

  /** Does nothing while the datastore is locked. A call that fails before the releases ends the pass. @throws store/* */
  async pass(signal: AbortSignal): Promise<CollectedGarbage> {
    const { store, cached, clock } = this.#ports;
    const { graceMs, periodMs } = this.#settings;
    const cluster = await store.findResource(CLUSTER_INFORMATION_ID, signal);
    if (isLocked(cluster)) return { ...NOTHING, problems: ['the datastore is locked for maintenance'] };
    const { blocks: stored, problems } = await store.listBlocks(signal);
    const blocks = stored.map(({ value }) => value);
    const suspects = findSuspects(blocks, cached);
    const standings = await this.#standings(new Set([...suspects.addresses.keys(), ...suspects.nodes]), signal);
    const fates = await this.#fatesOf(suspects.addresses, standings, signal);
    const leaked = fates.get('after-grace') ?? [];
    const gone = [...suspects.nodes].filter((node) => standings.get(node) === 'gone');
    const activities = new Map(gone.map((node) => [node, activityOf(node, blocks)]));

    const nowMs = clock.monotonic();
    const keys = [...leaked.map(({ allocation }) => allocation.id), ...activities.values()];
    const fresh = this.#candidates.observe(keys, { nowMs, gapMs: GAP_PERIODS * periodMs });
    const isDue = (key: string): boolean => this.#candidates.isDue(key, { nowMs, graceMs });
    const due = leaked.filter(({ allocation }) => isDue(allocation.id));
    const atOnce = await this.#release(fates.get('at-once') ?? [], 'at-once', signal);
    const { released, failures } = await this.#release(due, 'after-grace', signal);
    const done = new Set(released.map(({ allocation }) => allocation.id));
    return {
      candidates: leaked.filter(({ allocation }) => !done.has(allocation.id)),
      found: leaked.filter(({ allocation }) => fresh.has(allocation.id)),
      retired: await this.#retire(
        // A record that cannot be decoded may be of any of them.
        problems.length > 0 ? [] : gone.filter((node) => isDue(activities.get(node) ?? '')),
        signal,
      ),
      unknown: [...unknownOn(new Set(gone), blocks), ...ofForeignNodes(suspects.addresses, standings)],
      problems,
      failures: [...atOnce.failures, ...failures],
    };
  }

  /**
   * Releases what pods asked for that are gone, of a node that is out of service. Reads the blocks of the node alone.
   * @throws store/*
   */
  async releaseAskedFor(node: NodeName, signal: AbortSignal): Promise<void> {
    const { store, cached } = this.#ports;
    if (isLocked(await store.findResource(CLUSTER_INFORMATION_ID, signal)))
      throw lockedError('release an address', node);
    const { owned, borrowed } = await store.readNodeView(node, undefined, signal);
    const { addresses } = findSuspects(
      [...owned, ...borrowed].map(({ value }) => value),
      cached,
    );
    const asked = (addresses.get(node) ?? []).filter(({ allocation }) => isAskedFor(allocation));
    const { failures } = await this.#release(asked, 'at-once', signal);
    if (failures.length > 0) throw failures[0];
  }

  async #release(held: readonly HeldAddress[], fate: ReleasedFate, signal: AbortSignal): Promise<ReleasedUnused> {
    const onReleased = async (released: readonly HeldAddress[]): Promise<void> =>
      this.#ports.onReleased(released, fate, signal);
    return releaseUnused(this.#ports, { held, fates: FATES[fate], onReleased }, signal);
  }

  async #standings(nodes: ReadonlySet<NodeName>, signal: AbortSignal): Promise<ReadonlyMap<NodeName, NodeStanding>> {
    const standings = new Map<NodeName, NodeStanding>();
    await forEachLimit([...nodes], REQUESTS, async (node) => {
      standings.set(node, await this.#ports.live.standingOf(node, signal));
    });
    return standings;
  }

  /** Returns the suspects by what becomes of them, as the API says now. Those that are kept anyway it is not asked about. */
  async #fatesOf(
    suspects: ReadonlyMap<NodeName, readonly HeldAddress[]>,
    standings: ReadonlyMap<NodeName, NodeStanding>,
    signal: AbortSignal,
  ): Promise<ReadonlyMap<Fate, readonly HeldAddress[]>> {
    const fateBy = ({ allocation }: HeldAddress, pods: ReadonlyMap<string, PodPresence>): Fate =>
      fateOf(allocation, { standing: standings.get(allocation.node) ?? 'present', pod: pods.get(allocation.id) });
    const asked = [...suspects.values()].flat().filter((held) => fateBy(held, new Map()) !== 'kept');
    const pods = await findHolderPods(this.#ports.live, asked, signal);
    return Map.groupBy(asked, (held) => fateBy(held, pods));
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
