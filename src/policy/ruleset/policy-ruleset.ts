import type { FilterTable, PacketLog } from '../../dataplane/policy-filter.ts';
import type { ServicePort } from '../../model/service-endpoints.ts';
import type { LinkWithAddresses } from '../host-interfaces.ts';
import type { PodLinkNames } from '../pod-link-names.ts';
import type { OpenPort, OpenPorts } from '../open-ports.ts';
import type { PolicyDirection, PolicyRule } from '../resolved-policy.ts';

export const POLICY_TABLE = 'netplug-policy';

/** NFLOG group that receives denied and logged packets. The prefix is the id of the rule in the table. */
export const REPORT_GROUP = 4786;

/** Origin of a rule of the table. */
export type RuleOrigin =
  /** A rule of a policy, `index` as in its resource. */
  | {
      readonly kind: 'policy' | 'profile';
      /** Id of the policy or name of the profile. */
      readonly name: string;
      readonly direction: PolicyDirection;
      readonly index: number;
      /** One of the rules that were made from the rule of the resource. */
      readonly rule: PolicyRule;
      readonly isStaged: boolean;
    }
  /** The default action of a tier whose policies apply but do not decide. */
  | {
      readonly kind: 'tier';
      readonly name: string;
      readonly direction: PolicyDirection;
      /** Set for a host endpoint that forwards the packet: the endpoint is neither end of it. */
      readonly isForwarded?: true;
    }
  /** Only staged policies of a tier apply, and none of their rules decides: its default action would. */
  | {
      readonly kind: 'staged tier';
      readonly name: string;
      readonly direction: PolicyDirection;
      /** Ids, in order. */
      readonly policies: readonly string[];
    }
  /** No policy and no profile allows the packet. */
  | { readonly kind: 'profiles'; readonly direction: PolicyDirection }
  /** The node accepts no packets of its pods. */
  | { readonly kind: 'to host'; readonly direction: 'egress' }
  /** The packet comes from or goes to a pod interface that no known endpoint has. */
  | { readonly kind: 'unknown interface'; readonly direction: PolicyDirection };

/** Policies of a node as a table of the packet filter. */
export interface PolicyRuleset {
  readonly table: FilterTable;
  /** By the id of the rule in the table: rules that count or report packets. */
  readonly origins: ReadonlyMap<string, RuleOrigin>;
}

/** Settings that the ruleset depends on. */
export interface RulesetSettings {
  readonly node: string;
  /** The log prefix of `Log` rules in the kernel log. */
  readonly logPrefix: string;
  /** For packets of a pod to its own node that its egress policies allow. */
  readonly endpointToHostAction: 'Accept' | 'Drop';
  /** Ports that no policy of a host endpoint closes; none unless set. */
  readonly failsafe?: OpenPorts;
  /** The pod links of netplug alone unless set. */
  readonly podLinks?: PodLinkNames;
  /** Actions that the kernel refuses, and that rules are written without; none unless set. */
  readonly missingLogs?: ReadonlySet<PacketLog>;
}

/** The interfaces and addresses of the node, which host endpoints refer to. */
export interface HostLinks {
  readonly interfaces: readonly LinkWithAddresses[];
  /** Packets of the tunnels that the node has to other nodes; another table drops those of strangers. */
  readonly tunnels: readonly Pick<OpenPort, 'protocol' | 'port'>[];
  /** The servers of the datastore: no policy cuts the node off from them. */
  readonly servers: readonly ServicePort[];
}
