import { isNetplugError } from '../../../../base/errors.ts';
import type { FilterTable, PacketLog } from '../../../../dataplane/policy-filter.ts';
import { NodeBudget } from '../../../../policy/node-budget.ts';
import { PolicyState } from '../../../../policy/policy-state.ts';
import type { TouchedPolicy } from '../../../../policy/policy-view.ts';
import type { PolicyRule } from '../../../../policy/resolved-policy.ts';
import type { HostLinks, PolicyRuleset } from '../../../../policy/ruleset/policy-ruleset.ts';
import { ownerOfKey, type RuleOwner, UnusableRules } from '../../../../policy/unusable-rules.ts';
import type { EnforcementPorts, EnforcementSettings, PolicyCompiler, PolicySettings } from './enforcement-ports.ts';

type CompilerPorts = Pick<EnforcementPorts, 'compilerFor' | 'log'>;

/** The ruleset of a state of policies, compiled change by change. Closes what policies apply to that cannot be enforced. */
export class CompiledPolicies {
  readonly #ports: CompilerPorts;
  readonly #state: PolicyState;
  readonly #budget: NodeBudget;
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
  /** Policies beyond a budget that were logged, with the reason. */
  #refused: ReadonlyMap<string, string> = new Map();
  /** Policies, endpoints or what they depend on have changed since the last write. */
  #isTouched = false;

  constructor(
    ports: CompilerPorts,
    state: PolicyState,
    { node, policy }: Pick<EnforcementSettings, 'node' | 'policy'>,
  ) {
    this.#ports = ports;
    this.#state = state;
    this.#policy = policy;
    this.#budget = new NodeBudget(node);
    this.#setLimits();
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
    this.#setLimits();
    this.#renew();
  }

  #setLimits(): void {
    const { policyEntriesPerPolicy: ofPolicy, policyEntriesPerNamespace: ofNamespace } = this.#policy;
    this.#budget.take(this.#state, this.#state.setLimits({ ofPolicy, ofNamespace }));
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
    this.#budget.take(this.#state, touched);
    if (isComplete) this.compile(this.#isCompiled ? touched : undefined);
    else this.#isCompiled = false;
  }

  /** Leaves out, when it compiles next, what no pod has used since the last call. Reports whether that is anything. */
  dropUnused(): boolean {
    const isDropped = this.#compiler.dropUnused();
    this.#isTouched ||= isDropped;
    return isDropped;
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
    const withheld = this.#withhold();
    if (withheld.policies.size > 0 || touched?.policies.size !== 0) this.#logRefused();
    try {
      this.#isCompiled = false;
      this.#ruleset = this.#compiler.compile(this.#state, touched && joined(touched, withheld));
      this.#isCompiled = true;
    } catch (cause) {
      if (!(cause instanceof UnusableRules) || !this.#closeRules(cause.owner, cause.message)) throw cause;
      this.compile();
    }
  }

  /** Closes what is beyond the budget of the node, and opens what is within it again. Returns what that touched. */
  #withhold(): TouchedPolicy {
    const touched = this.#state.withhold(this.#budget.decide(this.#state, this.#policy.policyEntriesPerNode));
    if (touched.policies.size > 0) this.#isTouched = true;
    return touched;
  }

  #logRefused(): void {
    const { refused } = this.#state;
    for (const [policy, reason] of refused)
      if (this.#refused.get(policy) !== reason)
        this.#ports.log.error('policy beyond its budget, everything it applies to is closed', { policy, reason });
    for (const policy of this.#refused.keys())
      if (!refused.has(policy)) this.#ports.log.info('policy within its budget again', { policy });
    this.#refused = new Map(refused);
  }

  /** Reports whether there was something to close. */
  #closeRules({ kind, name }: RuleOwner, reason: string, rule?: PolicyRule): boolean {
    if (this.#state.close({ kind, name }, reason, rule) === undefined) return false;
    this.#isTouched = true;
    this.#ports.log.error('rules not enforced, everything they apply to is closed', { [kind]: name, reason });
    return true;
  }

  /**
   * Closes the policy or profile of what the kernel refuses: a rule, or what only that one has in the table. Reports whether there
   * is one that still has it.
   */
  closeRefused(cause: unknown): boolean {
    if (!isNetplugError(cause)) return false;
    const origin = this.#sent.origins.get(String(cause.facts['rule']));
    const isOfRule = origin?.kind === 'policy' || origin?.kind === 'profile';
    const owner = isOfRule ? origin : ownerOfKey(String(cause.facts['owner']));
    if (owner === undefined || !this.#closeRules(owner, cause.message, isOfRule ? origin.rule : undefined))
      return false;
    this.#isCompiled = false;
    return true;
  }
}

/** Returns what both touched; undefined when members of one selector changed twice, of which the order is not known. */
function joined(first: TouchedPolicy, second: TouchedPolicy): TouchedPolicy | undefined {
  if (second.policies.size === 0) return first;
  if ([...second.selectors.keys()].some((text) => first.selectors.has(text))) return undefined;
  const union = <T>(a: ReadonlySet<T>, b: ReadonlySet<T>): ReadonlySet<T> => new Set([...a, ...b]);
  return {
    endpoints: union(first.endpoints, second.endpoints),
    policies: union(first.policies, second.policies),
    profiles: union(first.profiles, second.profiles),
    namedPorts: union(first.namedPorts, second.namedPorts),
    services: union(first.services, second.services),
    nodes: union(first.nodes, second.nodes),
    accounts: union(first.accounts, second.accounts),
    guards: union(first.guards, second.guards),
    selectors: new Map([...first.selectors, ...second.selectors]),
  };
}
