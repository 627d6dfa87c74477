import { SerialQueue } from '../../../runtime/serial-queue.ts';
import type { PacketFilter } from '../../../dataplane/packet-filter.ts';
import type { NodeName } from '../../../model/names.ts';
import type { Address } from '../../../net/address.ts';
import type { ClusterState } from '../../../routing/cluster-state.ts';
import type { Touched } from '../../../routing/membership.ts';
import { openTunnels } from '../../../routing/pool-modes.ts';
import { renderTunnelTable } from '../../../routing/tunnel-table.ts';
import { TUNNEL_KINDS } from '../../../routing/tunnels.ts';

/**
 * Lets in tunnel packets of the nodes that the cluster's state knows, which stays as it was while the watch is lost.
 */
export class TunnelFilter {
  readonly #filter: Pick<PacketFilter, 'replace'>;
  readonly #self: NodeName;
  readonly #state: ClusterState;
  readonly #queue = new SerialQueue();
  #isDue = true;

  constructor(filter: Pick<PacketFilter, 'replace'>, self: NodeName, state: ClusterState) {
    this.#filter = filter;
    this.#self = self;
    this.#state = state;
  }

  /** Takes in that the cluster's state has changed; reports whether there is something to do. */
  markChanged(touched: Touched): boolean {
    const isTouched = touched === 'all' || touched.nodes.length > 0;
    this.#isDue ||= isTouched;
    return isTouched;
  }

  /** Applies what the cluster's state says unless that is done: a node that joins is let in before it is answered. */
  async ensure(signal: AbortSignal): Promise<void> {
    await this.#queue.run(async () => (this.#isDue ? this.#apply(signal) : undefined));
  }

  /** Applies what the cluster's state says, and repairs what is otherwise on the host. */
  async reconcile(signal: AbortSignal): Promise<void> {
    await this.#queue.run(async () => this.#apply(signal));
  }

  async #apply(signal: AbortSignal): Promise<void> {
    this.#isDue = false;
    try {
      const { pools } = this.#state;
      const tunnels = TUNNEL_KINDS.filter((kind) => pools.some((pool) => openTunnels(pool).includes(kind)));
      const nodes = tunnels.length === 0 ? [] : this.#otherNodes();
      await this.#filter.replace(renderTunnelTable({ tunnels, nodes }), signal);
    } catch (cause) {
      this.#isDue = true;
      throw cause;
    }
  }

  /** Their own addresses, by which tunnel packets come. */
  #otherNodes(): readonly Address[] {
    const others = this.#state.nodeNames.filter((node) => node !== this.#self);
    return others.flatMap((node) => [...this.#state.endsOf(node).addresses.values()]);
  }
}
