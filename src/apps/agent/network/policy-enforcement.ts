import { BackOff, type RetryPorts } from '../../../base/back-off.ts';
import { reasonOf } from '../../../base/errors.ts';
import type { Log } from '../../../base/log.ts';
import { followPolicyRecords, type PolicyRecord } from '../../../cache/policy-records.ts';
import { RecordCache } from '../../../cache/record-cache.ts';
import type { Isolation, SandboxEndpoint } from '../../../cni/pod-isolation.ts';
import type { EffectiveSettings } from '../../../config/agent-settings.ts';
import type { PacketFilter } from '../../../dataplane/packet-filter.ts';
import type { PolicyFilter } from '../../../dataplane/policy-filter.ts';
import type { FollowStore } from '../../../datastore/follow.ts';
import type { WorkloadEndpoint } from '../../../model/workload-endpoint.ts';
import { PolicyState } from '../../../policy/policy-state.ts';
import type { PolicyView, TouchedPolicy } from '../../../policy/policy-view.ts';
import { POLICY_TABLE, type PolicyRuleset } from '../../../policy/ruleset/policy-ruleset.ts';
import type { DeniedFlows } from './denied-flows.ts';
import { LocalPods } from './local-pods.ts';

const BACK_OFF = { firstMs: 100, maxMs: 5000, maxRefusedMs: 30_000 };
/** Changes within this time are written together. A pod that waits is not delayed. */
const COALESCE_MS = 20;
/** How often the kernel is compared with the desired table without a change. */
const RESYNC_MS = 10_000;

/** Compiles the policies of a node change by change. */
export interface PolicyCompiler {
  /** `touched` says what has changed since the last call; undefined for the first one. */
  compile(view: PolicyView, touched?: TouchedPolicy): PolicyRuleset;
}

/** Settings that the rules of policies depend on. */
export type PolicySettings = Pick<EffectiveSettings, 'policyLogPrefix' | 'defaultEndpointToHostAction'>;

export interface EnforcementPorts extends RetryPorts {
  readonly log: Log;
  readonly policyStore: FollowStore;
  readonly policyFilter: Pick<PolicyFilter, 'apply'>;
  readonly tables: Pick<PacketFilter, 'has'>;
  readonly compilerFor: (settings: PolicySettings) => PolicyCompiler;
  readonly flows: (state: PolicyState) => Pick<DeniedFlows, 'trigger' | 'endAll' | 'run'>;
  /** Remembers on the node that policies are enforced. */
  readonly rememberOn: () => void;
}

export interface EnforcementSettings {
  readonly node: string;
  readonly policy: PolicySettings;
  /** Whether to enforce policies from the start. Otherwise the first pod that is isolated switches it on. */
  readonly isOn: boolean;
}

/**
 * Enforces the policies of the pods of a node. The kernel keeps what was written when it ends, and while the datastore is
 * unavailable. Until the first snapshot it changes nothing, except that a host without the table gets one that closes all pods.
 */
export class PolicyEnforcement {
  readonly #ports: EnforcementPorts;
  readonly #state = new PolicyState();
  readonly #cache = new RecordCache();
  readonly #pods: LocalPods;
  readonly #flows: ReturnType<EnforcementPorts['flows']>;
  #compiler: PolicyCompiler;
  readonly #on = Promise.withResolvers<void>();
  #isOn = false;
  #ruleset: PolicyRuleset;
  #hasSnapshot = false;
  #watchProblem: string | undefined;
  #writeProblem: string | undefined;
  /** Resolved by the next write. */
  #waiting: (() => void)[] = [];
  #isDue = false;
  #wake: () => void = () => undefined;
  #settle: AbortController = new AbortController();

  constructor(ports: EnforcementPorts, { node, isOn, policy }: EnforcementSettings) {
    this.#ports = ports;
    this.#pods = new LocalPods(node);
    this.#flows = ports.flows(this.#state);
    this.#compiler = ports.compilerFor(policy);
    this.#ruleset = this.#compiler.compile(this.#state);
    if (isOn) this.#turnOn();
  }

  /** What the rules in the kernel come from. */
  get origins(): PolicyRuleset['origins'] {
    return this.#ruleset.origins;
  }

  get state(): PolicyState {
    return this.#state;
  }

  /** Why policies of new pods may not be in force, a sentence each. */
  failures(): readonly string[] {
    if (!this.#isOn) return [];
    const unread = this.#hasSnapshot ? [] : [`policy: ${this.#watchProblem ?? 'the datastore is being read'}`];
    return [...unread, ...(this.#writeProblem === undefined ? [] : [`policy: ${this.#writeProblem}`])];
  }

  /** What cannot be used of policies and other records, a sentence each. */
  problems(): readonly string[] {
    return this.#isOn ? [...this.#state.problems.values()].flat() : [];
  }

  /** Resolves when the policies of the pod are in force. */
  async isolate(endpoint: WorkloadEndpoint): Promise<Isolation> {
    this.#turnOn();
    this.#take(this.#pods.add(endpoint, new Date(this.#ports.clock.now()).toISOString()));
    if (!this.#hasSnapshot && this.#watchProblem !== undefined)
      return { state: 'closed', reason: `the datastore has not been read: ${this.#watchProblem}` };
    await this.#written();
    return { state: 'in force' };
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
    this.#ruleset = this.#compiler.compile(this.#state);
    this.#trigger();
  }

  async run(signal: AbortSignal): Promise<void> {
    signal.addEventListener('abort', () => this.#on.resolve(), { once: true });
    await this.#on.promise;
    if (signal.aborted) return;
    await Promise.all([this.#follow(signal), this.#write(signal), this.#flows.run(signal)]);
  }

  #turnOn(): void {
    if (this.#isOn) return;
    this.#isOn = true;
    this.#ports.rememberOn();
    this.#on.resolve();
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
          this.#hasSnapshot = true;
          this.#take(this.#pods.join(records));
          if (records.length > 0) void this.#wakeLater(signal);
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

  #take(records: readonly PolicyRecord[]): void {
    const touched = this.#state.apply(records);
    this.#ruleset = this.#compiler.compile(this.#state, touched);
  }

  /** Resolves after the next write that begins from now on. */
  async #written(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.push(resolve);
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
    const { policyFilter, tables, log } = this.#ports;
    const backOff = new BackOff(this.#ports, BACK_OFF);
    let isReread = true;
    while (!signal.aborted) {
      this.#isDue = false;
      const waiting = this.#hasSnapshot ? this.#waiting.splice(0) : [];
      try {
        // A host that was booted is closed at once. Otherwise the kernel has what the last agent knew.
        if (this.#hasSnapshot || !(await tables.has(POLICY_TABLE, signal))) {
          await policyFilter.apply(this.#ruleset.table, { signal, reread: isReread });
          this.#flows.trigger();
        }
        for (const resolve of waiting) resolve();
        if (this.#writeProblem !== undefined) log.info('policies in force again');
        this.#writeProblem = undefined;
        backOff.succeed();
        isReread = !(await this.#untilDue(signal));
      } catch (cause) {
        this.#waiting.unshift(...waiting);
        if (signal.aborted) return;
        this.#writeProblem = reasonOf(cause);
        if (backOff.fail(cause) === 1) log.warning('policies not written', { reason: this.#writeProblem });
        isReread = true;
        await backOff.wait(signal);
      }
    }
  }

  /** Reports whether a change is due; after the resync period, whether or not one is. */
  async #untilDue(signal: AbortSignal): Promise<boolean> {
    if (!this.#isDue) {
      this.#settle = new AbortController();
      this.#wake = () => this.#settle.abort();
      await this.#ports.clock.sleep(RESYNC_MS, AbortSignal.any([signal, this.#settle.signal])).catch(() => undefined);
    }
    return this.#isDue;
  }
}
