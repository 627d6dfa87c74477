import type { Clock } from '../../../../base/clock.ts';
import { NetplugError } from '../../../../base/errors.ts';
import type { Log } from '../../../../base/log.ts';
import { type HostChange, type HostEvent, type HostNetwork, type Refused } from '../../../../dataplane/host-network.ts';
import { findOverlap, type UsedRange } from '../../../../model/used-range.ts';
import { describeRefused, type DesiredNetwork, type RefusedBlock } from '../../../../routing/desired-network.ts';
import type { Touched } from '../../../../routing/membership.ts';
import type { OwnNetwork } from '../../../../routing/plan-hops.ts';
import { isDrift, diffTables, tablesOf } from '../../../../routing/diff-tables.ts';
import { TUNNELS } from '../../../../routing/tunnels.ts';

/** Interval at which to compare all routes and peers without an event that indicates drift. */
const COMPARE_MS = 600_000;

interface RoutePorts {
  readonly host: HostNetwork;
  readonly log: Log;
  readonly clock: Clock;
}

/** The numbers of changes sent to the kernel and of full comparisons with it. */
export interface RouteCounts {
  readonly changes: number;
  readonly comparisons: number;
}

/**
 * Reconciles the kernel's routes and tunnel peers with the desired ones. Applies changes one by one, and compares everything at
 * the start, after the kernel refused a change, and after drift.
 */
export class RouteReconciler {
  readonly #host: HostNetwork;
  readonly #log: Log;
  readonly #clock: Clock;
  readonly #desired: DesiredNetwork;
  readonly #onDue: () => void;
  #pending: HostChange[] = [];
  #isCompared = false;
  #refusedBlocks: readonly RefusedBlock[] = [];
  #problems: readonly string[] = [];
  #changes = 0;
  #comparisons = 0;
  #comparedAtMs = Number.NEGATIVE_INFINITY;

  /** Calls `onDue` when `reconcile` has work to do. */
  constructor({ host, log, clock }: RoutePorts, desired: DesiredNetwork, onDue: () => void) {
    this.#host = host;
    this.#log = log;
    this.#clock = clock;
    this.#desired = desired;
    this.#onDue = onDue;
  }

  /** Returns the blocks to which no route leads, as sentences. */
  get problems(): readonly string[] {
    return this.#problems;
  }

  get counts(): RouteCounts {
    return { changes: this.#changes, comparisons: this.#comparisons };
  }

  /** Replans what a change of the cluster affects. */
  replan(touched: Touched): void {
    this.#add(this.#desired.replan(touched));
  }

  /** Replans for the addresses and tunnels of this node. */
  setOwnNetwork(own: OwnNetwork): void {
    this.#add(this.#desired.setOwnNetwork(own));
  }

  /**
   * Replans for the ranges over which no route may lead, and deletes at once the routes of an earlier process that do. Reports
   * whether the ranges have changed.
   */
  async protect(ranges: readonly UsedRange[], signal: AbortSignal): Promise<boolean> {
    const before = this.#desired.protectedRanges;
    this.#add(this.#desired.setProtected(ranges));
    if (!this.#isCompared) await this.#deleteOver(ranges, signal);
    return this.#desired.protectedRanges !== before;
  }

  async #deleteOver(ranges: readonly UsedRange[], signal: AbortSignal): Promise<void> {
    const over = (await this.#host.listRoutes()).filter(({ destination }) => findOverlap(destination, ranges));
    const changes = over.map((route): HostChange => ({ kind: 'delete-route', route }));
    if (changes.length > 0) await this.#host.change(changes, signal);
  }

  /** Makes the next reconcile compare everything. */
  requireComparison(): void {
    this.#isCompared = false;
  }

  /** Reports whether the event indicates drift, which requires a comparison. */
  handleHostEvent(event: HostEvent): boolean {
    const isForeign = isDrift(event, this.#desired);
    if (isForeign) this.requireComparison();
    return isForeign;
  }

  /** Applies pending changes, or compares everything. @throws kernel/failed when the kernel refuses changes; it applies the rest */
  async reconcile(signal: AbortSignal): Promise<void> {
    if (this.#clock.monotonic() - this.#comparedAtMs >= COMPARE_MS) this.requireComparison();
    const changes = this.#isCompared ? this.#takePending() : await this.#compare();
    if (changes.length === 0) return;
    const refused = await this.#host.change(changes, signal).catch((cause: unknown) => {
      // Some of them may have been applied.
      this.requireComparison();
      throw cause;
    });
    this.#changes += changes.length;
    this.#log.debug('routes changed', { changes: changes.length, refused: refused.length });
    const [first] = refused;
    if (first === undefined) return;
    this.requireComparison();
    throw refusal(first, refused.length);
  }

  /** Changes that arrive during the comparison stay pending. */
  async #compare(): Promise<readonly HostChange[]> {
    this.#comparisons += 1;
    this.#comparedAtMs = this.#clock.monotonic();
    this.#isCompared = true;
    try {
      const devices = [TUNNELS.vxlan4.device, TUNNELS.vxlan6.device];
      const peers = await Promise.all(devices.map(async (device) => this.#host.listPeers(device)));
      const routes = await this.#host.listRoutes();
      const changes = diffTables(this.#desired, tablesOf(routes, peers.flat()));
      this.#pending = [];
      return changes;
    } catch (cause) {
      this.requireComparison();
      throw cause;
    }
  }

  #takePending(): readonly HostChange[] {
    const pending = this.#pending;
    this.#pending = [];
    return pending;
  }

  #add(changes: readonly HostChange[]): void {
    this.#logRefused();
    if (this.#isCompared) for (const change of changes) this.#pending.push(change);
    if (!this.#isCompared || this.#pending.length > 0) this.#onDue();
  }

  #logRefused(): void {
    const { refusedBlocks } = this.#desired;
    if (refusedBlocks === this.#refusedBlocks) return;
    this.#refusedBlocks = refusedBlocks;
    const problems = describeRefused(refusedBlocks);
    for (const reason of problems) if (!this.#problems.includes(reason)) this.#log.error('block refused', { reason });
    this.#problems = problems;
  }
}

function refusal({ change, reason }: Refused, count: number): NetplugError {
  const more = count === 1 ? '' : ` (and ${String(count - 1)} more)`;
  return new NetplugError('kernel/failed', `Cannot ${change.kind.replace('-', ' a ')}: ${reason}${more}`, {
    facts: { refused: count },
  });
}
