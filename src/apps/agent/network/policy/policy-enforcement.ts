import { BackOff, keepRunning } from '../../../../base/back-off.ts';
import { reasonOf } from '../../../../base/errors.ts';
import { Trigger } from '../../../../base/trigger.ts';
import { followPolicyRecords, PolicyCache } from '../../../../cache/policy-records.ts';
import type { Isolation, SandboxEndpoint } from '../../../../cni/pod-isolation.ts';
import { type FilterTable, hasChanged, type PacketLog } from '../../../../dataplane/policy-filter.ts';
import type { WorkloadEndpoint } from '../../../../model/workload-endpoint.ts';
import { hostEndpointsOf } from '../../../../policy/host-interfaces.ts';
import type { PolicyChange } from '../../../../policy/policy-change.ts';
import { PolicyState } from '../../../../policy/policy-state.ts';
import type { PolicyRuleset } from '../../../../policy/ruleset/policy-ruleset.ts';
import type { AddTime } from '../../network-channel.ts';
import { closeUntilKnown } from './close-until-known.ts';
import { ResyncPace } from './resync-pace.ts';
import { CompiledPolicies } from './compiled-policies.ts';
import type { EnforcementPorts, EnforcementSettings, PolicySettings, PolicyStart } from './enforcement-ports.ts';
import {
  closesIsolated,
  type EnforcementEvent,
  type EnforcementStage,
  isEnforcing,
  nextStage,
} from './enforcement-stage.ts';
import { EnforcementSwitch } from './enforcement-switch.ts';
import { HostLinksReader } from './host-links-reader.ts';
import { LocalPods } from './local-pods.ts';
import { PendingChanges } from './pending-changes.ts';
import { RecordIntake } from './record-intake.ts';
import { SettingsGate } from './settings-gate.ts';

const BACK_OFF = { firstMs: 100, maxMs: 5000, maxRefusedMs: 30_000 };
/** Nodes that lose the datastore together read all policies again within this time, while the kernel enforces those before. */
const SPREAD_MS = 3000;
/** Changes within this time are written together. A pod that waits is not delayed. */
const COALESCE_MS = 20;
/** Interval at which the interfaces of a node with host endpoints are compared with what was compiled. */
const HOST_MS = 1000;

/** Problem of a kernel that lacks the module for a kind of log. */
const MISSING_LOGS: Readonly<Record<PacketLog, string>> = {
  log: 'policy: the kernel lacks the module nf_log_syslog: "Log" rules write nothing to its log',
  report:
    'policy: the kernel lacks the module nfnetlink_log: denied connections are dropped and counted, and not listed or reported as events',
};

/**
 * Enforces the policies of the pods and host endpoints of a node. The kernel keeps what was written when it ends, and while the datastore is
 * unavailable. Until the first snapshot it changes nothing on a host that has the table. On a host without it, a start with
 * `enforce` closes all pods. A pod that switches enforcement on while others run is closed alone: their policies are not known.
 */
export class PolicyEnforcement {
  readonly #ports: EnforcementPorts;
  readonly #state = new PolicyState();
  readonly #cache: PolicyCache;
  readonly #switch: EnforcementSwitch;
  readonly #gate: SettingsGate;
  readonly #pods: LocalPods;
  readonly #flows: ReturnType<EnforcementPorts['flows']>;
  readonly #compiled: CompiledPolicies;
  readonly #pending: PendingChanges;
  readonly #intake: RecordIntake;
  readonly #on = Promise.withResolvers<void>();
  readonly #read = Promise.withResolvers<void>();
  readonly #start: PolicyStart;
  readonly #node: string;
  readonly #host: HostLinksReader;
  #stage: EnforcementStage = { kind: 'off' };
  #watchProblem: string | undefined;
  #writeProblem: string | undefined;
  /** Resolved by the next write of policies. */
  readonly #waiting: (() => void)[] = [];
  /** Another program has changed the table. */
  readonly #disturbed = new Trigger();
  /** Resolved after the next attempt to write. */
  readonly #attempting: ((isRepaired: boolean) => void)[] = [];
  readonly #due = new Trigger();

  constructor(ports: EnforcementPorts, { node, start, policy }: EnforcementSettings) {
    this.#ports = ports;
    this.#cache = new PolicyCache(node);
    this.#pods = new LocalPods(node, ports.listLinks);
    this.#flows = ports.flows(this.#state, async () => this.whole());
    this.#compiled = new CompiledPolicies(ports, this.#state, { node, policy });
    this.#host = new HostLinksReader(ports, this.#compiled);
    this.#pending = new PendingChanges(ports.clock);
    this.#intake = new RecordIntake({
      state: this.#state,
      compiled: this.#compiled,
      pods: this.#pods,
      pending: this.#pending,
      isEnforcing: () => isEnforcing(this.#stage),
    });
    this.#switch = new EnforcementSwitch(ports);
    this.#gate = new SettingsGate(ports);
    this.#start = start;
    this.#node = node;
    if (start === 'enforce') this.#turnOn();
  }

  /** Origins of the rules in the kernel. */
  get origins(): PolicyRuleset['origins'] {
    return this.#compiled.origins;
  }

  /** Number of policies and profiles that deny everything, because they are beyond a budget or cannot be enforced. */
  get closedPolicies(): number {
    return this.#state.closedCount;
  }

  /** Resolves when policies are enforced, or the process ends. */
  get switchedOn(): Promise<void> {
    return this.#on.promise;
  }

  /** Resolves when all policies have been read once, or none is enforced. */
  get policiesRead(): Promise<void> {
    return this.#read.promise;
  }

  get state(): PolicyState {
    return this.#state;
  }

  /** Returns why the current policies may not be in force, a sentence each. */
  failures(): readonly string[] {
    if (this.#stage.kind === 'off') return [];
    const lost = this.#watchProblem === undefined ? undefined : `the policy watch is lost: ${this.#watchProblem}`;
    const unsettled =
      this.#gate.isOpen || !this.#hasHostEndpoints
        ? undefined
        : 'the AgentConfigurations have not been read: host endpoints stay as the last process enforced them, or open';
    const unread = lost ?? (isEnforcing(this.#stage) ? undefined : 'the datastore is being read');
    return [unread, unsettled, this.#writeProblem].flatMap((problem) =>
      problem === undefined ? [] : [`policy: ${problem}`],
    );
  }

  /** Returns a sentence for each part of policies and other records that cannot be used. */
  problems(): readonly string[] {
    if (this.#stage.kind === 'off') return [];
    const missing = [...(this.#compiled.missingLogs ?? [])].map((kind) => MISSING_LOGS[kind]);
    return [...missing, ...this.#pods.problems(), ...[...this.#state.problems.values()].flat()];
  }

  /** Returns how long the oldest change that is known has waited to be in the kernel; 0 when none waits, or none is enforced. */
  get lagMs(): number {
    return this.#stage.kind === 'off' ? 0 : this.#pending.lagMs();
  }

  /** Returns a sentence about changes that are late, unless it is known why nothing is written. */
  late(): readonly string[] {
    return isEnforcing(this.#stage) && this.failures().length === 0 ? this.#pending.problems() : [];
  }

  /** Resolves when no change is half in the state. */
  async whole(): Promise<void> {
    return this.#intake.whole();
  }

  /** Resolves when the policies of the pod are in force, or it is known why they are not. Its ADD is of now unless given. */
  async isolate(endpoint: WorkloadEndpoint, time?: AddTime): Promise<Isolation> {
    this.#turnOn();
    const now = new Date(this.#ports.clock.now()).toISOString();
    this.#intake.take(this.#pods.add(endpoint, time ?? { addedAt: now, isPast: false }));
    if (!isEnforcing(this.#stage) || !closesIsolated(this.#stage)) await this.#next(this.#attempting);
    if (!closesIsolated(this.#stage))
      return { state: 'not enforced', reason: this.#writeProblem ?? 'policies cannot be written' };
    if (!isEnforcing(this.#stage) && this.#watchProblem !== undefined)
      return { state: 'closed', reason: `the datastore has not been read: ${this.#watchProblem}` };
    await this.#next(this.#waiting);
    return { state: 'in force' };
  }

  /** Returns the UID of the pod of this node; undefined when it is not known. */
  podUid(namespace: string, pod: string): string | undefined {
    return this.#pods.uidOf(namespace, pod);
  }

  /**
   * Resolves when nothing matches the endpoint any more; to false while the kernel has policies of an earlier process, which
   * may match it.
   */
  async release(sandbox: SandboxEndpoint): Promise<boolean> {
    const { records, released } = this.#pods.remove(sandbox);
    this.#intake.take(records);
    if (this.#stage.kind === 'off') return true;
    const isKnown = isEnforcing(this.#stage);
    if (isKnown) await this.#next(this.#waiting);
    if (released !== undefined) await this.#endFlows(released);
    return isKnown;
  }

  /** Also while policies are unknown: the next pod with the addresses must not inherit the flows. */
  async #endFlows(released: WorkloadEndpoint): Promise<void> {
    await this.#flows.endAll(released).catch((cause: unknown) => {
      this.#ports.log.warning('flows of a released pod not ended', { reason: reasonOf(cause) });
    });
  }

  /** Compiles all policies anew with other settings. */
  configure(policy: PolicySettings): void {
    this.#compiled.configure(policy);
    this.#due.set();
  }

  /** Takes the interfaces of pods that another plugin has connected, by the text of an address. */
  useLinks(links: ReadonlyMap<string, string>): void {
    this.#intake.take(this.#pods.useLinks(links));
    this.#due.set();
  }

  /** Takes what is shown of the sidecars of pods. */
  useGuards(changes: readonly PolicyChange[]): void {
    this.#intake.take(changes);
    this.#due.set();
  }

  /**
   * Compares the kernel with the desired table, which another program has changed. Resolves after the next attempt, to whether the
   * table was not as it should be, though nothing else was desired before.
   */
  async compare(): Promise<boolean> {
    if (this.#stage.kind === 'off') return false;
    this.#disturbed.set();
    return this.#next(this.#attempting);
  }

  /** Takes a change of the host without delay. */
  noteHostChange(): void {
    this.#due.set();
  }

  async run(signal: AbortSignal): Promise<void> {
    signal.addEventListener('abort', () => this.#on.resolve(), { once: true });
    if (this.#start === 'remove') await this.#switch.remove(signal);
    if (this.#start === 'on demand' && (await this.#switch.hasRules(signal))) this.#turnOn();
    // Nothing is enforced, so nothing is judged either.
    if (this.#stage.kind === 'off') this.#read.resolve();
    await this.#on.promise;
    if (signal.aborted) return;
    void this.#gate.open().then(() => this.#due.set());
    await Promise.all([this.#follow(signal), this.#write(signal), this.#flows.run(signal)]);
  }

  #turnOn(): void {
    this.#advance('switched on');
    this.#on.resolve();
  }

  #advance(event: EnforcementEvent): void {
    this.#stage = nextStage(this.#stage, event);
  }

  async #follow(signal: AbortSignal): Promise<void> {
    const { policyStore, log, clock, random } = this.#ports;
    const work = async (): Promise<void> => {
      if (isEnforcing(this.#stage)) await clock.sleep(random.int(SPREAD_MS), signal);
      for await (const { records, problems } of followPolicyRecords(policyStore, this.#cache, signal)) {
        for (const problem of problems) log.warning('record skipped', { problem });
        this.#watchProblem = undefined;
        await this.#intake.takeInSlices(records);
        if (isEnforcing(this.#stage) && records.length > 0) void this.#wakeLater(signal);
        // Changes are taken meanwhile: they must not queue up while the settings cannot be read.
        if (this.#stage.kind === 'reading') void this.#begin(signal);
      }
    };
    const onFailure = (cause: unknown, failures: number): void => {
      this.#watchProblem = reasonOf(cause);
      if (failures === 1) log.warning('policy watch lost, keeping existing policies', { reason: this.#watchProblem });
    };
    await keepRunning(this.#ports, { work, onFailure }, signal);
  }

  /** Writes the first policies when the settings allow it. */
  async #begin(signal: AbortSignal): Promise<void> {
    this.#advance('datastore read');
    this.#read.resolve();
    // What the last process opened must not close.
    await this.#ports.guardsKnown?.();
    await this.#gate.pass(() => this.#hasHostEndpoints, signal);
    this.#advance('settings passed');
    this.#due.set();
  }

  /** Requests a write, and resolves after the next one that begins from now on; for `attempting` also when it fails. */
  async #next<T>(resolvers: ((outcome: T) => void)[]): Promise<T> {
    const { promise, resolve } = Promise.withResolvers<T>();
    resolvers.push(resolve);
    this.#due.set();
    return promise;
  }

  async #wakeLater(signal: AbortSignal): Promise<void> {
    await this.#ports.clock.sleep(COALESCE_MS, signal).catch(() => undefined);
    this.#due.set();
  }

  async #write(signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#ports;
    const backOff = new BackOff(this.#ports, BACK_OFF);
    const pace = new ResyncPace(clock);
    while (!signal.aborted) {
      this.#due.clear();
      const waiting = isEnforcing(this.#stage) ? this.#waiting.splice(0) : [];
      const attempting = this.#attempting.splice(0);
      const startMs = clock.monotonic();
      const isDisturbed = this.#disturbed.isSet;
      const reread = isDisturbed || pace.compareInMs <= 0;
      this.#disturbed.clear();
      let isRepaired = false;
      try {
        if (this.#compiled.missingLogs === undefined) await this.#tryLogs(signal);
        if (isDisturbed || pace.listInMs <= 0) await this.#list(pace);
        if (isEnforcing(this.#stage)) isRepaired = await this.#writePolicies(signal, reread);
        else await this.#close(signal, reread);
        if (reread) pace.compared(startMs);
        this.#advance('written');
        for (const resolve of waiting) resolve();
        if (this.#writeProblem !== undefined) log.info('policies in force again');
        this.#writeProblem = undefined;
        backOff.succeed();
      } catch (cause) {
        this.#waiting.unshift(...waiting);
        if (signal.aborted) return;
        if (this.#compiled.closeRefused(cause)) {
          this.#attempting.unshift(...attempting);
          continue;
        }
        this.#advance('write failed');
        this.#writeProblem = reasonOf(cause);
        if (backOff.fail(cause) === 1) log.warning('policies not written', { reason: this.#writeProblem });
        pace.forget();
      }
      for (const resolve of attempting) resolve(isRepaired);
      if (this.#writeProblem === undefined) {
        const limitMs = Math.min(pace.listInMs, pace.compareInMs, this.#hasHostEndpoints ? HOST_MS : Infinity);
        await this.#due.wait(signal, { limitMs, clock });
      } else await backOff.wait(signal, this.#disturbed);
    }
  }

  /** A kernel without a module for logs would refuse each rule that denies. */
  async #tryLogs(signal: AbortSignal): Promise<void> {
    const missing = await this.#ports.policyFilter().missingLogs(signal);
    for (const kind of missing) this.#ports.log.warning('rules written without logs', { reason: MISSING_LOGS[kind] });
    this.#compiled.avoidLogs(missing);
    if (missing.size === 0) return;
    await this.whole();
    this.#compiled.compile();
  }

  /** Takes what calls of other processes have recorded, and drops what has been unused for a while. */
  async #list(pace: ResyncPace): Promise<void> {
    pace.listed(this.#ports.clock.monotonic());
    if (this.#compiled.dropUnused()) this.#intake.take([]);
    try {
      const listed = this.#pods.list(await this.#ports.listEndpoints());
      if (listed.length > 0) this.#intake.take(listed);
    } catch (cause) {
      this.#ports.log.warning('attachment records not listed', { reason: reasonOf(cause) });
    }
  }

  /** Reports whether another program had changed the table. */
  async #writePolicies(signal: AbortSignal, reread: boolean): Promise<boolean> {
    await this.#readHost();
    await this.whole();
    this.#pending.send();
    const { table, isTouched } = this.#compiled.send();
    let isChanged: boolean;
    try {
      isChanged = hasChanged(await this.#ports.policyFilter().apply(table, { signal, reread }));
      this.#pending.written();
      if (reread && isChanged) this.#flows.restore();
      else if (isTouched || isChanged) this.#flows.trigger();
    } catch (cause) {
      this.#compiled.unsend(isTouched);
      throw cause;
    }
    this.#advance('unknown pods closed');
    this.#switch.remember();
    for (const ended of this.#pods.takeEnded()) await this.#endFlows(ended);
    return reread && isChanged && !isTouched;
  }

  get #hasHostEndpoints(): boolean {
    return hostEndpointsOf(this.#state, this.#node).length > 0;
  }

  /** Compiles anew when the host has changed. Before the settings are known the compiler gets nothing, and leaves host endpoints out. */
  async #readHost(): Promise<void> {
    if (!this.#hasHostEndpoints || !this.#gate.isOpen) return;
    if (await this.#host.read()) this.#intake.take([]);
  }

  async #close(signal: AbortSignal, reread: boolean): Promise<void> {
    const all = this.#start === 'enforce' ? (): FilterTable => this.#compiled.closed : undefined;
    const { interfaces } = this.#pods;
    if (await closeUntilKnown(this.#ports, { all, interfaces }, { signal, reread }))
      this.#advance('unknown pods closed');
  }
}
