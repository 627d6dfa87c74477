import type { Address } from '../net/address.ts';
import type { Cidr } from '../net/cidr.ts';

/** A Service of Kubernetes, as far as it decides where its clients end. */
export interface Service {
  readonly namespace: string;
  readonly name: string;
  /** The name for which it stands; nothing of such a Service is translated. */
  readonly externalName?: string;
  /** It has no address of its own: DNS names those of its endpoints. */
  readonly isHeadless: boolean;
  readonly clusterIps: readonly Address[];
  /** Its `externalIPs`, which nodes translate as well. */
  readonly externalAddresses: readonly Address[];
  /** Those of its load balancer, which nodes translate as well. */
  readonly balancerAddresses: readonly Address[];
  /** Clients of the addresses of its load balancer; all of an IP family without a range of it. */
  readonly sourceRanges: readonly Cidr[];
  readonly ports: readonly PortOfService[];
  readonly internalTrafficPolicy: TrafficPolicy;
  readonly externalTrafficPolicy: TrafficPolicy;
  /** All connections of a client go to one endpoint. */
  readonly hasAffinity: boolean;
}

export type TrafficPolicy = 'Cluster' | 'Local';

export interface PortOfService {
  /** Empty for the only port of a Service. */
  readonly name: string;
  /** IANA number. */
  readonly protocol: number;
  readonly port: number;
  readonly nodePort?: number;
}

/** One endpoint of a Service, by its EndpointSlice. */
export interface EndpointOfService {
  readonly address: Address;
  readonly node?: string;
  readonly isReady: boolean;
  /** Also while it ends. */
  readonly isServing: boolean;
  readonly isTerminating: boolean;
  /** Hints name the zones whose clients should use it. */
  readonly hasHints: boolean;
  /** By the names of the ports of its Service; named target ports are numbers here. */
  readonly ports: readonly Omit<PortOfService, 'nodePort'>[];
}

/** Returns its name as users write it. */
export function serviceText({ namespace, name }: Pick<Service, 'namespace' | 'name'>): string {
  return `Service ${namespace}/${name}`;
}
