import type { ServicePort } from '../model/service-endpoints.ts';
import type { Address } from '../net/address.ts';
import type { Cidr } from '../net/cidr.ts';
import type {
  Account,
  PeerSelector,
  PolicyDirection,
  PolicyEndpoint,
  PolicyTier,
  ResolvedPolicy,
  ResolvedProfile,
} from './resolved-policy.ts';

/** Policies and endpoints of a cluster at one moment. The evaluator and the compiler see nothing else. */
export interface PolicyView {
  /** In order. */
  readonly tiers: readonly PolicyTier[];
  /** By key. */
  readonly endpoints: ReadonlyMap<string, PolicyEndpoint>;
  /** The host endpoints of all nodes, by key; they are among `endpoints`. */
  readonly hostEndpoints: ReadonlyMap<string, PolicyEndpoint>;
  /** Returns the policies of the tier that apply to the endpoint in the direction, in order, staged ones included. */
  policiesOf(endpoint: PolicyEndpoint, tier: PolicyTier, direction: PolicyDirection): readonly ResolvedPolicy[];
  /** Returns undefined for a profile that does not exist: it has no rules. */
  profile(name: string): ResolvedProfile | undefined;
  /** Returns disjoint CIDRs, in order: those of the endpoints and network sets that the selector selects. */
  membersOf(selector: PeerSelector): readonly Cidr[];
  /** Reports whether a member of the selector contains the address. */
  isMember(selector: PeerSelector, address: Address): boolean;
  /** Returns the endpoints with the address: at most one pod, and any number of host endpoints. */
  endpointsAt(address: Address): readonly PolicyEndpoint[];
  /** Returns address and number of each port with that name, of the endpoints that the selector selects when given. */
  namedPortsOf(name: string, protocol: number, selector?: PeerSelector): readonly AddressPort[];
  /** Reports whether the account exists, and the selector selects its pods by what they have from it and its namespace. */
  isAccountOf(selector: PeerSelector, account: Account): boolean;
  /** Returns the accounts of which `isAccountOf` is true. */
  accountsOf(selector: PeerSelector): readonly Account[];
  /** Returns, in no order, addresses and TCP ports behind which each request is shown to be judged. */
  guardedPorts(): readonly AddressPort[];
  isGuarded(address: Address, port: number): boolean;
  readonly services: Services;
  readonly nodes: Nodes;
}

/** The tunnel addresses of nodes, which stand for their own addresses. */
export interface Nodes {
  /** Returns the tunnel addresses of the nodes that have an own address in the CIDRs, but for those in them. */
  standInsFor(cidrs: readonly Cidr[]): readonly Cidr[];
  /** Returns the own addresses of the node whose tunnel address this is. */
  behind(address: Address): readonly Address[];
}

/** The endpoints of services. */
export interface Services {
  /** Returns the addresses from which its endpoints send. */
  addressesOf(namespace: string, name: string): readonly Address[];
  /** Callers whose number of services users decide must see `countPorts` first. */
  portsOf(namespace: string, name: string): readonly ServicePort[];
  hasPort(namespace: string, name: string, port: ServicePort): boolean;
}

export interface AddressPort {
  readonly address: Address;
  readonly port: number;
}

/** Parts of a view that a change of records altered. */
export interface TouchedPolicy {
  /** Keys of endpoints that came, went, changed, or to which other policies or profiles apply now. */
  readonly endpoints: ReadonlySet<string>;
  /** Ids of policies that came, went or changed. */
  readonly policies: ReadonlySet<string>;
  /** Names of profiles that came, went or changed. */
  readonly profiles: ReadonlySet<string>;
  /** By text of the selector, those that are in use by rules. */
  readonly selectors: ReadonlyMap<string, MemberChange>;
  /** Named ports without a selector, as `PROTOCOL NAME`, whose addresses changed. */
  readonly namedPorts: ReadonlySet<string>;
  /** Services whose endpoints changed, as `NAMESPACE/NAME`. */
  readonly services: ReadonlySet<string>;
  /** Names of nodes whose addresses changed. */
  readonly nodes: ReadonlySet<string>;
  /** Names of profiles of namespaces and accounts that came, went, or apply other labels. */
  readonly accounts: ReadonlySet<string>;
  /** Pods, by key, of which other ports are guarded. */
  readonly guards: ReadonlySet<string>;
}

/** Change of the members of a selector, by `elementText`. Applying it to the earlier `membersOf` gives the new one. */
export interface MemberChange {
  readonly added: ReadonlyMap<string, Cidr>;
  readonly removed: ReadonlyMap<string, Cidr>;
  /** Members with named ports came, went or changed their ports. */
  readonly areNamedPortsTouched: boolean;
}
