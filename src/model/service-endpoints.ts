import type { Address } from '../net/address.ts';

/** An address behind a service, after translation. */
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
  readonly endpoints: readonly ServicePort[];
}
