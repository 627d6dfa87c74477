import { keepRunning, type RetryPorts } from '../../../../base/back-off.ts';
import { reasonOf } from '../../../../base/errors.ts';
import type { Log } from '../../../../base/log.ts';
import { slices } from '../../../../base/slices.ts';
import type { FlowTable, TrackedFlow } from '../../../../dataplane/flow-table.ts';
import type { PacketHeaders } from '../../../../dataplane/packet-headers.ts';
import type { PacketReport, PacketReports } from '../../../../dataplane/packet-reports.ts';
import type { FilterCount } from '../../../../dataplane/policy-filter.ts';
import type {
  FlowsQuestion,
  ShownFlowEnd,
  ShownFlowRule,
  ShownFlows,
  ShownRuleCount,
  FlowVerdict,
} from '../../../../model/shown-flows.ts';
import { type Address, formatAddress, tryParseAddress } from '../../../../net/address.ts';
import { describeOrigin } from '../../../../policy/describe-decision.ts';
import { endAt } from '../../../../policy/evaluate.ts';
import type { JudgedRequests } from '../../../../policy/feed/messages.ts';
import type { PolicyView } from '../../../../policy/policy-view.ts';
import type { PolicyEndpoint } from '../../../../policy/resolved-policy.ts';
import { REPORT_GROUP, type PolicyRuleset, type RuleOrigin } from '../../../../policy/ruleset/policy-ruleset.ts';
import type { DenialEvents } from './denial-events.ts';
import { FlowRecord, type ObservedFlow, timeText } from './flow-record.ts';
import { packetOf } from './judge-flow.ts';
import { localPodAddresses } from '../policy/local-pod-addresses.ts';
import { RuleCounters } from './rule-counters.ts';

const TCP = 6;
const NO_RULE = 'no rule of the policies that apply to the pod allows the request';
const COUNTERS_MS = 5000;
const MOST_COUNTED = 1000;
const TRACKED_MS = 30_000;
/** A reading is followed by a pause so many times as long, which bounds the share of the processor. */
const PAUSE_FACTOR = 100;
const RECORDED_AT_ONCE = 100;
const READ_TIMEOUT_MS = 10_000;
/** Time for which the addresses of the node are used at least before they are read again. */
const HOST_MS = 1000;

export interface ObserverPorts extends RetryPorts {
  readonly log: Log;
  readonly reports: PacketReports;
  /** Reads the counters of the rules of policies. @throws kernel/failed */
  readonly readCounts: (signal: AbortSignal) => Promise<readonly FilterCount[]>;
  /** @throws kernel/failed */
  readonly flowTable: () => Pick<FlowTable, 'list'>;
  /** Returns canonical texts of the addresses that the node itself has. @throws kernel/failed */
  readonly hostAddresses: () => Promise<ReadonlySet<string>>;
  /** Undefined where pods are not objects of an orchestrator. */
  readonly events: Pick<DenialEvents, 'report'> | undefined;
}

/** Policies that the node enforces now. */
export interface EnforcedPolicies {
  readonly state: PolicyView;
  readonly origins: PolicyRuleset['origins'];
  /** Resolves when policies are enforced. */
  readonly switchedOn: Promise<void>;
}

/** Packets that rules of a policy have counted, for metrics. */
export interface PolicyPackets {
  readonly verdict: ShownRuleCount['verdict'];
  readonly policy: string;
  readonly direction: 'ingress' | 'egress';
  readonly packets: number;
}

export interface FlowStanding {
  readonly packets: readonly PolicyPackets[];
  readonly lostReports: number;
  readonly requests: readonly PolicyRequests[];
}

/** Requests that sidecars said they judged, since the start. */
export interface PolicyRequests {
  readonly verdict: 'allowed' | 'denied';
  /** `none` where no single policy decided. */
  readonly policy: string;
  readonly count: number;
}

/**
 * Records the flows of the pods of a node: those that policies deny or log, from packets that the kernel reports, and those that it
 * tracks. Reports are limited per rule by the kernel, so the counts of flows are samples; the counters of rules are exact.
 */
export class FlowObserver {
  readonly #ports: ObserverPorts;
  readonly #policies: EnforcedPolicies;
  readonly #node: string;
  readonly #reported = new FlowRecord();
  readonly #tracked = new FlowRecord();
  readonly #requests = new FlowRecord();
  /** By verdict and policy. */
  readonly #requestCounts = new Map<string, PolicyRequests>();
  readonly #counters = new RuleCounters();
  /** Tracked flows of the last reading, by their first packet. */
  #lastTracked: ReadonlySet<string> = new Set();
  /** Canonical texts. */
  #hostAddresses: ReadonlySet<string> = new Set();
  #hostDueMs = Number.NEGATIVE_INFINITY;
  #recordedSinceMs: number;
  #lostReports = 0;

  constructor(ports: ObserverPorts, node: string, policies: EnforcedPolicies) {
    this.#ports = ports;
    this.#node = node;
    this.#policies = policies;
    this.#recordedSinceMs = ports.clock.now();
  }

  /** Records from the moment when policies are enforced until the signal aborts. Failures are logged and retried. */
  async run(signal: AbortSignal): Promise<void> {
    await this.#policies.switchedOn;
    if (signal.aborted) return;
    this.#recordedSinceMs = this.#ports.clock.now();
    await this.#readHost();
    await Promise.all([
      this.#listen(signal),
      this.#repeat({ name: 'counters of policies', periodMs: COUNTERS_MS, read: this.#readCounters }, signal),
      this.#repeat({ name: 'tracked flows', periodMs: TRACKED_MS, read: this.#readTracked }, signal),
    ]);
  }

  /** Returns the flows that match, as they are now. */
  async show(question: FlowsQuestion): Promise<ShownFlows> {
    const { clock } = this.#ports;
    const { verdicts } = question;
    // What cannot be read now was read before.
    if (verdicts.includes('allowed')) await this.#readTracked().catch(() => undefined);
    await this.#readCounters().catch(() => undefined);
    const nowMs = clock.now();
    const flows = [this.#reported, this.#tracked, this.#requests].flatMap((record) => record.list(question, nowMs));
    return {
      node: this.#node,
      recordedSince: timeText(this.#recordedSinceMs),
      flows: flows.toSorted((a, b) => (a.lastSeen < b.lastSeen ? -1 : Number(a.lastSeen > b.lastSeen))),
      rules: [...this.#ruleCounts()].filter(({ verdict }) => verdicts.includes(verdict)),
      lostReports: this.#lostReports,
      forgotten: this.#reported.forgotten + this.#tracked.forgotten + this.#requests.forgotten,
    };
  }

  /** Takes requests that the sidecar of a pod has judged. */
  noteRequests(endpoint: PolicyEndpoint, requests: readonly JudgedRequests[]): void {
    const { shown: pod, addresses } = endpoint;
    const known = this.#ownersOf(endpoint);
    for (const { verdict, source, port, count, policy: named, index, method, path, account, note } of requests) {
      // Whatever runs in the pod may say so.
      const policy = named !== undefined && known.has(named) ? named : undefined;
      this.#countRequests({ verdict: verdict === 'allow' ? 'allowed' : 'denied', policy: policy ?? 'none', count });
      const from = tryParseAddress(source);
      if (verdict === 'allow' || from === undefined) continue;
      const address = addresses.find(({ family }) => family === from.family);
      if (address === undefined) continue;
      const flow: ObservedFlow = {
        verdict: 'denied',
        source: this.#endAt(from),
        destination: { address: formatAddress(address), pod },
        protocol: TCP,
        port,
        request: {
          method,
          path,
          ...(account === undefined ? {} : { account }),
          ...(note === undefined ? {} : { note }),
        },
      };
      const place = policy === undefined || index === undefined ? {} : { policy, place: `ingress[${String(index)}]` };
      const decided = policy === undefined ? NO_RULE : `${policy} denies it`;
      const reason = note === undefined ? decided : `${decided}; ${note}`;
      const ruleOf = (): ShownFlowRule => ({ direction: 'ingress', ...place, reason });
      this.#requests.add({ flow, group: pod, count }, this.#ports.clock.now(), ruleOf);
    }
  }

  /** Returns the policies and profiles whose rules decide about what reaches the endpoint. */
  #ownersOf(endpoint: PolicyEndpoint): ReadonlySet<string> {
    const { state } = this.#policies;
    const policies = state.tiers.flatMap((tier) => state.policiesOf(endpoint, tier, 'ingress').map(({ id }) => id));
    return new Set([...policies, ...endpoint.profiles.map((name) => `Profile ${name}`)]);
  }

  /** Policies come and go: those beyond a limit are counted together. */
  #countRequests({ verdict, policy: named, count }: PolicyRequests): void {
    const policy =
      this.#requestCounts.size < MOST_COUNTED || this.#requestCounts.has(`${verdict} ${named}`) ? named : 'other';
    const key = `${verdict} ${policy}`;
    const before = this.#requestCounts.get(key)?.count ?? 0;
    this.#requestCounts.set(key, { verdict, policy, count: before + count });
  }

  /** The counters as they were read last. */
  standing(): FlowStanding {
    const sums = new Map<string, PolicyPackets>();
    for (const { verdict, rule, packets } of this.#ruleCounts()) {
      const { direction, policy = 'none' } = rule;
      const key = `${verdict} ${direction} ${policy}`;
      sums.set(key, { verdict, policy, direction, packets: packets + (sums.get(key)?.packets ?? 0) });
    }
    const requests = [...this.#requestCounts.values()];
    return { packets: [...sums.values()], lostReports: this.#lostReports, requests };
  }

  *#ruleCounts(): Generator<ShownRuleCount> {
    for (const { origin, packets } of this.#counters.list()) {
      const verdict = verdictOfOrigin(origin);
      if (verdict !== undefined) yield { verdict, rule: this.#ruleOf(origin, undefined), packets };
    }
  }

  #ruleOf(origin: RuleOrigin, endpoint: PolicyEndpoint | undefined): ShownFlowRule {
    return { direction: origin.direction, ...describeOrigin(this.#policies.state, origin, endpoint) };
  }

  async #listen(signal: AbortSignal): Promise<void> {
    const { reports, log } = this.#ports;
    const work = async (): Promise<void> => {
      const { promise: ended, reject, resolve } = Promise.withResolvers<void>();
      signal.addEventListener('abort', () => resolve(), { once: true });
      using _watch = reports.watch(REPORT_GROUP, (report) => {
        if (report.kind === 'ended') reject(new Error(report.reason));
        else this.#take(report);
      });
      await ended;
    };
    const onFailure = (cause: unknown, failures: number): void => {
      if (failures === 1) log.warning('reports of denied packets not received', { reason: reasonOf(cause) });
    };
    await keepRunning(this.#ports, { work, onFailure }, signal);
  }

  #take(report: Exclude<PacketReport, { readonly kind: 'ended' }>): void {
    if (report.kind === 'lost') {
      this.#lostReports += report.packets;
      return;
    }
    const { prefix, headers } = report;
    const origin = this.#policies.origins.get(prefix);
    const verdict = origin && verdictOfOrigin(origin);
    // The rule was removed while its report was on the way, or another program uses the group.
    if (origin === undefined || verdict === undefined) return;
    const { source, destination } = headers;
    const ends = { source: this.#endAt(source), destination: this.#endAt(destination) };
    const flow: ObservedFlow = { verdict, ...ends, ...trafficOf(headers) };
    const isForwarded = origin.kind === 'tier' && origin.isForwarded === true;
    const own = isForwarded
      ? undefined
      : endAt(this.#policies.state, origin.direction === 'egress' ? source : destination).pod;
    const ruleOf = (): ShownFlowRule => this.#ruleOf(origin, own);
    const group = `${prefix} ${own?.key ?? ''}`;
    this.#reported.add({ flow, group, count: 1, origin }, this.#ports.clock.now(), ruleOf);
    const { direction } = origin;
    if (verdict === 'denied' && !isForwarded)
      void this.#ports.events?.report(flow, { id: prefix, direction, reason: () => placeOf(ruleOf()) });
  }

  #endAt(address: Address): ShownFlowEnd {
    const text = formatAddress(address);
    if (this.#isOfHost(text)) return { address: text, host: this.#node };
    const { pod } = endAt(this.#policies.state, address);
    return { address: text, ...(pod === undefined ? {} : { pod: pod.shown }) };
  }

  /** Uses the addresses as they were read last, and lets them be read again when that was long ago. */
  #isOfHost(address: string): boolean {
    if (this.#ports.clock.monotonic() > this.#hostDueMs) void this.#readHost();
    return this.#hostAddresses.has(address);
  }

  async #readHost(): Promise<void> {
    const { clock, hostAddresses } = this.#ports;
    const startMs = clock.monotonic();
    this.#hostDueMs = Number.POSITIVE_INFINITY;
    // What cannot be read now was read before.
    await hostAddresses().then(
      (addresses) => (this.#hostAddresses = addresses),
      () => undefined,
    );
    const endMs = clock.monotonic();
    this.#hostDueMs = endMs + Math.max(HOST_MS, PAUSE_FACTOR * (endMs - startMs));
  }

  readonly #readCounters = shared(async () => {
    const counts = await this.#ports.readCounts(AbortSignal.timeout(READ_TIMEOUT_MS));
    this.#counters.add(counts, this.#policies.origins);
  });

  readonly #readTracked = shared(async () => this.#recordAllTracked());

  async #recordAllTracked(): Promise<void> {
    const { flowTable, clock } = this.#ports;
    const flows = await flowTable().list(localPodAddresses(this.#policies.state, this.#node));
    const tracked = new Set<string>();
    for await (const slice of slices(flows, RECORDED_AT_ONCE))
      for (const flow of slice) {
        const key = Buffer.from(flow.handle).toString('latin1');
        tracked.add(key);
        this.#recordTracked(flow, { isNew: !this.#lastTracked.has(key), atMs: clock.now() });
      }
    this.#lastTracked = tracked;
  }

  #recordTracked(tracked: TrackedFlow, { isNew, atMs }: { readonly isNew: boolean; readonly atMs: number }): void {
    const { source, destination, protocol, destinationPort: port, icmp } = packetOf(tracked);
    const flow: ObservedFlow = {
      verdict: 'allowed',
      source: this.#endAt(source),
      destination: this.#endAt(destination),
      protocol,
      ...(port === undefined ? {} : { port }),
      ...(icmp === undefined ? {} : { icmp }),
      isReplied: tracked.isReplied,
    };
    const group = flow.source.pod ?? flow.destination.pod ?? '';
    this.#tracked.add({ flow, group, count: isNew ? 1 : 0 }, atMs, () => undefined);
  }

  async #repeat(
    { name, periodMs, read }: { readonly name: string; readonly periodMs: number; readonly read: () => Promise<void> },
    signal: AbortSignal,
  ): Promise<void> {
    const { clock, log } = this.#ports;
    let failure: string | undefined;
    while (!signal.aborted) {
      const startMs = clock.monotonic();
      try {
        await read();
        failure = undefined;
      } catch (cause) {
        if (!signal.aborted && reasonOf(cause) !== failure)
          log.warning(`${name} not read`, { reason: reasonOf(cause) });
        failure = reasonOf(cause);
      }
      const tookMs = clock.monotonic() - startMs;
      await clock.sleep(Math.max(periodMs, PAUSE_FACTOR * tookMs), signal).catch(() => undefined);
    }
  }
}

/** Returns a function that reads, or joins the reading that runs. */
function shared(read: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined;
  return async () => {
    running ??= read().finally(() => {
      running = undefined;
    });
    return running;
  };
}

function trafficOf({ protocol, ports, icmp }: PacketHeaders): Pick<ObservedFlow, 'protocol' | 'port' | 'icmp'> {
  return {
    protocol,
    ...(ports === undefined ? {} : { port: ports.destination }),
    ...(icmp === undefined ? {} : { icmp: { type: icmp.type, code: icmp.code } }),
  };
}

/** Names policy and rule without its text: users of a namespace need not learn what policies of others contain. */
function placeOf({ policy, place, reason }: ShownFlowRule): string {
  return policy === undefined || place === undefined ? reason : `${policy}, ${place}`;
}

const STAGED = { Allow: 'staged allow', Deny: 'staged deny', Log: 'staged log', Pass: undefined } as const;

/** Returns what a rule of that origin does with packets; undefined for a rule that neither denies, logs nor is staged. */
function verdictOfOrigin(origin: RuleOrigin): Exclude<FlowVerdict, 'allowed'> | undefined {
  if (origin.kind === 'staged tier') return 'staged deny';
  if (origin.kind !== 'policy' && origin.kind !== 'profile') return 'denied';
  const { action } = origin.rule;
  if (origin.isStaged) return STAGED[action];
  if (action === 'Deny') return 'denied';
  return action === 'Log' ? 'logged' : undefined;
}
