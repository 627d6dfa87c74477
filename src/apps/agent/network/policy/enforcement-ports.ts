import type { NodeName } from '../../../../model/names.ts';
import type { RetryPorts } from '../../../../base/back-off.ts';
import type { Log } from '../../../../base/log.ts';
import type { EffectiveSettings } from '../../../../config/agent-settings.ts';
import type { HostLink } from '../../../../dataplane/kernel.ts';
import type { PacketLog, PolicyFilter } from '../../../../dataplane/policy-filter.ts';
import type { FollowStore } from '../../../../datastore/follow.ts';
import type { ServicePort } from '../../../../model/service-endpoints.ts';
import type { PolicyState } from '../../../../policy/policy-state.ts';
import type { PolicyView, TouchedPolicy } from '../../../../policy/policy-view.ts';
import type { HostLinks, PolicyRuleset } from '../../../../policy/ruleset/policy-ruleset.ts';
import type { DeniedFlows } from './denied-flows.ts';
import type { ListedEndpoints } from './local-pods.ts';

/** Compiles the policies of a node change by change. */
export interface PolicyCompiler {
  /** `touched` says what has changed since the last call; undefined for the first one, and after a failure. */
  compile(view: PolicyView, touched?: TouchedPolicy): PolicyRuleset;
  /** Sets the interfaces and addresses of the host for later calls of `compile`, which leaves host endpoints out until then. */
  useHost(facts: HostLinks): void;
  /** Leaves out, from the next call of `compile` on, what has not been used since the last call. Reports whether that is anything. */
  dropUnused(): boolean;
}

/** Settings that the rules of policies depend on. */
export type PolicySettings = Pick<
  EffectiveSettings,
  | 'policyLogPrefix'
  | 'defaultEndpointToHostAction'
  | 'failsafeInboundHostPorts'
  | 'failsafeOutboundHostPorts'
  | 'policyEntriesPerPolicy'
  | 'policyEntriesPerNamespace'
  | 'policyEntriesPerNode'
>;

export interface EnforcementPorts extends RetryPorts {
  readonly log: Log;
  readonly policyStore: FollowStore;
  /** Resolves when the settings of the agent have been read for the first time. */
  readonly settingsRead: Promise<void>;
  /** Opens the filter. @throws kernel/failed */
  readonly policyFilter: () => Pick<PolicyFilter, 'apply' | 'extend' | 'missingLogs' | 'ruleIds' | 'remove'>;
  readonly compilerFor: (settings: PolicySettings, missingLogs: ReadonlySet<PacketLog>) => PolicyCompiler;
  /** Lists the endpoints that only the node has recorded. */
  readonly listEndpoints: () => Promise<ListedEndpoints>;
  /** Lists the links of pods that netplug made. */
  readonly listLinks: () => readonly HostLink[];
  /** @throws kernel/failed */
  readonly readHost: () => Promise<HostLinks>;
  /** Servers of the datastore that are known before it has been read. */
  readonly servers: () => readonly ServicePort[];
  /** `whole` resolves when no change is half in the state. */
  readonly flows: (
    state: PolicyState,
    whole: () => Promise<void>,
  ) => Pick<DeniedFlows, 'trigger' | 'restore' | 'endAll' | 'run'>;
  /** Resolves when it is known what sidecars guarded for an earlier process. */
  readonly guardsKnown?: () => Promise<void>;
  /** Saves on the node that policies are enforced. */
  readonly saveOn: () => void;
  readonly clearOn: () => void;
}

/**
 * Use of policies at the start: `enforce` them; `on demand`, enforce them from the first pod that is isolated, or when the
 * kernel has rules of an earlier process; `remove` what was enforced before.
 */
export type PolicyStart = 'enforce' | 'on demand' | 'remove';

export interface EnforcementSettings {
  readonly node: NodeName;
  readonly policy: PolicySettings;
  readonly start: PolicyStart;
}
