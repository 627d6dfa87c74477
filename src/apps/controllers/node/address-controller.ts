import { isNetplugError, reasonOf } from '../../../base/errors.ts';
import { forEachLimit } from '../../../base/for-each-limit.ts';
import type { NodeControllerSettings } from '../../../config/controllers-settings.ts';
import {
  type CollectedGarbage,
  type CollectorPorts,
  GarbageCollector,
  type ReleasedFate,
} from '../../../ipam/garbage/collect.ts';
import type { PodPresence } from '../../../ipam/garbage/pod-presence.ts';
import type { CachedView, LiveView } from '../../../ipam/garbage/views.ts';
import { recordEvent } from '../../../kube/record-event.ts';
import type { HeldAddress } from '../../../model/ip-block.ts';
import type { NodeName } from '../../../model/names.ts';
import { showResourceId } from '../../../model/resource-id.ts';
import { formatAddress } from '../../../net/address.ts';
import type { Controller, ControllerPorts, RunningController } from '../controller.ts';
import { endpointIn, type Feed, type Observed, type ObservedChange } from '../observed.ts';
import { liveView } from './live-view.ts';
import { OutOfServiceNodes } from './out-of-service.ts';
import { NODE_RECORDS, ORCHESTRATOR_NODES } from './node-controller.ts';
import { isOfOrchestrator } from './plan-node.ts';

const NAME = 'node-addresses';
const PODS: Feed = { side: 'orchestrator', query: { kind: 'pods' } };
/** An address is released at most half a grace period later than that period ends. */
const PASSES_PER_GRACE = 4;
const PERIODS = { leastMs: 250, mostMs: 300_000 };
/** Pods of a node that is out of service are deleted one soon after the other: one look at its blocks serves many of them. */
const GATHER_MS = 1000;
/** Nodes that are looked at, at once. */
const NODES_AT_ONCE = 4;
/** Maximum number of addresses that are named in one line of the log and in one event. */
const NAMED = 20;
/** What is left of a node without addresses, in the order in which it goes. */
const RECORDS = ['NodeReport', 'Node'] as const;

/**
 * Releases addresses of pods, tunnel devices and nodes that are gone, and blocks and records of those nodes: in full runs, and what
 * pods have asked for as soon as pod and node are lost.
 */
export function addressController(settings: NodeControllerSettings): Controller {
  const { leakGraceMs: graceMs, nodeRecords } = settings;
  const wantedMs = Math.ceil(graceMs / PASSES_PER_GRACE);
  const periodMs = Math.min(PERIODS.mostMs, Math.max(PERIODS.leastMs, wantedMs));
  const nodes = nodeRecords === 'own' ? ORCHESTRATOR_NODES : NODE_RECORDS;
  return {
    name: NAME,
    feeds: [PODS, NODE_RECORDS, ...(nodeRecords === 'own' ? [ORCHESTRATOR_NODES] : [])],
    periodMs,
    start: (ports, observed) => {
      const cached = cachedView(observed, { nodes, isOwn: nodeRecords === 'own' });
      const live = liveView(ports, nodeRecords);
      return new AddressCollection({ ...ports, cached, live }, { ...settings, periodMs });
    },
  };
}

interface CollectionPorts extends ControllerPorts {
  readonly cached: CachedView;
  readonly live: LiveView;
}

class AddressCollection implements RunningController {
  readonly #ports: CollectionPorts;
  readonly #collector: GarbageCollector;
  readonly #settings: NodeControllerSettings;
  readonly #lost: OutOfServiceNodes;
  /** Nodes that have gone out of service, or from which a pod has gone since. */
  readonly #due = new Set<NodeName>();

  constructor(ports: CollectionPorts, settings: NodeControllerSettings & { readonly periodMs: number }) {
    this.#ports = ports;
    this.#settings = settings;
    const { leakGraceMs: graceMs, periodMs } = settings;
    const onReleased: CollectorPorts['onReleased'] = async (...of) => this.#reportReleased(...of);
    this.#collector = new GarbageCollector({ ...ports, onReleased }, { graceMs, periodMs });
    this.#lost = new OutOfServiceNodes(ports);
  }

  /** Otherwise, only the time decides. */
  note(changes: readonly ObservedChange[]): boolean {
    for (const { before } of changes) {
      const node = endpointIn(before)?.value.spec.node;
      // Names of nodes in pods of the API are those under which agents register.
      if (node !== undefined && this.#lost.has(node)) this.#due.add(node as NodeName);
    }
    return this.#due.size > 0;
  }

  async follow(trigger: () => void, signal: AbortSignal): Promise<void> {
    await this.#lost.follow((node) => {
      this.#due.add(node);
      trigger();
    }, signal);
  }

  async reconcile({ isFull }: { readonly isFull: boolean }, signal: AbortSignal): Promise<void> {
    if (isFull) {
      this.#due.clear();
      await this.#collect(signal);
      return;
    }
    if (this.#due.size === 0) return;
    await this.#ports.clock.sleep(GATHER_MS, signal);
    const failures: unknown[] = [];
    await forEachLimit([...this.#due], NODES_AT_ONCE, async (node) => {
      // What is noted from here on makes the node due again.
      this.#due.delete(node);
      try {
        await this.#collector.releaseAskedFor(node, signal);
      } catch (cause) {
        // Behind the others, which must not wait for it.
        this.#due.add(node);
        signal.throwIfAborted();
        failures.push(cause);
      }
    });
    if (failures.length > 0) throw failures[0];
  }

  async #collect(signal: AbortSignal): Promise<void> {
    const done = await this.#collector.pass(signal);
    await this.#report(done, signal);
    if (this.#settings.nodeRecords === 'own')
      for (const node of done.retired.keys()) await this.#deleteRecord(node, signal);
    if (done.failures.length > 0) throw done.failures[0];
  }

  async #reportReleased(released: readonly HeldAddress[], fate: ReleasedFate, signal: AbortSignal): Promise<void> {
    const { log, metrics } = this.#ports;
    metrics.addresses.countReleased(released.length);
    const [event, reason] =
      fate === 'at-once'
        ? ['requested addresses released', 'their pods had asked for them and are gone, and the node is out of service']
        : ['leaked addresses released', `their pods have been gone for ${this.#grace()}`];
    for (const [node, addresses] of byNode(released)) {
      log.info(event, { node, ...listed(addresses) });
      const message = `${namesOf(addresses)} were released: ${reason}`;
      await this.#tell(node, { reason: 'NetplugAddressesReleased', message }, signal);
    }
  }

  #grace(): string {
    return `${String(Math.round(this.#settings.leakGraceMs / 1000))} s`;
  }

  async #report(done: CollectedGarbage, signal: AbortSignal): Promise<void> {
    const { log, metrics } = this.#ports;
    metrics.setProblems(NAME, done.problems.length + done.unknown.length);
    metrics.addresses.setCandidates(done.candidates.length);
    for (const [node, addresses] of byNode(done.found)) {
      log.warning('leaked addresses found', { node, ...listed(addresses) });
      const text = `${namesOf(addresses)}: their pods are gone; they are released in ${this.#grace()} unless these come back`;
      await this.#tell(node, { reason: 'NetplugAddressesLeaked', message: text }, signal);
    }
    for (const [node, { returnedBlocks, orphanedBlocks, endpoints }] of done.retired) {
      metrics.addresses.countBlocks(returnedBlocks + orphanedBlocks);
      log.info('node retired', { node, blocks: returnedBlocks + orphanedBlocks, endpoints });
    }
  }

  /** An event is for people; without it the work goes on. */
  async #tell(
    node: string,
    what: { readonly reason: 'NetplugAddressesLeaked' | 'NetplugAddressesReleased'; readonly message: string },
    signal: AbortSignal,
  ): Promise<void> {
    const { api, clock, random, log } = this.#ports;
    const about = { apiVersion: 'v1', kind: 'Node', name: node };
    const at = new Date(clock.now()).toISOString();
    await recordEvent(api, { about, ...what, at, id: random.id() }, signal).catch((cause: unknown) => {
      if (!signal.aborted) log.warning('event not recorded', { node, reason: reasonOf(cause) });
    });
  }

  /**
   * The report goes first, and with it the claim of the machine to the name. The record is the last that goes: while it is there, the
   * node is known to have been one of the orchestrator.
   */
  async #deleteRecord(node: NodeName, signal: AbortSignal): Promise<void> {
    const { store, live, confirmUnlocked } = this.#ports;
    const found = await Promise.all(RECORDS.map(async (kind) => store.findResource({ kind, name: node }, signal)));
    const records = found.filter((record) => record !== undefined);
    // A node that was made again under the name, since it was retired, has the same records.
    if (records.length === 0 || (await live.standingOf(node, signal)) !== 'gone') return;
    await confirmUnlocked(signal);
    try {
      for (const { kind, metadata } of records) {
        const { resourceVersion } = metadata;
        const which = { kind, name: node, ...(resourceVersion === undefined ? {} : { resourceVersion }) };
        await store.deleteResource(which, signal);
      }
    } catch (cause) {
      if (!isNetplugError(cause, 'resource/changed', 'resource/not-found')) throw cause;
    }
  }
}

function cachedView(
  observed: Observed,
  { nodes, isOwn }: { readonly nodes: Feed; readonly isOwn: boolean },
): CachedView {
  return {
    findPod: (namespace, name): PodPresence | undefined => {
      const [pod] = observed.endpointsOf(PODS, `${namespace}/${name}`);
      if (pod === undefined) return undefined;
      const { podUID, node } = pod.value.spec;
      return { uids: podUID === undefined ? [] : [podUID], node, isFinished: false };
    },
    hasNode: (name) => observed.find(nodes, showResourceId({ kind: 'Node', name })) !== undefined,
    // Names of records are names under which agents registered.
    recordedNodes: () =>
      [...(isOwn ? observed.all(NODE_RECORDS) : [])].flatMap(([, record]) =>
        record.kind === 'resource' && record.value?.kind === 'Node' && isOfOrchestrator(record.value)
          ? [record.which.name as NodeName]
          : [],
      ),
  };
}

function byNode(held: readonly HeldAddress[]): ReadonlyMap<NodeName, readonly HeldAddress[]> {
  return Map.groupBy(held, ({ allocation }) => allocation.node);
}

function listed(held: readonly HeldAddress[]): { readonly count: number; readonly addresses: readonly string[] } {
  return { count: held.length, addresses: held.slice(0, NAMED).map(({ address }) => formatAddress(address)) };
}

function namesOf(held: readonly HeldAddress[]): string {
  const { count, addresses } = listed(held);
  return `${addresses.join(', ')}${count > addresses.length ? ` and ${String(count - addresses.length)} more` : ''}`;
}
