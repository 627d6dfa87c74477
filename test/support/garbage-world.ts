// A cluster whose pods and nodes come and go, with an orchestrator, views of it that lag behind, and what really runs.
import type { Clock } from '../../src/base/clock.ts';
import { isNetplugError, NetplugError } from '../../src/base/errors.ts';
import { silentLog } from '../../src/base/log.ts';
import { seededRandom } from '../../src/base/random.ts';
import { MemoryDatabase } from '../../src/datastore/memory/memory-database.ts';
import { openMemoryStore, type StoreFault } from '../../src/datastore/memory/memory-store.ts';
import { assign, type IpamPorts } from '../../src/ipam/assign.ts';
import {
  type CollectedGarbage,
  type CollectorPorts,
  GarbageCollector,
  type ReleasedFate,
} from '../../src/ipam/garbage/collect.ts';
import type { PodPresence } from '../../src/ipam/garbage/pod-presence.ts';
import type { CachedView, LiveView } from '../../src/ipam/garbage/views.ts';
import { EndedAttachments } from '../../src/ipam/node/ended-attachments.ts';
import { release } from '../../src/ipam/release.ts';
import type { Change } from '../../src/datastore/allocation-store.ts';
import {
  type Allocation,
  emptyBlock,
  type HeldAddress,
  heldAddresses,
  type IpBlock,
} from '../../src/model/ip-block.ts';
import { handleOf } from '../../src/model/names.ts';
import type { WorkloadEndpoint } from '../../src/model/workload-endpoint.ts';
import { isStaticPodUid } from '../../src/model/pod.ts';
import type { SlotOperation } from '../../src/model/slot-operation.ts';
import { tunnelAttachment } from '../../src/model/tunnel-attachment.ts';
import { formatAddress, parseAddress } from '../../src/net/address.ts';
import { addressAt, type Cidr } from '../../src/net/cidr.ts';
import { ANY_POOL, NO_POOL, nodeName, poolOf } from './fixtures.ts';
import { attachmentOf } from './ipam-bench.ts';

export const GRACE_MS = 900_000;
export const PERIOD_MS = GRACE_MS / 4;
/** A kubelet that works ends the containers of pods that are gone within this time, unless they may take longer. */
const KUBELET_MS = 60_000;

/** After this time the orchestrator says that a node is not ready. */
const UNREADY_MS = 40_000;

interface Running {
  readonly node: string;
  /** Undefined for a container that no orchestrator started, and for a tunnel device. */
  readonly pod: string | undefined;
  readonly uid: string;
  readonly address: string;
  /** When a kubelet that works ends it; undefined while it may run. */
  endsAtMs: number | undefined;
}
interface Agent {
  /** `<containerId>/<ifName>` of what has a link. */
  links: ReadonlySet<string>;
  readonly attachments: EndedAttachments;
}
type Pods = ReadonlyMap<string, PodPresence>;

export const DATASTORES = ['up', 'lossy', 'down', 'stale'] as const;
export type Datastore = (typeof DATASTORES)[number];
/** So many changes ago a stale read was true. */
const STALE_CHANGES = 5;

/** Result of a pass, and what it released. */
export type PassedGarbage = CollectedGarbage & Readonly<Record<ReleasedFate, readonly HeldAddress[]>>;

export class GarbageWorld {
  readonly database = new MemoryDatabase();
  readonly #signal = new AbortController().signal;
  readonly #store = openMemoryStore(this.database);
  readonly #running = new Map<string, Running>();
  readonly #others = new Set<string>();
  readonly #pods = new Map<string, PodPresence>();
  readonly #nodes = new Map<string, { isReady: boolean; isolatedAtMs: number | undefined; isOff: boolean }>();
  /** Nodes that the datastore knows as nodes of the orchestrator. */
  readonly #registered = new Set<string>();
  #cached: { readonly pods: Pods; readonly nodes: ReadonlySet<string> } = { pods: new Map(), nodes: new Set() };
  #collector: GarbageCollector;
  /** By the last pass or look. */
  #released: Readonly<Record<ReleasedFate, HeldAddress[]>> = { 'after-grace': [], 'at-once': [] };
  /** What the agent of each node does. */
  readonly #agents = new Map<string, Agent>();
  #nowMs = 0;
  #wallMs = 1_700_000_000_000;
  readonly #nodeOfStatic = new Map<string, string>();
  #number = 0;
  isCacheFrozen = false;
  isApiDown = false;
  /** Whether the agents of nodes work. */
  areAgentsOn = true;
  /** What the collector meets: `lossy` loses each second response to a write, `stale` reads records of earlier. */
  datastore: Datastore = 'up';
  #writes = 0;

  private constructor() {
    this.#collector = this.#newCollector();
  }

  static async with(cidr: string, blockSize: number): Promise<GarbageWorld> {
    const world = new GarbageWorld();
    await world.#store.createResource(poolOf('pool', cidr, { blockSize }), world.#signal);
    return world;
  }

  get nodes(): readonly string[] {
    return [...this.#nodes.keys()];
  }

  get pods(): readonly string[] {
    return [...this.#pods.keys()];
  }

  /** Does nothing when the node is there. */
  addNode(name: string): void {
    if (this.#nodes.has(name)) return;
    this.#nodes.set(name, { isReady: true, isolatedAtMs: undefined, isOff: false });
    this.#registered.add(name);
  }

  /** A node with a block of its own that has these pods, at once. */
  async addNodeWith(name: string, block: Cidr, pods: readonly string[]): Promise<void> {
    this.addNode(name);
    const operations = pods.map((pod, ordinal): SlotOperation => {
      this.#number += 1;
      const [container, uid] = [`c${String(this.#number)}`, `u${String(this.#number)}`];
      const address = formatAddress(addressAt(block, ordinal));
      this.#pods.set(pod, { uids: [uid], node: name, isFinished: false });
      this.#running.set(container, { node: name, pod, uid, address, endsAtMs: undefined });
      const attachment = attachmentOf(container);
      const holder = { node: nodeName(name), handle: handleOf(attachment), ...attachment };
      const of = { namespace: 'ns', pod, podUid: uid };
      const at = new Date(this.#wallMs).toISOString();
      const allocation: Allocation = { id: container, ...holder, ...of, at, chosenBy: 'node-selector' };
      return { kind: 'take', block, ordinal, from: undefined, allocation };
    });
    const change: Change = {
      kind: 'create-block',
      block: emptyBlock(block, nodeName(name)),
      pool: undefined,
      operations,
    };
    await this.#store.commit([change], this.#signal);
    for (const [container, { node, pod }] of this.#running)
      if (node === name && pod === pods[0]) await this.#record(node, container);
  }

  async addTunnel(node: string): Promise<void> {
    await this.#start(node, undefined, 'tunnel');
  }

  async addContainer(node: string): Promise<void> {
    this.#others.add(await this.#start(node, undefined, 'workload'));
  }

  /** A pod of that name, in the place of the one that has it. Returns whether it runs: the address that it asks for may be held. */
  async addPod(name: string, node: string, asked?: string): Promise<boolean> {
    if (!this.#isReached(node)) return false;
    this.deletePod(name, 'leak');
    this.#number += 1;
    const uid = `u${String(this.#number)}`;
    this.#pods.set(name, { uids: [uid], node, isFinished: false });
    try {
      await this.#start(node, { name, uid }, asked ?? 'workload');
    } catch (cause) {
      if (asked === undefined || !isNetplugError(cause, 'ipam/address-taken')) throw cause;
      return false;
    }
    // Its link was made in the place of that of the pod before.
    for (const [container, each] of this.#running)
      if (asked !== undefined && each.pod === name && each.node === node && each.uid !== uid)
        this.#running.delete(container);
    return true;
  }

  /** A static pod with its mirror pod. The kubelet runs it as long as the node is there, also without a mirror pod. */
  async addStaticPod(name: string, node: string): Promise<void> {
    if (!this.#isReached(node) || this.#pods.has(name)) return;
    this.#number += 1;
    this.#pods.set(name, { uids: [], node, isFinished: false });
    const container = await this.#start(node, { name, uid: String(this.#number).padStart(32, '0') }, 'workload');
    this.#nodeOfStatic.set(container, node);
  }

  /**
   * With `leak` its address stays: the runtime has forgotten it. With `force` only the orchestrator has. A node that cannot be
   * reached goes on to run it.
   */
  deletePod(name: string, how: 'leak' | 'finish' | 'force'): void {
    const pod = this.#pods.get(name);
    if (pod === undefined) return;
    if (how === 'finish') this.#pods.set(name, { ...pod, isFinished: true });
    else this.#pods.delete(name);
    const isReached = this.#isReached(pod.node);
    for (const each of this.#running.values())
      if (isReached && how !== 'force' && pod.uids.includes(each.uid)) each.endsAtMs ??= this.#nowMs + KUBELET_MS;
  }

  async releasePod(name: string): Promise<void> {
    const [container, running] = [...this.#running].find(([, { pod }]) => pod === name) ?? [];
    if (running === undefined || container === undefined || !this.#isReached(running.node)) return;
    this.#pods.delete(name);
    this.#running.delete(container);
    const which = ({ containerId }: { containerId: string }): boolean => containerId === container;
    await release(this.#ports(), { node: nodeName(running.node), which }, this.#signal);
  }

  /** The orchestrator notices after a while. */
  partition(node: string): void {
    const state = this.#nodes.get(node);
    if (state !== undefined) state.isolatedAtMs ??= this.#nowMs;
  }

  heal(node: string): void {
    const state = this.#nodes.get(node);
    if (state === undefined) return;
    state.isReady = true;
    state.isolatedAtMs = undefined;
    state.isOff = false;
    for (const each of this.#running.values())
      if (each.node === node && each.pod !== undefined && !this.#isWanted(each))
        each.endsAtMs ??= this.#nowMs + KUBELET_MS;
  }

  /** The machine is off, and an administrator says so. The orchestrator deletes its pods. */
  takeOutOfService(node: string): void {
    const state = this.#nodes.get(node);
    if (state === undefined) return;
    state.isOff = true;
    state.isReady = false;
    state.isolatedAtMs ??= this.#nowMs;
    this.#forget(node, 'pods');
  }

  /** The machine is off, and an administrator says so. The orchestrator still has its pods. */
  turnOff(node: string): void {
    const state = this.#nodes.get(node);
    if (state === undefined) return;
    Object.assign(state, { isOff: true, isReady: false, isolatedAtMs: state.isolatedAtMs ?? this.#nowMs });
    this.#agents.delete(node);
    for (const [container, each] of this.#running)
      if (each.node === node && each.pod !== undefined) this.#running.delete(container);
  }

  /** The machine is off, and its Node is deleted. The orchestrator deletes its pods. */
  removeNode(node: string): void {
    this.#nodes.delete(node);
    this.#forget(node, 'all');
  }

  #forget(node: string, what: 'pods' | 'all'): void {
    this.#agents.delete(node);
    for (const [name, pod] of this.#pods) if (pod.node === node) this.#pods.delete(name);
    for (const [container, each] of this.#running)
      if (each.node === node && (what === 'all' || each.pod !== undefined)) this.#running.delete(container);
  }

  restart(): void {
    this.#collector = this.#newCollector();
  }

  jumpWallClock(byMs: number): void {
    this.#wallMs += byMs;
  }

  /** Lets time pass without a pass of the collector, as while its process is paused. */
  advance(ms: number): void {
    this.#nowMs += ms;
    this.#wallMs += ms;
    for (const [container, { endsAtMs }] of this.#running)
      if (endsAtMs !== undefined && endsAtMs <= this.#nowMs) this.#running.delete(container);
    for (const state of this.#nodes.values())
      if (state.isolatedAtMs !== undefined && this.#nowMs - state.isolatedAtMs >= UNREADY_MS) state.isReady = false;
  }

  #isReached(node: string): boolean {
    const state = this.#nodes.get(node);
    return state !== undefined && state.isolatedAtMs === undefined;
  }

  /** One period, and the pass at its end. */
  async period(): Promise<PassedGarbage | undefined> {
    this.advance(PERIOD_MS);
    return this.pass();
  }

  /** Returns undefined when the pass failed. @throws when something that runs lost its address */
  async pass(): Promise<PassedGarbage | undefined> {
    const done = await this.#look(async () => {
      const passed = await this.#collector.pass(this.#signal);
      if (passed.failures.length > 0) throw passed.failures[0];
      return { ...passed, ...this.#released };
    });
    if (this.areAgentsOn) await this.#agentPasses();
    this.#assertLivingHold();
    return done;
  }

  /** The look of the controllers at one node. Returns what they released. @throws when something that runs lost its address */
  async lookAt(node: string): Promise<readonly string[]> {
    await this.#look(async () => this.#collector.releaseAskedFor(nodeName(node), this.#signal));
    this.#assertLivingHold();
    return this.#released['at-once'].map(({ address }) => formatAddress(address));
  }

  async #look<T>(work: () => Promise<T>): Promise<T | undefined> {
    this.#released = { 'after-grace': [], 'at-once': [] };
    if (!this.isCacheFrozen) this.#cached = { pods: new Map(this.#pods), nodes: new Set(this.#nodes.keys()) };
    try {
      return await work();
    } catch (cause) {
      if (!isNetplugError(cause, 'store/unavailable')) throw cause;
      return undefined;
    }
  }

  /**
   * Addresses that are held and that nothing uses, without those of containers that no orchestrator started, and of tunnel
   * devices and static pods of a node that has come back: its agent takes them up again, and without a mirror pod the API
   * says nothing about static ones.
   */
  dead(): readonly string[] {
    return this.#held().flatMap(({ address, container }) => {
      const isUsed = this.#running.has(container) || this.#others.has(container);
      const node = this.#nodeOfStatic.get(container) ?? container.split('/')[0] ?? '';
      return isUsed || this.#nodes.has(node) ? [] : [address];
    });
  }

  /** Addresses of pods and devices that are held on nodes that are gone. */
  heldOnGoneNodes(): readonly string[] {
    return this.#blocks()
      .flatMap((block) => heldAddresses(block, ({ node }) => this.#registered.has(node) && !this.#nodes.has(node)))
      .map(({ address }) => formatAddress(address));
  }

  /** Addresses of containers that no orchestrator started, whether they run or not. */
  others(): readonly string[] {
    return this.#held().flatMap(({ address, container }) => (this.#others.has(container) ? [address] : []));
  }

  blocksOf(node: string): readonly IpBlock[] {
    return this.#blocks().filter((block) => block.node === node);
  }

  #assertLivingHold(): void {
    const held = new Map(this.#held().map(({ address, container }) => [container, address]));
    for (const [container, { address, node, pod }] of this.#running)
      if (held.get(container) !== address)
        throw new Error(`${address} of ${pod ?? container} on ${node} was released while it is in use`);
  }

  #held(): { readonly address: string; readonly container: string }[] {
    return this.#blocks().flatMap((block) =>
      heldAddresses(block).map(({ address, allocation }) => ({
        address: formatAddress(address),
        container: `${allocation.containerId}/${allocation.ifName}`.replace(/\/eth0$/, ''),
      })),
    );
  }

  #blocks(): IpBlock[] {
    return [...this.database.state().blocks.values()].flatMap(({ value }) =>
      typeof value === 'symbol' ? [] : [value],
    );
  }

  /** The agents of nodes look at their own links, whatever the orchestrator says. Those that would find nothing are left out. */
  async #agentPasses(): Promise<void> {
    const linked = Map.groupBy(this.#running, ([, { node }]) => node);
    const held = this.#blocks().flatMap((block) => heldAddresses(block));
    const ended = held.filter(({ allocation }) => !this.#running.has(allocation.containerId));
    for (const node of new Set(ended.map(({ allocation }) => allocation.node))) {
      if (!this.#isReached(node)) continue;
      const attached = (linked.get(node) ?? []).map(([container]) => `${container}/eth0`);
      const agent = this.#agents.get(node) ?? this.#newAgent(node);
      this.#agents.set(node, agent);
      agent.links = new Set(attached);
      await agent.attachments.pass(this.#signal);
    }
  }

  #newAgent(node: string): Agent {
    const agent: { links: ReadonlySet<string> } = { links: new Set() };
    const ports = {
      ...this.#ports(),
      listAttached: () => agent.links,
      listAddressesInUse: async () => Promise.resolve([]),
    };
    const times = { graceMs: GRACE_MS, periodMs: PERIOD_MS };
    return Object.assign(agent, { attachments: new EndedAttachments(ports, nodeName(node), times) });
  }

  /** Records the endpoint of a pod, as its ADD does. */
  async #record(node: string, container: string): Promise<void> {
    const { network, containerId: containerID, ifName: endpoint } = attachmentOf(container);
    const record: WorkloadEndpoint = {
      apiVersion: 'netplug.io/v3',
      kind: 'WorkloadEndpoint',
      metadata: { name: container, namespace: 'ns' },
      spec: {
        orchestrator: 'orch',
        node,
        network,
        containerID,
        pod: container,
        endpoint,
        interfaceName: `npl${container}`,
        mac: '',
        ipNetworks: [],
        profiles: [],
        ipam: 'netplug-ipam',
      },
    };
    await this.#store.commit([{ kind: 'put-endpoint', endpoint: record }], this.#signal);
  }

  #isWanted({ pod, uid }: Running): boolean {
    if (isStaticPodUid(uid)) return true;
    const now = pod === undefined ? undefined : this.#pods.get(pod);
    return now !== undefined && !now.isFinished && now.uids.includes(uid);
  }

  async #start(
    node: string,
    pod: { readonly name: string; readonly uid: string } | undefined,
    /** What the address is for, or the one that is asked for. */
    what: string,
  ): Promise<string> {
    const isTunnel = what === 'tunnel';
    this.#number += 1;
    const container = `c${String(this.#number)}`;
    const attachment = isTunnel ? tunnelAttachment(nodeName(node), container) : attachmentOf(container);
    const identity = pod === undefined ? undefined : { namespace: 'ns', name: pod.name, uid: pod.uid };
    const request = {
      node: nodeName(node),
      attachment,
      pod: identity,
      pools: { 4: ANY_POOL, 6: NO_POOL },
      requested:
        isTunnel || what === 'workload'
          ? { addresses: [], rule: 'node-selector' as const }
          : { addresses: [parseAddress(what)], rule: 'pod-annotation' as const },
    };
    const [assigned] = await assign(this.#ports(), request, { signal: this.#signal, cleanupSignal: this.#signal });
    if (assigned === undefined) throw new Error('no address was assigned');
    if (pod !== undefined) await this.#record(node, container);
    const key = isTunnel ? `${node}/${container}` : container;
    const uid = pod?.uid ?? '';
    this.#running.set(key, {
      node,
      pod: pod?.name,
      uid,
      address: formatAddress(assigned.address),
      endsAtMs: undefined,
    });
    return key;
  }

  #clock(): Clock {
    return { now: () => this.#wallMs, monotonic: () => this.#nowMs, sleep: async () => Promise.resolve() };
  }

  #ports(): IpamPorts & { readonly store: ReturnType<typeof openMemoryStore> } {
    return { store: this.#store, clock: this.#clock(), random: seededRandom((this.#number += 1)), log: silentLog };
  }

  #newCollector(): GarbageCollector {
    const cached: CachedView = {
      findPod: (_, name) => {
        const pod = this.#cached.pods.get(name);
        return pod?.isFinished === true ? undefined : pod;
      },
      hasNode: (name) => this.#cached.nodes.has(name),
      recordedNodes: () => [...this.#registered].map(nodeName),
    };
    const live: LiveView = {
      findPod: async (_, name) => this.#ask(() => this.#pods.get(name)),
      standingOf: async (node) =>
        this.#ask(() => {
          const known = this.#nodes.get(node);
          if (known !== undefined) return known.isOff && !known.isReady ? 'out-of-service' : 'present';
          return this.#registered.has(node) ? 'gone' : 'foreign';
        }),
    };
    const store = openMemoryStore(this.database, { fault: (operation) => this.#faultOf(operation) });
    const onReleased: CollectorPorts['onReleased'] = async (released, fate) =>
      Promise.resolve(void this.#released[fate].push(...released));
    return new GarbageCollector(
      { ...this.#ports(), store, cached, live, onReleased },
      { graceMs: GRACE_MS, periodMs: PERIOD_MS },
    );
  }

  #faultOf(operation: string): StoreFault | undefined {
    if (this.datastore === 'down') return { kind: 'unavailable-before' };
    if (operation !== 'commit')
      return this.datastore === 'stale' ? { kind: 'stale', changesAgo: STALE_CHANGES } : undefined;
    this.#writes += 1;
    return this.datastore === 'lossy' && this.#writes % 2 === 0 ? { kind: 'unavailable-after' } : undefined;
  }

  async #ask<T>(answer: () => T): Promise<T> {
    await Promise.resolve();
    if (this.isApiDown) throw new NetplugError('store/unavailable', 'the API is down', { hint: 'wait' });
    return answer();
  }
}
