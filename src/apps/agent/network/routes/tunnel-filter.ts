import { SerialQueue } from '../../../../base/serial-queue.ts';
import { hasChanged, type TableFilter } from '../../../../dataplane/policy-filter.ts';
import type { NodeName } from '../../../../model/names.ts';
import type { Address } from '../../../../net/address.ts';
import type { ClusterState } from '../../../../routing/cluster-state.ts';
import type { Touched } from '../../../../routing/membership.ts';
import { openTunnels } from '../../../../routing/pool-modes.ts';
import { renderTunnelTable, TUNNEL_TABLE } from '../../../../routing/tunnel-table.ts';
import { tunnelledPools } from '../../../../routing/tunnelled-pools.ts';
import { TUNNEL_KINDS } from '../../../../routing/tunnels.ts';
import type { NetworkSettings } from '../network-settings.ts';

/** Filters tunnel packets: accepts those of the nodes in the cluster state, which is kept while the watch is lost. */
export class TunnelFilter {
  readonly #filter: () => TableFilter;
  readonly #self: NodeName;
  readonly #state: ClusterState;
  readonly #isStrict: boolean;
  readonly #queue = new SerialQueue();
  #isDue = true;

  constructor(
    filter: () => TableFilter,
    { node, sourceCheck }: Pick<NetworkSettings, 'node' | 'sourceCheck'>,
    state: ClusterState,
  ) {
    this.#filter = filter;
    this.#self = node;
    this.#isStrict = sourceCheck === 'strict';
    this.#state = state;
  }

  /** Marks the filter as outdated if the change affects nodes. Reports whether it does. */
  markChanged(touched: Touched): boolean {
    const isTouched = touched === 'all' || touched.nodes.length > 0;
    this.#isDue ||= isTouched;
    return isTouched;
  }

  /** Applies an outdated filter. Call it before routes change: packets of a new node must be accepted before it gets a route. */
  async ensure(signal: AbortSignal): Promise<void> {
    await this.#queue.run(async () => (this.#isDue ? void (await this.#apply({ signal })) : undefined));
  }

  /** Applies the filter, which also undoes changes by other programs. */
  async reconcile(signal: AbortSignal): Promise<'repaired' | void> {
    return this.#queue.run(async () => {
      const isOutdated = this.#isDue;
      const isWritten = await this.#apply({ signal, reread: true });
      return isWritten && !isOutdated ? 'repaired' : undefined;
    });
  }

  /** Reports whether rules were written. */
  async #apply(options: { readonly signal: AbortSignal; readonly reread?: boolean }): Promise<boolean> {
    this.#isDue = false;
    try {
      const { pools } = this.#state;
      const tunnels = TUNNEL_KINDS.filter((kind) => pools.some((pool) => openTunnels(pool).includes(kind)));
      const nodes = tunnels.length === 0 ? [] : this.#otherNodes();
      const tunnelled = this.#isStrict ? tunnels.flatMap((kind) => tunnelledPools(kind, this.#self, this.#state)) : [];
      const table = renderTunnelTable({ tunnels, nodes, tunnelled });
      if (table !== undefined) return hasChanged(await this.#filter().apply(table, options));
      await this.#filter().remove(TUNNEL_TABLE, options.signal);
      return false;
    } catch (cause) {
      this.#isDue = true;
      throw cause;
    }
  }

  /** Returns the addresses from which other nodes send tunnel packets. */
  #otherNodes(): readonly Address[] {
    const others = this.#state.nodeNames.filter((node) => node !== this.#self);
    return others.flatMap((node) => [...this.#state.endsOf(node).addresses.values()]);
  }
}
