import type { Selector } from '../model/selector-parser.ts';
import type { Labels } from '../model/selector.ts';
import type { Address, Family } from '../net/address.ts';
import type { Cidr } from '../net/cidr.ts';

/** The direction of a packet, seen from the endpoint that a policy selects. */
export type PolicyDirection = 'ingress' | 'egress';

/** Inclusive. */
export interface PortRange {
  readonly first: number;
  readonly last: number;
}

/** A port of an endpoint that rules can name. */
export interface EndpointPort {
  readonly name: string;
  /** IANA number. */
  readonly protocol: number;
  readonly port: number;
}

/** An endpoint that policies select, and that rules match as a peer. */
export interface PolicyEndpoint {
  /** Unique: `pod NAMESPACE/NAME` and the key of the workload endpoint, or `host NAME`. */
  readonly key: string;
  readonly kind: 'workload' | 'host';
  /** Name as users write it: `NAMESPACE/POD`, or the name of the host endpoint. */
  readonly shown: string;
  readonly node: string;
  /** Undefined for a host endpoint, which only `global()` and selectors without a namespace match. */
  readonly namespace: string | undefined;
  /** Labels of the endpoint itself over those that its profiles apply (`pcns.`, `pcsa.` and others). */
  readonly labels: Labels;
  /** Empty for a pod that has finished: its addresses may belong to another pod. */
  readonly addresses: readonly Address[];
  readonly ports: readonly EndpointPort[];
  /** In order of precedence. */
  readonly profiles: readonly string[];
  /** Host side of the link of a pod; name or `*` of a host endpoint. */
  readonly interfaceName: string | undefined;
  /** A host endpoint that the controllers made: one that people made comes before it. */
  readonly isAutomatic?: true;
}

/** Matches one end of a packet. All given fields must match; a peer matches when one of its addresses is the packet's. */
export interface PeerMatch {
  /** One of them contains the address. */
  readonly nets?: readonly Cidr[];
  /** None of them contains the address. */
  readonly notNets?: readonly Cidr[];
  /**
   * Endpoints and network sets, by labels. Namespace and service account selectors of the rule are part of it, as are the
   * limits to the namespace of the policy.
   */
  readonly selector?: PeerSelector;
  readonly notSelector?: PeerSelector;
  /** Only in what allows: who a certificate names must be an account with these labels. `selector` has the addresses of its pods. */
  readonly accounts?: PeerSelector;
  /** Ranges or names; one of them matches the port. A name matches the ports of that name of the endpoint at this end. */
  readonly ports?: PortMatch;
  /** None of them matches the port. */
  readonly notPorts?: PortMatch;
  /** Service: as source its addresses, as destination its addresses with their protocols and ports. */
  readonly service?: { readonly namespace: string; readonly name: string };
}

export interface PortMatch {
  readonly ranges: readonly PortRange[];
  readonly names: readonly string[];
}

/** Selects endpoints and network sets by their labels. */
export interface PeerSelector {
  /** Equal ids stand for the same addresses. */
  readonly id: string;
  /** Canonical text of the selector. */
  readonly text: string;
  readonly selector: Selector;
  /** Whether addresses that a selected pod and another one claim are among its own: only what closes may take them for that. */
  readonly takesContested?: true;
}

export interface IcmpMatch {
  readonly type: number;
  readonly code?: number;
}

/** A service account. */
export interface Account {
  readonly namespace: string;
  readonly name: string;
}

export type PathMatch = { readonly exact: string } | { readonly prefix: string };

/** Requests with one of the methods and one of the paths. */
export interface HttpMatch {
  /** `*` stands for all. */
  readonly methods?: readonly string[];
  readonly paths?: readonly PathMatch[];
}

export interface PolicyRule {
  readonly action: 'Allow' | 'Deny' | 'Pass' | 'Log';
  readonly family?: Family;
  /** IANA number. */
  readonly protocol?: number;
  readonly notProtocol?: number;
  readonly icmp?: IcmpMatch;
  readonly notIcmp?: IcmpMatch;
  /** Only rules of TCP that allow have it. Who cannot see requests opens at most what is guarded. */
  readonly http?: HttpMatch;
  readonly source: PeerMatch;
  readonly destination: PeerMatch;
  /** Position in the list of the resource, from 0: several rules may come from one written rule. */
  readonly index: number;
}

/** Packets of a host endpoint that a policy sees. Pods have only `normal` policies. */
export type PolicyStage = 'normal' | 'preDNAT' | 'untracked';

/** A policy of any kind, with its selectors parsed. */
export interface ResolvedPolicy {
  /** Unique, as users write it: `NetworkPolicy shop/web`, `GlobalNetworkPolicy no-metadata-server`. */
  readonly id: string;
  readonly stage: PolicyStage;
  /** Also applies to traffic that a host endpoint forwards. */
  readonly applyOnForward: boolean;
  /** Evaluated and counted, not enforced. */
  readonly isStaged: boolean;
  /** Endpoints to which it applies. */
  readonly appliesTo: Selector;
  /** The rules of each direction that the policy has. A direction without a list is not affected by the policy. */
  readonly rules: Readonly<Partial<Record<PolicyDirection, readonly PolicyRule[]>>>;
}

/** Policies that are evaluated together, in order. `Pass` continues with the next tier, and after the last with the profiles. */
export interface PolicyTier {
  readonly name: string;
  /** Action on a packet that no rule decides although a policy of the tier applies to the endpoint in this direction. */
  readonly defaultAction: 'Deny' | 'Pass';
  /** By order, then by id. */
  readonly policies: readonly ResolvedPolicy[];
}

/** Rules that decide when no policy does. */
export interface ResolvedProfile {
  readonly name: string;
  readonly rules: Readonly<Record<PolicyDirection, readonly PolicyRule[]>>;
}
