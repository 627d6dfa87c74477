import { type Address, formatAddress } from '../net/address.ts';

/** A port behind a service, after translation. */
export interface ServicePort {
  readonly address: Address;
  /** IANA number. */
  readonly protocol: number;
  readonly port: number;
}

/** Returns the port as `ADDRESS PROTOCOL PORT`. */
export function servicePortText({ address, protocol, port }: ServicePort): string {
  return `${formatAddress(address)} ${String(protocol)} ${String(port)}`;
}

/** Some of the endpoints of one service. Each address has each port: users make products of them that no memory holds. */
export interface ServiceEndpoints {
  readonly namespace: string;
  readonly name: string;
  readonly addresses: readonly Address[];
  /** Empty for a service without ports. */
  readonly ports: readonly Omit<ServicePort, 'address'>[];
}

/** Returns every port of the endpoints at every address. */
export function servicePorts({ addresses, ports }: ServiceEndpoints): readonly ServicePort[] {
  return ports.flatMap(({ protocol, port }) => addresses.map((address) => ({ address, protocol, port })));
}
