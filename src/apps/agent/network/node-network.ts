import type { NodeStatusStore } from '../../../datastore/node-status-store.ts';
import type { AllocationStore } from '../../../datastore/allocation-store.ts';
import { isDeepStrictEqual } from 'node:util';
import { reasonOf } from '../../../base/errors.ts';
import { keepRunning } from '../../../base/back-off.ts';
import { repeat } from '../../../base/clock.ts';
import type { HostEvent, HostInterface, HostNetwork } from '../../../dataplane/host-network.ts';
import type { HostSides } from '../../../dataplane/kernel.ts';
import type { TableFilter } from '../../../dataplane/policy-filter.ts';
import type { FollowStore } from '../../../datastore/follow.ts';
import { type ClusterChange, followCluster } from '../../../cache/cluster-view.ts';
import type { NodeTraffic } from '../../../install/host/firewall/traffic.ts';
import type { IpamPorts } from '../../../ipam/assign.ts';
import { type NodeProblem, type Sentence, asNodeProblems } from '../../../model/node-report.ts';
import type { Address } from '../../../net/address.ts';
import { formatCidr } from '../../../net/cidr.ts';
import { ClusterState, problemsIn } from '../../../routing/cluster-state.ts';
import { DesiredNetwork } from '../../../routing/desired-network.ts';
import { protectedRanges } from '../../../routing/protected-ranges.ts';
import { renderPodTable } from '../../../routing/pod-table.ts';
import { Reconciler } from '../../../runtime/reconciler.ts';
import type { NetworkStanding } from '../network-gauges.ts';
import { BgpReconciler, type BgpPorts } from './routes/reconcile-bgp.ts';
import { natInput, type NatPorts, NatReconciler } from './routes/reconcile-nat.ts';
import { RouteReconciler } from './routes/reconcile-routes.ts';
import { OwnTunnels } from './routes/own-tunnels.ts';
import { type LocalEndpoints, NO_ENDPOINTS } from './host/local-endpoints.ts';
import { NEEDS, NETWORK_PROBLEMS, type NetworkPart, PARTS, TABLES } from './network-parts.ts';
import type { NetworkSettings } from './network-settings.ts';
import { partsAfterChange, partsAfterHostEvent } from './parts-after-change.ts';
import { partReconcilers, reconcilerProblems, USUAL } from './part-reconcilers.ts';
import { offeredMtu } from './routes/offered-mtu.ts';
import { type HostPortPorts, HostPortRestorer } from './host/restore-host-ports.ts';
import { LinkRestorer } from './host/restore-links.ts';
import { RetainedAddresses } from './host/retained-addresses.ts';
import { type AttachmentPorts, AttachmentReader } from './host/read-attachments.ts';
import { Registration, type RegistrationPorts } from './registration.ts';
import { ownFacts } from './own-facts.ts';
import { type ShownParts, shownNetwork } from './shown-network.ts';
import { OwnAddressClaims, type ClaimPorts } from './host/own-address-claims.ts';
import { conflictsOf } from './host/contested-addresses.ts';
import { enableForwarding } from './host/enable-forwarding.ts';
import { findOwnAddresses } from './host/own-addresses.ts';
import { nodeTraffic } from './host/node-traffic.ts';
import { reconcilePodFilter } from './reconcile-pod-filter.ts';
import { TunnelFilter } from './routes/tunnel-filter.ts';

const EXPIRE_MS = 5000;

export interface NetworkPorts
  extends
    IpamPorts,
    BgpPorts,
    RegistrationPorts,
    AttachmentPorts,
    ClaimPorts,
    Pick<NatPorts, 'flowTable' | 'translations'> {
  readonly store: AllocationStore & NodeStatusStore & ClaimPorts['store'];
  /** Where the cluster is followed. */
  readonly followed: FollowStore;
  readonly host: HostNetwork;
  readonly hostSides: HostSides;
  readonly hostPorts: Omit<HostPortPorts, 'clock' | 'log'>;
  /** The addresses of the API server and the datastore, as far as they are known. */
  readonly servers: {
    /** Resolves when they have been looked for once. */
    readonly found: () => Promise<void>;
    readonly current: () => readonly Address[];
  };
  readonly filter: () => TableFilter;
}

/**
 * Runs the network of one node: watches the cluster and the host, and reconciles each part of the node with the desired
 * state. The kernel keeps what was applied when it ends, so that pods stay connected.
 */
export class NodeNetwork {
  readonly #ports: NetworkPorts;
  readonly #settings: NetworkSettings;
  readonly #state: ClusterState;
  readonly #desired: DesiredNetwork;
  readonly #routes: RouteReconciler;
  readonly #bgp: BgpReconciler;
  readonly #nat: NatReconciler;
  readonly #tunnelFilter: TunnelFilter;
  readonly #tunnels: OwnTunnels;
  readonly #attachments: AttachmentReader;
  readonly #links: LinkRestorer;
  readonly #hostPorts: HostPortRestorer;
  readonly #own = new RetainedAddresses();
  readonly #claims: OwnAddressClaims;
  /** Addresses of the node that other nodes publish as well. */
  #conflicts: readonly NodeProblem[] = [];
  #endpoints: LocalEndpoints = NO_ENDPOINTS;
  /** Problems that do not fail the reconciler of their part. */
  readonly #partProblems: Partial<Record<NetworkPart, readonly Sentence[]>> = {};
  #watchProblem: string | undefined = 'the datastore is being read';
  readonly #reconcilers: Readonly<Record<NetworkPart, Reconciler>>;
  readonly #registered: Registration;
  readonly #registration: Reconciler;

  constructor(ports: NetworkPorts, settings: NetworkSettings) {
    this.#ports = ports;
    this.#settings = settings;
    this.#state = new ClusterState(settings.blockSource);
    this.#desired = new DesiredNetwork(settings.node, this.#state);
    this.#claims = new OwnAddressClaims(ports, settings.node, this.#state);
    this.#routes = new RouteReconciler(ports, this.#desired, () => this.#trigger('routes'));
    this.#links = new LinkRestorer(ports);
    this.#hostPorts = new HostPortRestorer({ ...ports, ...ports.hostPorts }, () =>
      this.#reconcilers.hostPorts.trigger(),
    );
    this.#attachments = new AttachmentReader(ports, () => this.#trigger('endpoints'));
    this.#bgp = new BgpReconciler(ports, settings, this.#state);
    const onNew = (): void => {
      this.#routes.requireComparison();
      this.#trigger('routes');
    };
    this.#tunnels = new OwnTunnels(ports, settings, { state: this.#state, onNew });
    this.#nat = new NatReconciler(ports);
    this.#tunnelFilter = new TunnelFilter(ports.filter, settings, this.#state);
    const podTable = renderPodTable(settings.sourceCheck);
    this.#reconcilers = partReconcilers(
      {
        podFilter: async (signal) => reconcilePodFilter(ports.filter(), podTable, signal),
        podLinks: async () => this.#links.reconcile(),
        hostPorts: async (signal) => this.#hostPorts.reconcile(signal),
        tunnelFilter: async (signal) => this.#tunnelFilter.reconcile(signal),
        addresses: async (signal) => this.#reconcileAddresses(signal),
        tunnels: async (signal) => this.#reconcileTunnels(signal),
        facts: async (signal) =>
          ports.store.publishNode(settings.node, ownFacts(this.#own.addresses, this.#tunnels.all), signal),
        routes: async (signal) => this.#reconcileRoutes(signal),
        endpoints: async (signal) => this.#readEndpoints(signal),
        nat: async (signal) => this.#reconcileNat(signal),
        passwords: async (signal) => this.#readPasswords(signal),
        bgp: async (signal) => this.#reconcileBgp(signal),
      },
      ports,
      () => {
        this.#registration.trigger();
        this.#trigger(...PARTS.filter((part) => !this.#reconcilers[part].hasSucceeded));
      },
    );
    this.#registered = new Registration(ports);
    this.#registration = new Reconciler({
      name: 'registration',
      clock: ports.clock,
      random: ports.random,
      log: ports.log,
      reconcile: async () => {
        const mtu = offeredMtu(this.#own.addresses, this.#state.pools);
        await this.#registered.register({ isFailing: this.#failingParts().length > 0, mtu });
      },
      ...USUAL,
    });
  }

  /** Returns why pods may be without network, a sentence each. */
  failures(): readonly string[] {
    return [...this.#failingParts(), ...this.#registration.report('failure')];
  }

  /** Returns why the node is not connected with other nodes, a sentence each; undefined until it was registered. */
  disconnections(): readonly string[] | undefined {
    return this.#registered.isDone ? this.#failingParts() : undefined;
  }

  /** All problems: failures, an unavailable datastore, and parts that work in part only. */
  problems(): readonly NodeProblem[] {
    const all = [...Object.values(this.#reconcilers), this.#registration];
    const { cutOff, addresses, blocks, podLinks, hostPorts, tunnels, flows, records, bgp } = NETWORK_PROBLEMS;
    const partly = this.#partProblems;
    return [
      asNodeProblems(cutOff, this.#watchProblem === undefined ? [] : [this.#watchProblem]),
      reconcilerProblems(all),
      this.#conflicts,
      asNodeProblems(addresses, this.#reconcilers.addresses.hasSucceeded ? this.#missingAddress() : []),
      asNodeProblems(addresses, partly.addresses ?? []),
      asNodeProblems(blocks, this.#routes.problems),
      asNodeProblems(podLinks, this.#links.problems),
      asNodeProblems(hostPorts, this.#hostPorts.problems),
      asNodeProblems(tunnels, this.#tunnels.problems),
      asNodeProblems(flows, this.#nat.problems),
      asNodeProblems(records, partly.endpoints ?? []),
      asNodeProblems(bgp, partly.bgp ?? []),
    ].flat();
  }

  async show(signal: AbortSignal): Promise<ShownParts> {
    return shownNetwork({
      node: this.#settings.node,
      state: this.#state,
      desired: this.#desired,
      addresses: this.#own.addresses,
      tunnels: this.#tunnels.all,
      // An error of BIRD is among the problems.
      sessions: await this.#ports.bird.status(signal).catch(() => undefined),
    });
  }

  standing(): Omit<NetworkStanding, 'closedPolicies' | 'policyLagSeconds' | 'sidecars' | 'flows'> {
    return {
      routes: this.#desired.routeKinds,
      peers: this.#desired.peers.size,
      ...this.#routes.counts,
      restoredLinks: this.#links.restored,
    };
  }

  /** Compares the tunnels with settings that have changed, or the routes with addresses of servers. */
  renew(what: 'settings' | 'servers'): void {
    this.#trigger(what === 'settings' ? 'tunnels' : 'addresses');
  }

  /** Returns what a firewall of the host must let pass; undefined while the cluster is not known. */
  traffic(): NodeTraffic | undefined {
    return this.#state.hasSnapshot ? nodeTraffic(this.#settings.node, this.#state, this.#own.addresses) : undefined;
  }

  /** Compares tables of nftables that another program has changed. Resolves after that, to whether one was not as it should be. */
  async compareTables(names: readonly string[]): Promise<boolean> {
    const parts = (['podFilter', 'tunnelFilter', 'nat'] as const).filter((part) => names.includes(TABLES[part]));
    const compared = parts.map((part) => this.#reconcilers[part]).filter(({ hasSucceeded }) => hasSucceeded);
    return (await Promise.all(compared.map(async (each) => each.compareEarly()))).includes(true);
  }

  /** Runs until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    using _watch = this.#ports.host.watch((event) => this.#handleHostEvent(event));
    using _records = this.#ports.attachments.watch(() => this.#trigger('endpoints'));
    const reconcilers = [...Object.values(this.#reconcilers), this.#registration];
    // These do not depend on the datastore.
    for (const part of ['podFilter', 'podLinks', 'hostPorts'] as const) this.#reconcilers[part].trigger();
    // Routes of an earlier process may keep the node from the datastore.
    await this.#protect(await this.#ports.host.listInterfaces(), signal).catch((cause: unknown) =>
      this.#ports.log.warning('routes not compared with the networks of the node', { reason: reasonOf(cause) }),
    );
    repeat(() => this.#expire(), EXPIRE_MS, signal);
    const work = [
      this.#follow(signal),
      // Restarts a BIRD that exits at once.
      this.#bgp.watchBird(() => this.#trigger('bgp'), signal),
      this.#bgp.renewBird(signal),
      this.#nat.run(signal),
      ...reconcilers.map(async (each) => each.run(signal)),
    ];
    await Promise.all(work);
  }

  async #follow(signal: AbortSignal): Promise<void> {
    const { followed, servers, log } = this.#ports;
    const work = async (): Promise<void> => {
      await servers.found();
      for await (const change of followCluster(followed, this.#settings.node, signal)) {
        this.#applyChange(change);
        this.#watchProblem = undefined;
      }
    };
    const onFailure = (cause: unknown, failures: number): void => {
      const reason = reasonOf(cause);
      this.#watchProblem = `the cluster watch is lost: ${reason}`;
      if (failures === 1) log.warning('cluster watch lost, keeping existing routes', { reason });
    };
    await keepRunning(this.#ports, { work, onFailure }, signal);
  }

  #applyChange(change: ClusterChange): void {
    const { node } = this.#settings;
    for (const problem of problemsIn(change)) this.#ports.log.warning('record skipped', { problem });
    const before = change.kind === 'block' ? this.#state.blocks.get(formatCidr(change.cidr)) : undefined;
    const touched = this.#state.apply(change, this.#ports.clock.monotonic());
    if (this.#tunnelFilter.markChanged(touched)) this.#trigger('tunnelFilter');
    const { parts, requiresTunnelAddresses } = partsAfterChange(change, {
      node,
      before,
      hasTunnelAddressIn: (block) => this.#tunnels.hasAddressIn(block),
      areClaimsOpen: this.#claims.areOpen,
    });
    if (requiresTunnelAddresses) this.#tunnels.requireAddresses();
    this.#trigger(...parts);
    this.#routes.replan(touched);
  }

  #handleHostEvent(event: HostEvent): void {
    if (this.#links.handleHostEvent(event)) this.#reconcilers.podLinks.trigger();
    if (!this.#state.hasSnapshot) return;
    const isDrift = this.#routes.handleHostEvent(event);
    const usesDevice = (device: string): boolean => this.#desired.usesDevice(device);
    this.#trigger(...partsAfterHostEvent(event, { isDrift, usesDevice }));
  }

  /** Expires replaced modes of pools. */
  #expire(): void {
    if (!this.#state.expire(this.#ports.clock.monotonic())) return;
    this.#tunnels.requireAddresses();
    this.#tunnelFilter.markChanged('all');
    this.#trigger('tunnelFilter', 'tunnels', 'nat', 'bgp');
    this.#routes.replan('all');
  }

  async #reconcileAddresses(signal: AbortSignal): Promise<void> {
    const { host, log, clock } = this.#ports;
    const { node } = this.#settings;
    const question = { ...this.#settings, own: this.#own };
    const found = await findOwnAddresses(host, this.#state, question);
    const { interfaces } = found;
    const wanted = this.#own.with(found, clock.monotonic());
    const claimed = await this.#claims.decide({ wanted, before: this.#own.addresses, interfaces }, signal);
    const { addresses } = claimed;
    const isSame = isDeepStrictEqual(addresses, this.#own.addresses);
    const context = { ...this.#settings, interfaces, pools: this.#state.pools.map(({ cidr }) => cidr) };
    const conflicts = conflictsOf(claimed, context);
    for (const problem of conflicts)
      if (!this.#conflicts.some(({ text }) => text === problem.text)) log.warning('address contested', { ...problem });
    this.#conflicts = conflicts;
    this.#partProblems.addresses = found.problems;
    await enableForwarding({ host, log }, { node, pools: this.#state.pools, uplink: wanted.get(4)?.device });
    this.#own.set(addresses);
    await this.#protect(interfaces, signal);
    if (isSame) return;
    this.#tunnels.requireAddresses();
    this.#updateOwnNetwork();
    this.#trigger('tunnels', 'facts', 'bgp');
  }

  /** Keeps routes off what the node itself needs, also off the network of an address that is missing for a moment. */
  async #protect(interfaces: readonly HostInterface[], signal: AbortSignal): Promise<void> {
    const own = [...this.#own.addresses.values()].map(({ device, address, prefixBits }) => ({
      name: device,
      addresses: [{ address, prefixBits }],
    }));
    const ranges = protectedRanges([...interfaces, ...own], this.#ports.servers.current());
    if (await this.#routes.protect(ranges, signal)) this.#trigger('bgp');
  }

  async #reconcileRoutes(signal: AbortSignal): Promise<void> {
    // The reconciler of the filter reports and retries its failure.
    await this.#tunnelFilter.ensure(signal).catch(() => this.#trigger('tunnelFilter'));
    await this.#routes.reconcile(signal);
  }

  async #reconcileTunnels(signal: AbortSignal): Promise<void> {
    // A tunnel device must not exist before the filter covers it.
    await this.#tunnelFilter.ensure(signal);
    if (!(await this.#tunnels.reconcile(this.#own.addresses, signal))) return;
    this.#updateOwnNetwork();
    this.#trigger('facts', 'nat');
  }

  #updateOwnNetwork(): void {
    const tunnels = new Set(this.#tunnels.all.map(({ kind }) => kind));
    this.#routes.setOwnNetwork({ addresses: this.#own.addresses, tunnels });
  }

  async #readEndpoints(signal: AbortSignal): Promise<void> {
    const { endpoints, problems } = await this.#attachments.read(signal);
    if (endpoints.text !== this.#endpoints.text) this.#trigger('nat', 'bgp');
    this.#endpoints = endpoints;
    this.#partProblems.endpoints = problems;
  }

  async #reconcileNat(signal: AbortSignal): Promise<'repaired' | void> {
    const input = natInput(this.#state.pools, this.#endpoints.floating, this.#tunnels.all);
    return this.#nat.reconcile(input, signal);
  }

  async #readPasswords(signal: AbortSignal): Promise<void> {
    if (await this.#bgp.readPasswords(signal)) this.#trigger('bgp');
  }

  async #reconcileBgp(signal: AbortSignal): Promise<void> {
    const { announced: localAddresses } = this.#endpoints;
    const question = { addresses: this.#own.addresses, localAddresses, protectedRanges: this.#desired.protectedRanges };
    const leftOut = await this.#bgp.reconcile(question, signal);
    if (leftOut === 'unread') this.#trigger('passwords');
    else this.#partProblems.bgp = leftOut;
  }

  #failingParts(): readonly string[] {
    const contested = this.#conflicts.filter(({ severity }) => severity === 'error');
    const parts = [
      ...Object.values(this.#reconcilers).flatMap((each) => each.report('failure')),
      ...contested.map(({ text, remedy = '' }) => `addresses: ${text} (${remedy})`),
    ];
    return parts.length === 0 ? this.#missingAddress() : parts;
  }

  #missingAddress(): readonly string[] {
    const isMissing = this.#conflicts.length === 0 && this.#own.addresses.size === 0 && this.#state.pools.length > 0;
    return isMissing ? ['addresses: no address of the node is known'] : [];
  }

  #trigger(...names: NetworkPart[]): void {
    if (!this.#state.hasSnapshot) return;
    const isUnblocked = (name: NetworkPart): boolean =>
      NEEDS[name].every((needed) => this.#reconcilers[needed].hasSucceeded);
    for (const name of names.filter(isUnblocked)) this.#reconcilers[name].trigger();
  }
}
