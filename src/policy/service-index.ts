import { type Address, addressKey, sameAddress } from '../net/address.ts';
import { hostCidr } from '../net/cidr.ts';
import { type ServiceEndpoints, type ServicePort, servicePorts } from '../model/service-endpoints.ts';
import type { Nodes } from './policy-view.ts';

/** The endpoints of services, which several records may list. */
export class ServiceIndex {
  readonly #slices = new Map<string, Map<string, ServiceEndpoints>>();
  readonly #serviceOf = new Map<string, string>();
  readonly #nodes: Pick<Nodes, 'standInsFor'>;

  constructor(nodes: Pick<Nodes, 'standInsFor'>) {
    this.#nodes = nodes;
  }

  /** Replaces or removes a record, and returns the services that it touches, as `NAMESPACE/NAME`. */
  replace(key: string, value: ServiceEndpoints | undefined): string[] {
    const before = this.#serviceOf.get(key);
    const after = value === undefined ? undefined : `${value.namespace}/${value.name}`;
    if (before !== undefined) {
      const slices = this.#slices.get(before);
      slices?.delete(key);
      if (slices?.size === 0) this.#slices.delete(before);
      this.#serviceOf.delete(key);
    }
    if (value !== undefined && after !== undefined) {
      this.#slices.set(after, (this.#slices.get(after) ?? new Map<string, ServiceEndpoints>()).set(key, value));
      this.#serviceOf.set(key, after);
    }
    return [before, after].flatMap((service) => service ?? []);
  }

  /** Returns the services with one of the addresses, as `NAMESPACE/NAME`. */
  having(addresses: readonly Address[]): string[] {
    const keys = new Set(addresses.map(addressKey));
    const hasOne = (slice: ServiceEndpoints): boolean => slice.addresses.some((each) => keys.has(addressKey(each)));
    return [...this.#slices].flatMap(([service, slices]) => ([...slices.values()].some(hasOne) ? [service] : []));
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
    const slices = [...(this.#slices.get(`${namespace}/${name}`) ?? [])];
    return slices.toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, slice]) => slice);
  }
}
