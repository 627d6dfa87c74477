import { isDeepStrictEqual } from 'node:util';
import { isNetplugError } from '../../../base/errors.ts';
import type { NodeControllerSettings } from '../../../config/controllers-settings.ts';
import type { FollowedRecord } from '../../../datastore/follow.ts';
import { compareText } from '../../../datastore/order.ts';
import { clusterRanges, type NodeRanges, overlapsOfPools, rangesOfNode } from '../../../model/cluster-ranges.ts';
import { markOf, overlapMessage, overlapStatus } from '../../../model/ip-pool-status.ts';
import type { IpPool } from '../../../model/ip-pool.ts';
import type { Controller, ControllerPorts, RunningController } from '../controller.ts';
import { type Feed, type Observed, type ObservedChange, resourcesOfFeed } from '../observed.ts';
import { FollowedServiceRanges } from './followed-service-ranges.ts';
import { NODE_RECORDS, ORCHESTRATOR_NODES } from './node-controller.ts';
import { POOL_RECORDS } from './pool-controller.ts';

const NAME = 'node-pool-marks';

/** Marks the pools that overlap what nodes, Services or an older pool use, and removes the mark when that has gone. */
export function poolMarkController({ nodeRecords }: NodeControllerSettings): Controller {
  // On etcd a kubelet tells addresses before the agent has published any.
  const nodeFeeds = nodeRecords === 'own' ? [NODE_RECORDS, ORCHESTRATOR_NODES] : [NODE_RECORDS];
  return {
    name: NAME,
    feeds: [POOL_RECORDS, ...nodeFeeds],
    start: (ports, observed) => new MarkRun(ports, { observed, nodeFeeds }),
  };
}

class MarkRun implements RunningController {
  readonly #ports: ControllerPorts;
  readonly #observed: Observed;
  readonly #nodeFeeds: readonly Feed[];
  readonly #services: FollowedServiceRanges;
  #isDue = false;

  constructor(
    ports: ControllerPorts,
    { observed, nodeFeeds }: { readonly observed: Observed; readonly nodeFeeds: readonly Feed[] },
  ) {
    this.#ports = ports;
    this.#observed = observed;
    this.#nodeFeeds = nodeFeeds;
    this.#services = new FollowedServiceRanges(ports);
  }

  /** Most changes of nodes are heartbeats of kubelets, which say nothing new about addresses. */
  note(changes: readonly ObservedChange[]): boolean {
    this.#isDue ||= changes.some(({ before, after }) => !isDeepStrictEqual(judgedPart(before), judgedPart(after)));
    return this.#isDue;
  }

  async follow(trigger: () => void, signal: AbortSignal): Promise<void> {
    await this.#services.follow(() => {
      this.#isDue = true;
      trigger();
    }, signal);
  }

  async reconcile(_: { readonly isFull: boolean }, signal: AbortSignal): Promise<void> {
    this.#isDue = false;
    const { metrics } = this.#ports;
    const pools = resourcesOfFeed(this.#observed, POOL_RECORDS, 'IPPool');
    const overlaps = overlapsOfPools(
      pools,
      clusterRanges({ nodes: this.#nodes(), serviceCidrs: await this.#services.current(signal) }),
    );
    metrics.setProblems(
      NAME,
      pools.filter(({ metadata, spec }) => overlaps.has(metadata.name) && !spec.disabled).length,
    );
    try {
      for (const pool of pools) await this.#mark(pool, overlaps.get(pool.metadata.name), signal);
    } catch (cause) {
      this.#isDue = true;
      throw cause;
    }
  }

  /** Ordered, so that a pool that overlaps several nodes names the same one in every run. */
  #nodes(): readonly NodeRanges[] {
    return this.#nodeFeeds
      .flatMap((feed) => resourcesOfFeed(this.#observed, feed, 'Node').map(rangesOfNode))
      .toSorted((a, b) => compareText(a.name, b.name));
  }

  async #mark(pool: IpPool, what: string | undefined, signal: AbortSignal): Promise<void> {
    const { name, resourceVersion = '' } = pool.metadata;
    const { store, clock, log, metrics, confirmCluster, confirmUnlocked } = this.#ports;
    const message = what === undefined ? undefined : overlapMessage(what);
    if (markOf(pool.status)?.message === message) return;
    // A node that cannot be read may be the one that the pool overlaps.
    if (what === undefined && this.#hasUnreadableNode()) return;
    if (what === undefined) await confirmCluster(signal);
    await confirmUnlocked(signal);
    const status = what === undefined ? undefined : overlapStatus(what, new Date(clock.now()).toISOString());
    try {
      await store.setPoolStatus({ name, resourceVersion }, status, signal);
    } catch (cause) {
      // The watch brings the pool as it is now.
      if (isNetplugError(cause, 'resource/changed', 'resource/not-found')) return;
      throw cause;
    }
    metrics.countChange(NAME, 'update');
    if (what === undefined) log.info('pool mark removed', { pool: name });
    else log.warning('pool marked', { pool: name, cidr: pool.spec.cidr, overlaps: what });
  }

  #hasUnreadableNode(): boolean {
    return this.#nodeFeeds.some((feed) =>
      [...this.#observed.all(feed)].some(([, record]) => record.value === undefined),
    );
  }
}

/** Returns the part of a record on which marks depend. */
function judgedPart(record: FollowedRecord | undefined): unknown {
  if (record?.kind !== 'resource') return undefined;
  return record.value?.kind === 'Node' ? rangesOfNode(record.value) : record;
}
