import type { Address } from '../net/address.ts';

/** A port behind a service, after translation. */
export interface ServicePort {
  readonly address: Address;
  /** IANA number. */
  readonly protocol: number;
  readonly port: number;
}

/** Some of the endpoints of one service. */
export interface ServiceEndpoints {
  readonly namespace: string;
  readonly name: string;
  readonly addresses: readonly Address[];
  /** Empty for a service without ports. */
  readonly ports: readonly ServicePort[];
}
