import type { Clock } from '../../../../base/clock.ts';
import { reasonOf } from '../../../../base/errors.ts';
import type { Log } from '../../../../base/log.ts';
import { slices, slicesOf } from '../../../../base/slices.ts';
import { Trigger } from '../../../../base/trigger.ts';
import type { FlowTable, TrackedFlow } from '../../../../dataplane/flow-table.ts';
import type { PolicyFilter } from '../../../../dataplane/policy-filter.ts';
import type { WorkloadEndpoint } from '../../../../model/workload-endpoint.ts';
import type { Address } from '../../../../net/address.ts';
import { tryReadCidr } from '../../../../net/cidr.ts';
import { hostEndpointsOf } from '../../../../policy/host-interfaces.ts';
import type { PolicyView } from '../../../../policy/policy-view.ts';
import { POLICY_TABLE } from '../../../../policy/ruleset/policy-ruleset.ts';
import { type JudgedFlow, packetOf } from '../flows/judge-flow.ts';
import { EndedRecord, type FlowOwner } from './ended-record.ts';
import { localPodAddresses } from './local-pod-addresses.ts';

/** The pause between two examinations: a change is followed by the next one within a second. */
const PAUSE_MS = 300;
/** After a failure, which is usually a kernel without the netlink interface of connection tracking. */
const RETRY_MS = 5000;
/** Number of flows that are judged before other work of the process may run. */
const JUDGED_AT_ONCE = 1000;
const ENDED_AT_ONCE = 1000;

export interface FlowPorts {
  /** Opens the table. @throws kernel/failed */
  readonly flowTable: () => Pick<FlowTable, 'list' | 'end' | 'endAll'>;
  /** Returns a function that says whether policies allow the first packet of a flow on this node, as the host is now. */
  readonly judge: () => Promise<(flow: TrackedFlow) => JudgedFlow>;
  /** Opens the filter, whose changes overlap with no others. @throws kernel/failed */
  readonly filter: () => Pick<PolicyFilter, 'expiring' | 'renew'>;
  /** Whether flows that exist go on when policies no longer allow them; those that only judged requests may use end all the same. */
  readonly isKept: () => boolean;
  /** Resolves when no change is half in the view. */
  readonly whole: () => Promise<void>;
  readonly clock: Clock;
  readonly log: Log;
}

type FlowView = Pick<PolicyView, 'endpoints' | 'endpointsAt' | 'guardedPorts' | 'hostEndpoints'>;

/** Ends the tracked flows of pods and host endpoints of a node that changed policies no longer allow, and all flows of released addresses. */
export class DeniedFlows {
  readonly #ports: FlowPorts;
  readonly #node: string;
  readonly #view: FlowView;
  readonly #due = new Trigger();
  /** Undefined until the kernel was asked what it has. */
  #ended: EndedRecord | undefined;
  /** Another program has changed the table, and with it perhaps what the kernel drops. */
  #mustRestore = false;
  /** Flows that were allowed only where requests are judged may be there still. */
  #hadGuards = false;

  constructor(ports: FlowPorts, node: string, view: FlowView) {
    this.#ports = ports;
    this.#node = node;
    this.#view = view;
  }

  /** Requests an examination. Call it when the kernel has the changed policies: an ended flow is judged anew. */
  trigger(): void {
    this.#due.set();
  }

  /** The same after another program has changed the table: packets of flows that have ended must not pass meanwhile or later. */
  restore(): void {
    this.#mustRestore = true;
    this.#due.set();
  }

  /** @throws kernel/failed */
  async endAll({ spec }: WorkloadEndpoint): Promise<void> {
    await this.#ports.flowTable().endAll(spec.ipNetworks.flatMap((text) => tryReadCidr(text)?.address ?? []));
  }

  /** Examines the flows whenever it is requested. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#ports;
    let failure: string | undefined;
    while (!signal.aborted) {
      await this.#due.wait(signal);
      if (signal.aborted) return;
      this.#due.clear();
      let pauseMs = PAUSE_MS;
      const mustRestore = this.#mustRestore;
      this.#mustRestore = false;
      try {
        await this.#examine(mustRestore ? await this.#restoreEnded() : undefined);
        failure = undefined;
      } catch (cause) {
        this.#due.set();
        this.#mustRestore ||= mustRestore;
        pauseMs = RETRY_MS;
        if (reasonOf(cause) !== failure) log.warning('flows not examined', { reason: reasonOf(cause) });
        failure = reasonOf(cause);
      }
      await clock.sleep(pauseMs, signal).catch(() => undefined);
    }
  }

  /** Ends denied flows, and those that came back while the table was gone, of the record that was restored. */
  async #examine(restored: EndedRecord | undefined): Promise<void> {
    const { judge, isKept, whole, log } = this.#ports;
    this.#hadGuards ||= this.#view.guardedPorts().length > 0;
    if (isKept() && !this.#hadGuards) return;
    await whole();
    const flowTable = this.#ports.flowTable();
    const isAll = hostEndpointsOf(this.#view, this.#node).length > 0;
    const flows = await flowTable.list(isAll ? 'all' : localPodAddresses(this.#view, this.#node));
    const standingOf = await judge();
    // What nothing judges goes on for nobody.
    const ends: readonly JudgedFlow[] = isKept() ? ['unjudged'] : ['denied', 'unjudged'];
    const denied: TrackedFlow[] = [];
    for await (const slice of slices(flows, JUDGED_AT_ONCE)) {
      await whole();
      denied.push(...slice.filter((flow) => ends.includes(standingOf(flow)) || restored?.isRevived(flow) === true));
    }
    if (denied.length === 0) return;
    let ended = 0;
    for (const some of slicesOf(inTurns(denied.map((flow) => ({ flow, owner: this.#ownerOf(flow) }))), ENDED_AT_ONCE)) {
      await this.#dropEnded(some).catch((cause: unknown) => {
        log.warning('packets of ended flows not dropped', { reason: reasonOf(cause) });
      });
      ended += await flowTable.end(some.map(({ flow }) => flow));
    }
    log.info('denied flows ended', { flows: ended });
  }

  /** Makes the kernel drop what the ends of the flows still send, once they are ended. @throws kernel/failed */
  async #dropEnded(flows: Parameters<EndedRecord['add']>[0]): Promise<void> {
    const { clock, filter } = this.#ports;
    const signal = new AbortController().signal;
    for (const isLast of [false, true]) {
      this.#ended ??= await this.#readEnded(signal);
      try {
        return await filter().renew(POLICY_TABLE, this.#ended.add(flows, clock.monotonic()), signal);
      } catch (cause) {
        // What the kernel has may be something else: another program may have removed the table.
        this.#ended = undefined;
        if (isLast) throw cause;
      }
    }
  }

  /** Makes the kernel drop again what it dropped before another program changed the table. @throws kernel/failed */
  async #restoreEnded(): Promise<EndedRecord | undefined> {
    const { clock, filter } = this.#ports;
    const signal = new AbortController().signal;
    const ended = this.#ended;
    if (ended === undefined) return undefined;
    const present = await filter().expiring(POLICY_TABLE, signal);
    await filter().renew(POLICY_TABLE, ended.missing(present, clock.monotonic()), signal);
    return ended;
  }

  async #readEnded(signal: AbortSignal): Promise<EndedRecord> {
    const record = new EndedRecord();
    const present = await this.#ports.filter().expiring(POLICY_TABLE, signal);
    record.load(present, this.#ports.clock.monotonic(), (ends) => this.#ownerOfEnds(ends));
    return record;
  }

  #ownerOf(flow: TrackedFlow): FlowOwner {
    const { source, destination } = packetOf(flow);
    return this.#ownerOfEnds([source, destination]);
  }

  /** Returns the first end that is a pod of the node; else the peer of a host endpoint of the node. */
  #ownerOfEnds(ends: readonly Address[]): FlowOwner {
    for (const address of ends)
      for (const { kind, node, namespace } of this.#view.endpointsAt(address))
        if (kind === 'workload' && node === this.#node && namespace !== undefined) return { namespace, cut: address };
    return { namespace: '', cut: this.#peerOfHost(ends) };
  }

  #peerOfHost(ends: readonly Address[]): Address | undefined {
    const isOfHost = (address: Address): boolean =>
      this.#view.endpointsAt(address).some(({ kind, node }) => kind === 'host' && node === this.#node);
    return ends.some(isOfHost) ? ends.find((address) => !isOfHost(address)) : undefined;
  }
}

/** Returns the flows so that a namespace with many delays no other: one of each in turn. */
function inTurns<T extends { readonly owner: FlowOwner }>(flows: readonly T[]): readonly T[] {
  const byNamespace = Map.groupBy(flows, ({ owner }) => owner.namespace);
  const ranked = [...byNamespace.values()].flatMap((own) => own.map((flow, turn) => ({ flow, turn })));
  return ranked.toSorted((a, b) => a.turn - b.turn).map(({ flow }) => flow);
}
