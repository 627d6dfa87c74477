import { OneToMany } from '../base/one-to-many.ts';
import { evaluateSelector } from '../model/selector.ts';
import { type Address, addressKey, formatAddress } from '../net/address.ts';
import type { AddressPort } from './policy-view.ts';
import type { PeerSelector, PolicyEndpoint } from './resolved-policy.ts';
import type { SelectedItem } from './tracked-selectors.ts';

/** An endpoint or network set as policies see it. */
export interface EndpointItem extends SelectedItem {
  /** Equal for equal items. */
  readonly digest: string;
  readonly endpoint: PolicyEndpoint | undefined;
}

/** Endpoints and network sets by key, and endpoints by address and by named port. */
export class EndpointIndex {
  readonly #items = new Map<string, EndpointItem>();
  readonly #byAddress = new OneToMany<string, EndpointItem>();
  readonly #byPort = new OneToMany<string, EndpointItem>();
  /** Number of addresses with a port of the name, as \`PROTOCOL NAME\`. An address counts for each port. */
  readonly #countsOfPorts = new Map<string, number>();

  find(key: string): EndpointItem | undefined {
    return this.#items.get(key);
  }

  items(): Iterable<EndpointItem> {
    return this.#items.values();
  }

  selected({ selector }: PeerSelector): readonly EndpointItem[] {
    return [...this.#items.values()].filter(({ labels }) => evaluateSelector(selector, labels));
  }

  /** Replaces what the key stands for; undefined removes it. Returns the named ports that it had or has, as \`PROTOCOL NAME\`. */
  replace(key: string, item: EndpointItem | undefined): readonly string[] {
    const before = this.#items.get(key);
    const lost = before?.endpoint?.ports.map(portKey) ?? [];
    const gained = item?.endpoint?.ports.map(portKey) ?? [];
    if (before !== undefined) {
      for (const address of before.endpoint?.addresses ?? []) this.#byAddress.delete(addressKey(address), before);
      for (const port of lost) this.#byPort.delete(port, before);
      for (const port of lost) this.#count(port, -(before.endpoint?.addresses.length ?? 0));
    }
    if (item === undefined) this.#items.delete(key);
    else {
      this.#items.set(key, item);
      for (const address of item.endpoint?.addresses ?? []) this.#byAddress.add(addressKey(address), item);
      for (const port of gained) this.#byPort.add(port, item);
      for (const port of gained) this.#count(port, item.endpoint?.addresses.length ?? 0);
    }
    return [...lost, ...gained];
  }

  endpointsAt(address: Address): readonly PolicyEndpoint[] {
    return this.#byAddress.get(addressKey(address)).flatMap(({ endpoint }) => endpoint ?? []);
  }

  /** Returns at least how many `namedPortsOf` would return without a selector. */
  countNamedPorts(name: string, protocol: number): number {
    return this.#countsOfPorts.get(portKey({ name, protocol })) ?? 0;
  }

  #count(port: string, change: number): void {
    const count = (this.#countsOfPorts.get(port) ?? 0) + change;
    if (count === 0) this.#countsOfPorts.delete(port);
    else this.#countsOfPorts.set(port, count);
  }

  namedPortsOf(name: string, protocol: number, selector?: PeerSelector): readonly AddressPort[] {
    const found = new Map<string, AddressPort>();
    for (const { endpoint, labels } of this.#byPort.get(portKey({ name, protocol }))) {
      if (endpoint === undefined || (selector !== undefined && !evaluateSelector(selector.selector, labels))) continue;
      for (const port of endpoint.ports) {
        if (port.name !== name || port.protocol !== protocol) continue;
        for (const address of endpoint.addresses) {
          found.set(`${formatAddress(address)} ${String(port.port)}`, { address, port: port.port });
        }
      }
    }
    return [...found].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, port]) => port);
  }
}

function portKey({ name, protocol }: { readonly name: string; readonly protocol: number }): string {
  return `${String(protocol)} ${name}`;
}
