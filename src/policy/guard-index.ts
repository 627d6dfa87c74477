import { OneToMany } from '../base/one-to-many.ts';
import { type Address, addressKey, formatAddress } from '../net/address.ts';
import type { AddressPort } from './policy-view.ts';

/** Addresses and TCP ports of pods behind which each request is shown to be judged. */
export class GuardIndex {
  readonly #portsOf = new Map<string, readonly AddressPort[]>();
  readonly #listsWith = new OneToMany<string, readonly AddressPort[]>();

  /** Replaces what is known of a pod, and returns whether that changes anything. */
  replace(pod: string, ports: readonly AddressPort[] | undefined): boolean {
    const before = this.#portsOf.get(pod) ?? [];
    const after = ports ?? [];
    if (textOf(before) === textOf(after)) return false;
    for (const each of before) this.#listsWith.delete(keyOf(each), before);
    for (const each of after) this.#listsWith.add(keyOf(each), after);
    if (after.length === 0) this.#portsOf.delete(pod);
    else this.#portsOf.set(pod, after);
    return true;
  }

  ports(): readonly AddressPort[] {
    return [...this.#portsOf.values()].flat();
  }

  has(address: Address, port: number): boolean {
    return this.#listsWith.get(keyOf({ address, port })).length > 0;
  }
}

function textOf(ports: readonly AddressPort[]): string {
  return ports
    .map(({ address, port }) => `${formatAddress(address)} ${String(port)}`)
    .toSorted()
    .join(' ');
}

function keyOf({ address, port }: AddressPort): string {
  return `${addressKey(address)} ${String(port)}`;
}
