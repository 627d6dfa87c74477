import { isDeepStrictEqual } from 'node:util';
import { BackOff, type RetryPorts } from '../../../base/back-off.ts';
import { isNetplugError, reasonOf } from '../../../base/errors.ts';
import type { Log } from '../../../base/log.ts';
import { followPolicyRecords, type PolicyRecord } from '../../../cache/policy-records.ts';
import { RecordCache } from '../../../cache/record-cache.ts';
import type { Isolation, SandboxEndpoint } from '../../../cni/pod-isolation.ts';
import type { EffectiveSettings } from '../../../config/agent-settings.ts';
import type { FilterTable, PolicyFilter } from '../../../dataplane/policy-filter.ts';
import type { FollowStore } from '../../../datastore/follow.ts';
import type { WorkloadEndpoint } from '../../../model/workload-endpoint.ts';
import type { PolicyRule } from '../../../policy/resolved-policy.ts';
import { PolicyState } from '../../../policy/policy-state.ts';
import type { PolicyView, TouchedPolicy } from '../../../policy/policy-view.ts';
import { closedInterfaces, closedTable, closesUnknown } from '../../../policy/ruleset/base-chains.ts';
import { hostEndpointsOf } from '../../../policy/host-interfaces.ts';
import { enforcesHosts } from '../../../policy/ruleset/host-chains.ts';
import { type HostLinks, POLICY_TABLE, type PolicyRuleset } from '../../../policy/ruleset/policy-ruleset.ts';
import { type RuleOwner, UnusableRules } from '../../../policy/unusable-rules.ts';
import type { DeniedFlows } from './denied-flows.ts';
import { type ListedEndpoints, LocalPods } from './local-pods.ts';

const BACK_OFF = { firstMs: 100, maxMs: 5000, maxRefusedMs: 30_000 };
/** Changes within this time are written together. A pod that waits is not delayed. */
const COALESCE_MS = 20;
/** How long the first policies wait for the settings of the agent, which another watch brings. */
const SETTINGS_MS = 5000;
/** How many records are applied before other work may run. */
const AT_ONCE = 200;
/** How often the kernel is compared with the desired table, however often that changes. */
const RESYNC_MS = 10_000;
/** How often the interfaces of a node with host endpoints are compared with what was compiled. */
const HOST_MS = 1000;

/** Compiles the policies of a node change by change. */
export interface PolicyCompiler {
  /** `touched` says what has changed since the last call; undefined for the first one, and after a failure. */
  compile(view: PolicyView, touched?: TouchedPolicy): PolicyRuleset;
  /** What host endpoints meet from the next call on. Until then they are left out. */
  useHost(facts: HostLinks): void;
}

/** Settings that the rules of policies depend on. */
export type PolicySettings = Pick<
  EffectiveSettings,
  'policyLogPrefix' | 'defaultEndpointToHostAction' | 'failsafeInboundHostPorts' | 'failsafeOutboundHostPorts'
>;

export interface EnforcementPorts extends RetryPorts {
  readonly log: Log;
  readonly policyStore: FollowStore;
  /** Resolves when the settings of the agent have been read for the first time. */
  readonly settingsRead: Promise<void>;
  /** Opens the filter. @throws kernel/failed */
  readonly policyFilter: () => Pick<PolicyFilter, 'apply' | 'ruleIds' | 'remove'>;
  readonly compilerFor: (settings: PolicySettings) => PolicyCompiler;
  /** Lists the endpoints that only the node has recorded. */
  readonly listEndpoints: () => Promise<ListedEndpoints>;
  /** @throws kernel/failed */
  readonly readHost: () => Promise<HostLinks>;
  /** `whole` resolves when no part of a change is missing in the state. */
  readonly flows: (state: PolicyState, whole: () => Promise<void>) => Pick<DeniedFlows, 'trigger' | 'endAll' | 'run'>;
  /** Remembers on the node that policies are enforced. */
  readonly rememberOn: () => void;
  readonly forgetOn: () => void;
}

/**
 * What to do with policies at the start: `enforce` them; `on demand`, enforce them from the first pod that is isolated, or when
 * the kernel has rules of an earlier process; `remove` what was enforced before; `ignore` them.
 */
export type PolicyStart = 'enforce' | 'on demand' | 'remove' | 'ignore';

export interface EnforcementSettings {
  readonly node: string;
  readonly policy: PolicySettings;
  readonly start: PolicyStart;
}

/**
 * Enforces the policies of the pods and host endpoints of a node. The kernel keeps what was written when it ends, and while the datastore is
 * unavailable. Until the first snapshot it changes nothing on a host that has the table. On a host without it, a start with
 * `enforce` closes all pods. A pod that switches enforcement on while others run is closed alone: their policies are not known.
 */
export class PolicyEnforcement {
  readonly #ports: EnforcementPorts;
  readonly #state = new PolicyState();
  readonly #cache = new RecordCache();
  readonly #pods: LocalPods;
  readonly #flows: ReturnType<EnforcementPorts['flows']>;
  #compiler: PolicyCompiler;
  readonly #on = Promise.withResolvers<void>();
  readonly #start: PolicyStart;
  readonly #node: string;
  #facts: HostLinks | undefined;
  #hostProblem: string | undefined;
  #areSettingsKnown = false;
  #isOn = false;
  #isRemembered = false;
  #isMemoryFailing = false;
  #ruleset: PolicyRuleset;
  /** What was written last, or refused. */
  #sent: PolicyRuleset;
  /** Whether the ruleset is that of the state. */
  #isCompiled = true;
  #hasSnapshot = false;
  /** Resolved when all slices of a change are in the state. Until then nothing is compiled, written or judged. */
  #taking: Promise<void> | undefined;
  #watchProblem: string | undefined;
  #writeProblem: string | undefined;
  /** The kernel closes every pod that was isolated and whose policies it does not have. */
  #isClosed = false;
  /** The kernel closes every pod that it does not know. */
  #isUnknownClosed = false;
  /** Policies, endpoints or what they depend on have changed since the last write. */
  #isTouched = false;
  /** Resolved by the next write of policies. */
  #waiting: (() => void)[] = [];
  /** Resolved after the next attempt to write. */
  #attempting: (() => void)[] = [];
  #isDue = false;
  #wake: () => void = () => undefined;
  #settle: AbortController = new AbortController();

  constructor(ports: EnforcementPorts, { node, start, policy }: EnforcementSettings) {
    this.#ports = ports;
    this.#pods = new LocalPods(node);
    this.#flows = ports.flows(this.#state, async () => this.#whole());
    this.#compiler = ports.compilerFor(policy);
    this.#ruleset = this.#compiler.compile(this.#state);
    this.#sent = this.#ruleset;
    this.#start = start;
    this.#node = node;
    if (start === 'enforce') this.#turnOn();
  }

  /** What the rules in the kernel come from. */
  get origins(): PolicyRuleset['origins'] {
    return this.#ruleset.origins;
  }

  /** Resolves when policies are enforced, or the process ends. */
  get switchedOn(): Promise<void> {
    return this.#on.promise;
  }

  get state(): PolicyState {
    return this.#state;
  }

  /** Why the current policies may not be in force, a sentence each. */
  failures(): readonly string[] {
    if (!this.#isOn) return [];
    const lost = this.#watchProblem === undefined ? undefined : `the policy watch is lost: ${this.#watchProblem}`;
    const unsettled =
      this.#areSettingsKnown || !this.#hasHostEndpoints
        ? undefined
        : 'the AgentConfigurations have not been read: host endpoints stay as the last process enforced them, or open';
    const unread = lost ?? (this.#hasSnapshot ? undefined : 'the datastore is being read');
    return [unread, unsettled, this.#writeProblem].flatMap((problem) =>
      problem === undefined ? [] : [`policy: ${problem}`],
    );
  }

  /** What cannot be used of policies and other records, a sentence each. */
  problems(): readonly string[] {
    return this.#isOn ? [...this.#state.problems.values()].flat() : [];
  }

  /** Resolves when the policies of the pod are in force, or it is known why they are not. */
  async isolate(endpoint: WorkloadEndpoint): Promise<Isolation> {
    this.#turnOn();
    this.#take(this.#pods.add(endpoint, new Date(this.#ports.clock.now()).toISOString()));
    if (!this.#hasSnapshot || !this.#isClosed) await this.#attempted();
    if (!this.#isClosed) return { state: 'not enforced', reason: this.#writeProblem ?? 'policies cannot be written' };
    if (!this.#hasSnapshot && this.#watchProblem !== undefined)
      return { state: 'closed', reason: `the datastore has not been read: ${this.#watchProblem}` };
    await this.#written();
    return { state: 'in force' };
  }

  /** Returns the UID of the pod of this node; undefined when it is not known. */
  podUid(namespace: string, pod: string): string | undefined {
    return this.#pods.uidOf(namespace, pod);
  }

  /** Resolves when nothing matches the endpoint any more. */
  async release(sandbox: SandboxEndpoint): Promise<void> {
    const { records, released } = this.#pods.remove(sandbox);
    this.#take(records);
    if (!this.#isOn || !this.#hasSnapshot) return;
    await this.#written();
    if (released === undefined) return;
    await this.#flows.endAll(released).catch((cause: unknown) => {
      this.#ports.log.warning('flows of a released pod not ended', { reason: reasonOf(cause) });
    });
  }

  /** Compiles all policies anew with other settings. */
  configure(policy: PolicySettings): void {
    this.#compiler = this.#ports.compilerFor(policy);
    if (this.#facts !== undefined) this.#compiler.useHost(this.#facts);
    this.#isCompiled = false;
    this.#isTouched = true;
    this.#trigger();
  }

  async run(signal: AbortSignal): Promise<void> {
    signal.addEventListener('abort', () => this.#on.resolve(), { once: true });
    if (this.#start === 'remove') await this.#remove(signal);
    if (this.#start === 'on demand') await this.#resume(signal);
    await this.#on.promise;
    if (signal.aborted) return;
    void this.#takeSettings();
    await Promise.all([this.#follow(signal), this.#write(signal), this.#flows.run(signal)]);
  }

  #turnOn(): void {
    if (this.#isOn) return;
    this.#isOn = true;
    this.#on.resolve();
  }

  /** Removes what an earlier process enforced: the rules first, so that the node remembers it until they are removed. */
  async #remove(signal: AbortSignal): Promise<void> {
    const { policyFilter, forgetOn, log } = this.#ports;
    const backOff = new BackOff(this.#ports, BACK_OFF);
    while (!signal.aborted) {
      try {
        await policyFilter().remove(POLICY_TABLE, signal);
        forgetOn();
        // A call without an agent may have closed the pods again while the node remembered.
        await policyFilter().remove(POLICY_TABLE, signal);
        return;
      } catch (cause) {
        if (signal.aborted) return;
        if (backOff.fail(cause) === 1) log.warning('policies not removed', { reason: reasonOf(cause) });
        await backOff.wait(signal);
      }
    }
  }

  /** Switches enforcement on when an earlier process ended before the node remembered it. */
  async #resume(signal: AbortSignal): Promise<void> {
    const { policyFilter, log } = this.#ports;
    try {
      if ((await policyFilter().ruleIds(POLICY_TABLE, signal)).size > 0) this.#turnOn();
    } catch (cause) {
      if (!signal.aborted) log.warning('policy table not read', { reason: reasonOf(cause) });
    }
  }

  /** Retried by each write. A failure is not one of policies: they are in force, but not after a reboot. */
  #remember(): void {
    if (this.#isRemembered) return;
    try {
      this.#ports.rememberOn();
      this.#isRemembered = true;
    } catch (cause) {
      if (!this.#isMemoryFailing)
        this.#ports.log.warning('enforcement of policies not remembered', { reason: reasonOf(cause) });
      this.#isMemoryFailing = true;
    }
  }

  async #follow(signal: AbortSignal): Promise<void> {
    const { policyStore, log } = this.#ports;
    const backOff = new BackOff(this.#ports, BACK_OFF);
    while (!signal.aborted) {
      backOff.start();
      try {
        for await (const { records, problems } of followPolicyRecords(policyStore, this.#cache, signal)) {
          for (const problem of problems) log.warning('record skipped', { problem });
          this.#watchProblem = undefined;
          await this.#takeInSlices(records);
          if (this.#hasSnapshot) {
            if (records.length > 0) void this.#wakeLater(signal);
            continue;
          }
          await this.#untilSettings(signal);
          this.#hasSnapshot = true;
          this.#trigger();
        }
      } catch (cause) {
        if (signal.aborted) return;
        this.#watchProblem = reasonOf(cause);
        if (backOff.fail(cause) === 1)
          log.warning('policy watch lost, keeping existing policies', { reason: this.#watchProblem });
      }
      await backOff.wait(signal);
    }
  }

  /**
   * Policies of other settings would end flows, and drop packets to the host, for a moment. Built-in failsafe ports may lock the
   * administrator out: host endpoints that an earlier process enforces stay until the settings are known, with all that is in its table.
   */
  async #untilSettings(signal: AbortSignal): Promise<void> {
    const { settingsRead, clock, log } = this.#ports;
    const over = new AbortController();
    const limit = clock.sleep(SETTINGS_MS, AbortSignal.any([signal, over.signal])).catch(() => undefined);
    await Promise.race([settingsRead, limit]);
    over.abort();
    if (this.#areSettingsKnown || signal.aborted) return;
    const isKept = this.#hasHostEndpoints && (await this.#hasHostRules(signal));
    log.warning('settings not read', {
      waitedMs: SETTINGS_MS,
      policies: isKept ? 'as before' : 'with built-in settings',
    });
    if (!isKept) return;
    const { promise: ended, resolve: end } = Promise.withResolvers<void>();
    signal.addEventListener('abort', () => end(), { once: true });
    await Promise.race([settingsRead, ended]);
  }

  /** Reports whether the kernel enforces host endpoints, or cannot say. */
  async #hasHostRules(signal: AbortSignal): Promise<boolean> {
    try {
      return enforcesHosts(await this.#ports.policyFilter().ruleIds(POLICY_TABLE, signal));
    } catch {
      return true;
    }
  }

  async #takeSettings(): Promise<void> {
    await this.#ports.settingsRead;
    this.#areSettingsKnown = true;
    this.#trigger();
  }

  #take(records: readonly PolicyRecord[]): void {
    const touched = this.#state.apply(records);
    this.#isTouched ||= Object.values(touched).some(({ size }) => size > 0);
    // A part of a snapshot or of another large change is not written.
    if (this.#hasSnapshot && this.#taking === undefined) this.#compile(this.#isCompiled ? touched : undefined);
    else this.#isCompiled = false;
  }

  /** Lets other work of the process run in between: a snapshot may have 10 000 pods. */
  async #takeInSlices(records: readonly PolicyRecord[]): Promise<void> {
    if (records.length <= AT_ONCE) return this.#take(this.#pods.join(records));
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#taking = promise;
    try {
      for (let at = 0; at < records.length; at += AT_ONCE) {
        if (at > 0) await new Promise((next) => setImmediate(next));
        // A pod may have come or gone meanwhile.
        this.#take(this.#pods.join(records.slice(at, at + AT_ONCE)));
      }
    } finally {
      this.#taking = undefined;
      resolve();
    }
  }

  /** Resolves when no change is half in the state. */
  async #whole(): Promise<void> {
    while (this.#taking !== undefined) await this.#taking;
  }

  /** Rules that cannot be compiled close what they apply to; they must not stop the rules of others. */
  #compile(touched?: TouchedPolicy): void {
    try {
      this.#isCompiled = false;
      this.#ruleset = this.#compiler.compile(this.#state, touched);
      this.#isCompiled = true;
    } catch (cause) {
      if (!(cause instanceof UnusableRules) || !this.#closeRules(cause.owner, cause.message)) throw cause;
      this.#compile();
    }
  }

  /** Reports whether there was something to close. */
  #closeRules({ kind, name }: RuleOwner, reason: string, rule?: PolicyRule): boolean {
    if (this.#state.close({ kind, name }, reason, rule) === undefined) return false;
    this.#isTouched = true;
    this.#ports.log.error('rules not enforced, everything they apply to is closed', { [kind]: name, reason });
    return true;
  }

  /** Closes the policy or profile of the rule that the kernel refuses. Reports whether there is one that still has the rule. */
  #closeRefused(cause: unknown): boolean {
    if (!isNetplugError(cause)) return false;
    const origin = this.#sent.origins.get(String(cause.facts['rule']));
    if (origin === undefined || (origin.kind !== 'policy' && origin.kind !== 'profile')) return false;
    if (!this.#closeRules(origin, cause.message, origin.rule)) return false;
    this.#isCompiled = false;
    return true;
  }

  /** Resolves after the next write that begins from now on. */
  async #written(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.push(resolve);
    this.#trigger();
    return promise;
  }

  /** Resolves after the next attempt to write that begins from now on, also when it fails. */
  async #attempted(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#attempting.push(resolve);
    this.#trigger();
    return promise;
  }

  #trigger(): void {
    this.#isDue = true;
    this.#wake();
  }

  async #wakeLater(signal: AbortSignal): Promise<void> {
    await this.#ports.clock.sleep(COALESCE_MS, signal).catch(() => undefined);
    this.#trigger();
  }

  async #write(signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#ports;
    const backOff = new BackOff(this.#ports, BACK_OFF);
    let readMs = Number.NEGATIVE_INFINITY;
    while (!signal.aborted) {
      this.#isDue = false;
      const waiting = this.#hasSnapshot ? this.#waiting.splice(0) : [];
      const attempting = this.#attempting.splice(0);
      const startMs = clock.monotonic();
      const reread = startMs - readMs >= RESYNC_MS;
      try {
        if (reread) await this.#list();
        if (this.#hasSnapshot) await this.#writePolicies(signal, reread);
        else await this.#close(signal, reread);
        if (reread) readMs = startMs;
        this.#isClosed = true;
        for (const resolve of waiting) resolve();
        if (this.#writeProblem !== undefined) log.info('policies in force again');
        this.#writeProblem = undefined;
        backOff.succeed();
      } catch (cause) {
        this.#waiting.unshift(...waiting);
        if (signal.aborted) return;
        if (this.#closeRefused(cause)) {
          this.#attempting.unshift(...attempting);
          continue;
        }
        this.#isClosed = this.#isUnknownClosed;
        this.#writeProblem = reasonOf(cause);
        if (backOff.fail(cause) === 1) log.warning('policies not written', { reason: this.#writeProblem });
        readMs = Number.NEGATIVE_INFINITY;
      }
      for (const resolve of attempting) resolve();
      if (this.#writeProblem === undefined) {
        const limitMs = RESYNC_MS - (clock.monotonic() - readMs);
        await this.#untilDue(signal, this.#hasHostEndpoints ? Math.min(limitMs, HOST_MS) : limitMs);
      } else await backOff.wait(signal);
    }
  }

  /** Takes what calls of other processes have recorded. */
  async #list(): Promise<void> {
    try {
      const listed = this.#pods.list(await this.#ports.listEndpoints());
      if (listed.length > 0) this.#take(listed);
    } catch (cause) {
      this.#ports.log.warning('attachment records not listed', { reason: reasonOf(cause) });
    }
  }

  async #writePolicies(signal: AbortSignal, reread: boolean): Promise<void> {
    await this.#readHost();
    await this.#whole();
    if (!this.#isCompiled) this.#compile();
    const isTouched = this.#isTouched;
    this.#isTouched = false;
    this.#sent = this.#ruleset;
    try {
      const { chains, sets, elements } = await this.#apply(this.#sent.table, { signal, reread });
      if (isTouched || chains + sets + elements > 0) this.#flows.trigger();
    } catch (cause) {
      this.#isTouched ||= isTouched;
      throw cause;
    }
    this.#isUnknownClosed = true;
    this.#remember();
  }

  get #hasHostEndpoints(): boolean {
    return hostEndpointsOf(this.#state, this.#node).length > 0;
  }

  /**
   * Compiles anew when the host has changed. While the host cannot be read, it counts as unchanged. Before the settings are
   * known the compiler gets nothing, and leaves host endpoints out.
   */
  async #readHost(): Promise<void> {
    if (!this.#hasHostEndpoints || !this.#areSettingsKnown) return;
    try {
      const facts = await this.#ports.readHost();
      this.#hostProblem = undefined;
      if (isDeepStrictEqual(facts, this.#facts)) return;
      this.#facts = facts;
      this.#compiler.useHost(facts);
      this.#take([]);
      this.#isTouched = true;
    } catch (cause) {
      // Without knowing its tunnels it would cut the traffic of pods.
      if (this.#facts === undefined) throw cause;
      if (this.#hostProblem !== reasonOf(cause))
        this.#ports.log.warning('interfaces for host endpoints not read', { reason: reasonOf(cause) });
      this.#hostProblem = reasonOf(cause);
    }
  }

  /** Closes pods whose policies are not known yet, unless the kernel has what an earlier process knew. */
  async #close(signal: AbortSignal, reread: boolean): Promise<void> {
    const ids = await this.#ports.policyFilter().ruleIds(POLICY_TABLE, signal);
    if (!closesUnknown(ids)) {
      const isAll = this.#start === 'enforce';
      const interfaces = new Set([...closedInterfaces(ids), ...this.#pods.interfaces]);
      await this.#apply(isAll ? this.#ruleset.table : closedTable(interfaces), { signal, reread });
      if (!isAll) return;
    }
    this.#isUnknownClosed = true;
  }

  async #apply(table: FilterTable, options: Parameters<PolicyFilter['apply']>[1]): ReturnType<PolicyFilter['apply']> {
    return this.#ports.policyFilter().apply(table, options);
  }

  /** Resolves when a change is due, at the latest after `limitMs`. */
  async #untilDue(signal: AbortSignal, limitMs: number): Promise<void> {
    if (this.#isDue || limitMs <= 0) return;
    this.#settle = new AbortController();
    this.#wake = () => this.#settle.abort();
    await this.#ports.clock.sleep(limitMs, AbortSignal.any([signal, this.#settle.signal])).catch(() => undefined);
  }
}
