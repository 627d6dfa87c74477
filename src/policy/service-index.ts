import { OneToMany } from '../base/one-to-many.ts';
import { type Address, addressKey, sameAddress } from '../net/address.ts';
import { hostCidr } from '../net/cidr.ts';
import { type ServiceEndpoints, type ServicePort, servicePorts } from '../model/service-endpoints.ts';
import type { Nodes } from './policy-view.ts';

/** The endpoints of services, which several records may list. */
export class ServiceIndex {
  readonly #slices = new Map<string, ServiceEndpoints>();
  readonly #keysOf = new OneToMany<string, string>();
  readonly #nodes: Pick<Nodes, 'standInsFor'>;

  constructor(nodes: Pick<Nodes, 'standInsFor'>) {
    this.#nodes = nodes;
  }

  /** Replaces or removes a record, and returns the services that it touches, as `NAMESPACE/NAME`. */
  replace(key: string, value: ServiceEndpoints | undefined): string[] {
    const before = this.#slices.get(key);
    if (before !== undefined) this.#keysOf.delete(serviceOf(before), key);
    if (value !== undefined) this.#keysOf.add(serviceOf(value), key);
    if (value === undefined) this.#slices.delete(key);
    else this.#slices.set(key, value);
    return [before, value].flatMap((slice) => (slice === undefined ? [] : serviceOf(slice)));
  }

  /** Returns the services with one of the addresses, as `NAMESPACE/NAME`. */
  having(addresses: readonly Address[]): ReadonlySet<string> {
    const keys = new Set(addresses.map(addressKey));
    const hasOne = (slice: ServiceEndpoints): boolean => slice.addresses.some((each) => keys.has(addressKey(each)));
    return new Set([...this.#slices.values()].filter(hasOne).map(serviceOf));
  }

  /** Returns the addresses from which its endpoints send. Those in the network of their node also send from its tunnel addresses. */
  addressesOf(namespace: string, name: string): readonly Address[] {
    const addresses = this.#slicesOf(namespace, name).flatMap((slice) => slice.addresses);
    return [...addresses, ...this.#nodes.standInsFor(addresses.map(hostCidr)).map(({ base }) => base)];
  }

  portsOf(namespace: string, name: string): readonly ServicePort[] {
    return this.#slicesOf(namespace, name).flatMap(servicePorts);
  }

  hasPort(namespace: string, name: string, { address, protocol, port }: ServicePort): boolean {
    return this.#slicesOf(namespace, name).some(
      ({ addresses, ports }) =>
        ports.some((each) => each.port === port && each.protocol === protocol) &&
        addresses.some((each) => sameAddress(each, address)),
    );
  }

  /** Returns how many `portsOf` would return. */
  countPorts(namespace: string, name: string): number {
    const slices = this.#slicesOf(namespace, name);
    return slices.reduce((sum, { addresses, ports }) => sum + addresses.length * ports.length, 0);
  }

  /** Returns the same list for the same records, whatever the order in which they came. */
  #slicesOf(namespace: string, name: string): readonly ServiceEndpoints[] {
    const keys = this.#keysOf.get(serviceOf({ namespace, name }));
    return keys.toSorted().flatMap((key) => this.#slices.get(key) ?? []);
  }
}

function serviceOf({ namespace, name }: Pick<ServiceEndpoints, 'namespace' | 'name'>): string {
  return `${namespace}/${name}`;
}
