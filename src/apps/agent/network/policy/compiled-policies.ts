import { isNetplugError } from '../../../../base/errors.ts';
import type { FilterTable, PacketLog } from '../../../../dataplane/policy-filter.ts';
import { PolicyState } from '../../../../policy/policy-state.ts';
import type { TouchedPolicy } from '../../../../policy/policy-view.ts';
import type { PolicyRule } from '../../../../policy/resolved-policy.ts';
import type { HostLinks, PolicyRuleset } from '../../../../policy/ruleset/policy-ruleset.ts';
import { type RuleOwner, UnusableRules } from '../../../../policy/unusable-rules.ts';
import type { EnforcementPorts, PolicyCompiler, PolicySettings } from './enforcement-ports.ts';

type CompilerPorts = Pick<EnforcementPorts, 'compilerFor' | 'log'>;

/** The ruleset of a state of policies, compiled change by change. Closes what policies apply to that cannot be enforced. */
export class CompiledPolicies {
  readonly #ports: CompilerPorts;
  readonly #state: PolicyState;
  #policy: PolicySettings;
  /** Undefined until the kernel was asked. */
  #missingLogs: ReadonlySet<PacketLog> | undefined;
  #facts: HostLinks | undefined;
  #compiler: PolicyCompiler;
  #ruleset: PolicyRuleset;
  /** Ruleset that was written last, or refused. */
  #sent: PolicyRuleset;
  /** Whether the ruleset is that of the state. */
  #isCompiled = true;
  /** Policies, endpoints or what they depend on have changed since the last write. */
  #isTouched = false;

  constructor(ports: CompilerPorts, state: PolicyState, policy: PolicySettings) {
    this.#ports = ports;
    this.#state = state;
    this.#policy = policy;
    this.#compiler = ports.compilerFor(policy, new Set());
    this.#ruleset = this.#compiler.compile(state);
    this.#sent = this.#ruleset;
  }

  get origins(): PolicyRuleset['origins'] {
    return this.#ruleset.origins;
  }

  /** Returns a table that closes every pod, as long as no policies are known. */
  get closed(): FilterTable {
    return this.#ports.compilerFor(this.#policy, this.#missingLogs ?? new Set()).compile(new PolicyState()).table;
  }

  /** Actions that the kernel refuses; undefined until it was asked. */
  get missingLogs(): ReadonlySet<PacketLog> | undefined {
    return this.#missingLogs;
  }

  get facts(): HostLinks | undefined {
    return this.#facts;
  }

  /** Compiles everything anew with other settings, when it is asked for next. */
  configure(policy: PolicySettings): void {
    this.#policy = policy;
    this.#renew();
  }

  /** Compiles everything anew without the actions, when it is asked for next. */
  avoidLogs(missing: ReadonlySet<PacketLog>): void {
    this.#missingLogs = missing;
    if (missing.size > 0) this.#renew();
  }

  useHost(facts: HostLinks): void {
    this.#facts = facts;
    this.#compiler.useHost(facts);
    this.#isTouched = true;
  }

  #renew(): void {
    this.#compiler = this.#ports.compilerFor(this.#policy, this.#missingLogs ?? new Set());
    if (this.#facts !== undefined) this.#compiler.useHost(this.#facts);
    this.#isCompiled = false;
    this.#isTouched = true;
  }

  /** Notes what has changed in the state, and compiles it unless more changes belong to it. */
  take(touched: TouchedPolicy, isComplete: boolean): void {
    this.#isTouched ||= Object.values(touched).some(({ size }) => size > 0);
    if (isComplete) this.compile(this.#isCompiled ? touched : undefined);
    else this.#isCompiled = false;
  }

  /** Returns the table to write, and whether anything has changed since it was asked for last. */
  send(): { readonly table: FilterTable; readonly isTouched: boolean } {
    if (!this.#isCompiled) this.compile();
    const isTouched = this.#isTouched;
    this.#isTouched = false;
    this.#sent = this.#ruleset;
    return { table: this.#sent.table, isTouched };
  }

  /** Records that the ruleset that was sent last has not been written. */
  unsend(isTouched: boolean): void {
    this.#isTouched ||= isTouched;
  }

  /** Rules that cannot be compiled close what they apply to; they must not stop the rules of others. */
  compile(touched?: TouchedPolicy): void {
    try {
      this.#isCompiled = false;
      this.#ruleset = this.#compiler.compile(this.#state, touched);
      this.#isCompiled = true;
    } catch (cause) {
      if (!(cause instanceof UnusableRules) || !this.#closeRules(cause.owner, cause.message)) throw cause;
      this.compile();
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
  closeRefused(cause: unknown): boolean {
    if (!isNetplugError(cause)) return false;
    const origin = this.#sent.origins.get(String(cause.facts['rule']));
    if (origin === undefined || (origin.kind !== 'policy' && origin.kind !== 'profile')) return false;
    if (!this.#closeRules(origin, cause.message, origin.rule)) return false;
    this.#isCompiled = false;
    return true;
  }
}
