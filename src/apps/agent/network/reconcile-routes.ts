import type { Clock } from '../../../base/clock.ts';
import { NetplugError } from '../../../base/errors.ts';
import type { Log } from '../../../base/log.ts';
import { type HostChange, type HostEvent, type HostNetwork, type Refused } from '../../../dataplane/host-network.ts';
import type { DesiredNetwork } from '../../../routing/desired-network.ts';
import type { Touched } from '../../../routing/membership.ts';
import type { OwnNetwork } from '../../../routing/plan-hops.ts';
import { isDrift, diffTables, tablesOf } from '../../../routing/diff-tables.ts';
import { TUNNELS } from '../../../routing/tunnels.ts';

/** Everything is compared so often although nobody had a hand in it, as far as was heard. */
const COMPARE_MS = 600_000;

interface RoutePorts {
  readonly host: HostNetwork;
  readonly log: Log;
  readonly clock: Clock;
}

/** How many changes were asked of the kernel, and how often everything was compared. */
export interface RouteCounts {
  readonly changes: number;
  readonly comparisons: number;
}

/**
 * Makes the kernel's routes and tunnel peers the desired ones: change by change, and by comparing everything at the
 * start, after a refusal and when somebody else had a hand in them.
 */
export class RouteReconciler {
  readonly #host: HostNetwork;
  readonly #log: Log;
  readonly #clock: Clock;
  readonly #desired: DesiredNetwork;
  readonly #onDue: () => void;
  #pending: HostChange[] = [];
  #isCompared = false;
  #changes = 0;
  #comparisons = 0;
  #comparedAtMs = Number.NEGATIVE_INFINITY;

  /** `onDue` is told when there is work to do. */
  constructor({ host, log, clock }: RoutePorts, desired: DesiredNetwork, onDue: () => void) {
    this.#host = host;
    this.#log = log;
    this.#clock = clock;
    this.#desired = desired;
    this.#onDue = onDue;
  }

  get counts(): RouteCounts {
    return { changes: this.#changes, comparisons: this.#comparisons };
  }

  /** Plans again what a change of the cluster's state touched. */
  replan(touched: Touched): void {
    this.#add(this.#desired.replan(touched));
  }

  /** Plans again when the addresses or tunnels of this node have changed. */
  setOwnNetwork(own: OwnNetwork): void {
    this.#add(this.#desired.setOwnNetwork(own));
  }

  /** Compares everything next time. */
  requireComparison(): void {
    this.#isCompared = false;
  }

  /** Says whether the event calls for comparing everything. */
  handleHostEvent(event: HostEvent): boolean {
    const isForeign = isDrift(event, this.#desired);
    if (isForeign) this.requireComparison();
    return isForeign;
  }

  /** @throws kernel/failed when the kernel refuses some of the changes; the others are made */
  async reconcile(signal: AbortSignal): Promise<void> {
    if (this.#clock.monotonic() - this.#comparedAtMs >= COMPARE_MS) this.requireComparison();
    const changes = this.#isCompared ? this.#takePending() : await this.#compare();
    if (changes.length === 0) return;
    const refused = await this.#host.change(changes, signal);
    this.#changes += changes.length;
    this.#log.debug('routes changed', { changes: changes.length, refused: refused.length });
    const [first] = refused;
    if (first === undefined) return;
    this.requireComparison();
    throw refusal(first, refused.length);
  }

  /** What changes meanwhile is pending and comes later. */
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
    if (this.#isCompared) for (const change of changes) this.#pending.push(change);
    if (!this.#isCompared || this.#pending.length > 0) this.#onDue();
  }
}

function refusal({ change, reason }: Refused, count: number): NetplugError {
  const more = count === 1 ? '' : ` (and ${String(count - 1)} more)`;
  return new NetplugError('kernel/failed', `Cannot ${change.kind.replace('-', ' a ')}: ${reason}${more}`, {
    facts: { refused: count },
  });
}
