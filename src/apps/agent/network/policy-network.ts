import { isDeepStrictEqual } from 'node:util';
import type { RetryPorts } from '../../../base/back-off.ts';
import type { Log } from '../../../base/log.ts';
import type { HostNetwork } from '../../../dataplane/host-network.ts';
import type { TableFilter } from '../../../dataplane/policy-filter.ts';
import type { NodeStatusStore } from '../../../datastore/node-status-store.ts';
import type { ResourceStore } from '../../../datastore/resource-store.ts';
import type { Node } from '../../../model/node.ts';
import type { NodeProblem } from '../../../model/node-report.ts';
import { renderPodTable } from '../../../routing/pod-table.ts';
import { Reconciler } from '../../../runtime/reconciler.ts';
import type { NodeNetwork } from './node-network.ts';
import { TABLES } from './network-parts.ts';
import { reconcilerProblems } from './part-reconcilers.ts';
import type { NetworkSettings } from './network-settings.ts';
import { ADDRESSES_PAUSE_MS, findOwnAddresses } from './host/own-addresses.ts';
import { ownFacts, subnetAddress } from './own-facts.ts';
import { reconcilePodFilter } from './reconcile-pod-filter.ts';
import { RetainedAddresses } from './host/retained-addresses.ts';
import type { ShownParts } from './shown-network.ts';

const ADDRESSES_MS = 60_000;
const FACTS_MS = 60_000;
/** The kernel reports changes of nftables; what it may have lost is found within this time. */
const FILTER_MS = 10_000;
const FACTS_PAUSE_MS = 1000;
const NO_ROUTES = { blackhole: 0, direct: 0, tunnelled: 0 } as const;

export interface PolicyNetworkPorts extends RetryPorts {
  readonly log: Log;
  readonly store: Pick<NodeStatusStore, 'publishNode'> & Pick<ResourceStore, 'findResource'>;
  readonly host: Pick<HostNetwork, 'listInterfaces' | 'lookUp' | 'watch'>;
  readonly filter: () => Pick<TableFilter, 'apply'>;
}

/**
 * Runs what policies need on a node that another plugin connects with the other nodes: the filter against foreign source
 * addresses of pods, and the published addresses of the node, from which automatic host endpoints are made. It makes no
 * route, tunnel or translation, and does not say whether the node is connected.
 */
export class PolicyNetwork implements Pick<
  NodeNetwork,
  'failures' | 'disconnections' | 'problems' | 'show' | 'standing' | 'compareTables' | 'run'
> {
  readonly #ports: PolicyNetworkPorts;
  readonly #settings: NetworkSettings;
  readonly #own = new RetainedAddresses();
  readonly #podFilter: Reconciler;
  readonly #addresses: Reconciler;
  readonly #facts: Reconciler;

  constructor(ports: PolicyNetworkPorts, settings: NetworkSettings) {
    this.#ports = ports;
    this.#settings = settings;
    const { clock, random, log, store, filter } = ports;
    const base = { clock, random, log };
    const podTable = renderPodTable(settings.sourceCheck);
    this.#podFilter = new Reconciler({
      ...base,
      name: 'pod filter',
      reconcile: async (signal) => reconcilePodFilter(filter(), podTable, signal),
      resyncMs: FILTER_MS,
    });
    this.#addresses = new Reconciler({
      ...base,
      name: 'addresses',
      reconcile: async (signal) => this.#reconcileAddresses(signal),
      resyncMs: ADDRESSES_MS,
      pauseMs: ADDRESSES_PAUSE_MS,
    });
    this.#facts = new Reconciler({
      ...base,
      name: 'node facts',
      reconcile: async (signal) => store.publishNode(settings.node, ownFacts(this.#own.addresses, []), signal),
      resyncMs: FACTS_MS,
      pauseMs: FACTS_PAUSE_MS,
    });
  }

  /** Returns why pods may be without protection, a sentence each. Facts of the node do not affect its pods. */
  failures(): readonly string[] {
    return this.#podFilter.report('failure');
  }

  /** Always undefined: another plugin connects the nodes. */
  disconnections(): undefined {
    return undefined;
  }

  problems(): readonly NodeProblem[] {
    const all = [this.#podFilter, this.#addresses, this.#facts];
    return reconcilerProblems(all, (each) => each === this.#podFilter);
  }

  async show(): Promise<ShownParts> {
    return Promise.resolve({
      node: this.#settings.node,
      addresses: [...this.#own.addresses.values()].map((own) => ({
        address: subnetAddress(own) ?? '',
        device: own.device,
      })),
      tunnels: [],
      routes: NO_ROUTES,
      peers: 0,
      nodes: 0,
      pools: [],
    });
  }

  standing(): ReturnType<NodeNetwork['standing']> {
    return {
      routes: NO_ROUTES,
      peers: 0,
      changes: 0,
      comparisons: 0,
      restoredLinks: 0,
    };
  }

  async compareTables(names: readonly string[]): Promise<boolean> {
    return names.includes(TABLES.podFilter) && this.#podFilter.hasSucceeded && this.#podFilter.compareEarly();
  }

  /** Runs until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    using _watch = this.#ports.host.watch(({ kind }) => {
      if (kind === 'links' || kind === 'unknown') this.#addresses.trigger();
    });
    const reconcilers = [this.#podFilter, this.#addresses, this.#facts];
    this.#podFilter.trigger();
    this.#addresses.trigger();
    await Promise.all(reconcilers.map(async (each) => each.run(signal)));
  }

  async #reconcileAddresses(signal: AbortSignal): Promise<void> {
    const { host, clock } = this.#ports;
    const node = await this.#findNode(signal);
    const question = { ...this.#settings, own: this.#own };
    const found = await findOwnAddresses(host, { pools: [], findNode: () => node }, question);
    const addresses = this.#own.with(found, clock.monotonic());
    const isSame = isDeepStrictEqual(addresses, this.#own.addresses);
    this.#own.set(addresses);
    if (!isSame || !this.#facts.hasSucceeded) this.#facts.trigger();
  }

  /** Reads the Node only for the detection method that needs it. */
  async #findNode(signal: AbortSignal): Promise<Node | undefined> {
    const { detection, node } = this.#settings;
    const isNeeded = Object.values(detection).some(({ kind }) => kind === 'orch-internal-ip');
    return isNeeded ? this.#ports.store.findResource({ kind: 'Node', name: node }, signal) : undefined;
  }
}
