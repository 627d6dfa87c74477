import { getOrInsert } from '../../base/get-or-insert.ts';
import { type Address, addressKey, parseAddress, sameAddress } from '../../net/address.ts';
import { type Cidr, parseCidr } from '../../net/cidr.ts';
import { MemberSet } from '../member-set.ts';
import type { AddressPort, Nodes, PolicyView, Services } from '../policy-view.ts';
import type {
  Account,
  PeerSelector,
  PolicyDirection,
  PolicyEndpoint,
  PolicyTier,
  ResolvedPolicy,
  ResolvedProfile,
} from '../resolved-policy.ts';
import type { FedEndpoint, FedPart } from './messages.ts';
import { fromWire } from './wire-rule.ts';

/** A part that a rule needs is not there. What is missing must close. */
export class MissingPart extends Error {}

/** A set, as texts, and as networks once a selector asks for them. */
interface ReceivedSet {
  readonly entries: Set<string>;
  readonly members: MemberSet | undefined;
}

/** What sets say of an address, by its key. */
interface EntriesByAddress {
  readonly ports: ReadonlyMap<string, PolicyEndpoint['ports']>;
  /** Addresses of the node whose tunnel it is. */
  readonly behind: ReadonlyMap<string, readonly Address[]>;
}

const IN_NO_NAMESPACE = '';

/** Policies as the agent has fed them: of one pod, for what it receives. */
export class ReceivedView implements PolicyView {
  readonly endpoints = new Map<string, PolicyEndpoint>();
  readonly hostEndpoints = new Map<string, PolicyEndpoint>();
  #fed: FedEndpoint | undefined;
  readonly #policies = new Map<string, ResolvedPolicy>();
  readonly #profiles = new Map<string, ResolvedProfile>();
  readonly #sets = new Map<string, ReceivedSet>();
  /** Of the sets as they are. */
  #found: EntriesByAddress | undefined;

  /** The pod; undefined until the agent has said which. */
  get endpoint(): PolicyEndpoint | undefined {
    return this.#fed && this.endpoints.get(this.#fed.key);
  }

  /** Whether requests have to be judged. */
  get asks(): boolean {
    return this.#fed?.asks === true;
  }

  get policyCount(): number {
    return this.#policies.size;
  }

  get tiers(): readonly PolicyTier[] {
    return (this.#fed?.tiers ?? []).map(({ name, defaultAction }) => ({ name, defaultAction, policies: [] }));
  }

  apply(parts: readonly FedPart[]): void {
    for (const part of parts) this.#apply(part);
  }

  policiesOf(_: PolicyEndpoint, { name }: PolicyTier, direction: PolicyDirection): readonly ResolvedPolicy[] {
    if (direction === 'egress') return [];
    const ids = this.#fed?.tiers.find((tier) => tier.name === name)?.policies ?? [];
    return ids.map((id) => this.#policies.get(id) ?? missing(`policy ${id}`));
  }

  profile(name: string): ResolvedProfile | undefined {
    return this.#profiles.get(name);
  }

  membersOf(selector: PeerSelector): readonly Cidr[] {
    return this.#membersOf(selector).list();
  }

  isMember(selector: PeerSelector, address: Address): boolean {
    return this.#membersOf(selector).contains(address);
  }

  /** Returns what stands for the endpoint with the named ports of the address that rules ask for. */
  endpointsAt(address: Address): readonly PolicyEndpoint[] {
    const ports = this.#byAddress().ports.get(addressKey(address));
    return ports === undefined ? [] : [standIn(address, ports)];
  }

  namedPortsOf(name: string, protocol: number): readonly AddressPort[] {
    return [...this.#set(`port ${String(protocol)} ${name}`).entries].map(addressPortOf);
  }

  isAccountOf({ id }: PeerSelector, { namespace, name }: Account): boolean {
    return this.#set(`accounts ${id}`).entries.has(`${namespace}/${name}`);
  }

  accountsOf({ id }: PeerSelector): readonly Account[] {
    return [...this.#set(`accounts ${id}`).entries].map((entry) => {
      const [namespace = '', name = ''] = entry.split('/');
      return { namespace, name };
    });
  }

  /** The proxy that asks has the request before it, so the check is in its path. */
  isGuarded(): boolean {
    return true;
  }

  guardedPorts(): readonly AddressPort[] {
    return [];
  }

  readonly services: Services = {
    addressesOf: (namespace, name) =>
      [...this.#set(`service ${namespace}/${name} addresses`).entries].map(parseAddress),
    portsOf: (namespace, name) =>
      [...this.#set(`service ${namespace}/${name} ports`).entries].map((entry) => {
        const [address = '', protocol, port] = entry.split(' ');
        return { address: parseAddress(address), protocol: Number(protocol), port: Number(port) };
      }),
    hasPort: (namespace, name, { address, protocol, port }) =>
      this.services
        .portsOf(namespace, name)
        .some((each) => each.protocol === protocol && each.port === port && sameAddress(each.address, address)),
  };

  readonly nodes: Nodes = {
    standInsFor: () => [],
    behind: (address) => {
      const { behind } = this.#byAddress();
      // Each rule asks: no key is made where nothing can be found.
      return behind.size === 0 ? [] : (behind.get(addressKey(address)) ?? []);
    },
  };

  /** Each rule may ask about each address, and there may be many of both. */
  #byAddress(): EntriesByAddress {
    this.#found ??= entriesByAddress(this.#sets);
    return this.#found;
  }

  #apply(part: FedPart): void {
    this.#found = undefined;
    switch (part.type) {
      case 'endpoint':
        return this.#applyEndpoint(part.endpoint);
      case 'policy': {
        const { id, isStaged, rules } = part;
        const ingress = rules.map(fromWire);
        const rest = { stage: 'normal', applyOnForward: true, appliesTo: { kind: 'all' } } as const;
        this.#policies.set(id, { id, isStaged, ...rest, rules: { ingress } });
        return undefined;
      }
      case 'profile':
        this.#profiles.set(part.name, {
          name: part.name,
          rules: { ingress: part.rules.map(fromWire), egress: [] },
        });
        return undefined;
      case 'set':
        return this.#applySet(part);
      case 'gone':
        ({ policy: this.#policies, profile: this.#profiles, set: this.#sets })[part.what].delete(part.key);
        return undefined;
    }
  }

  #applyEndpoint(fed: FedEndpoint): void {
    this.#fed = fed;
    const { key, shown, node, namespace, addresses, profiles } = fed;
    this.endpoints.clear();
    this.endpoints.set(key, {
      ...standIn(undefined, []),
      key,
      shown,
      node,
      namespace,
      addresses: addresses.map(parseAddress),
      profiles,
    });
  }

  #applySet({ key, isWhole, added, removed }: Extract<FedPart, { type: 'set' }>): void {
    const known = isWhole ? undefined : this.#sets.get(key);
    const set = known ?? {
      entries: new Set<string>(),
      members: key.startsWith('members ') ? new MemberSet() : undefined,
    };
    this.#sets.set(key, set);
    for (const entry of removed) {
      if (set.entries.delete(entry)) set.members?.remove(parseCidr(entry));
    }
    for (const entry of added) {
      if (set.entries.has(entry)) continue;
      set.entries.add(entry);
      set.members?.add(parseCidr(entry));
    }
  }

  #membersOf({ id }: PeerSelector): MemberSet {
    return this.#set(`members ${id}`).members ?? missing(`members ${id}`);
  }

  #set(key: string): ReceivedSet {
    return this.#sets.get(key) ?? missing(`set ${key}`);
  }
}

function entriesByAddress(sets: ReadonlyMap<string, ReceivedSet>): EntriesByAddress {
  const [ports, behind] = [new Map<string, PolicyEndpoint['ports'][number][]>(), new Map<string, Address[]>()];
  for (const [key, { entries }] of sets) {
    const [, protocol, name = ''] = /^port (\d+) (.*)$/.exec(key) ?? [];
    for (const entry of protocol === undefined ? [] : entries) {
      const { address, port } = addressPortOf(entry);
      listAt(ports, address).push({ name, protocol: Number(protocol), port });
    }
    for (const entry of key.startsWith('nets ') ? entries : []) {
      const [tunnel, own] = entry.split(' ').map(parseAddress);
      if (tunnel !== undefined && own !== undefined) listAt(behind, tunnel).push(own);
    }
  }
  return { ports, behind };
}

function listAt<T>(lists: Map<string, T[]>, address: Address): T[] {
  return getOrInsert(lists, addressKey(address), () => []);
}

function missing(what: string): never {
  throw new MissingPart(`${what} has not been received`);
}

function addressPortOf(entry: string): AddressPort {
  const [address = '', port] = entry.split(' ');
  return { address: parseAddress(address), port: Number(port) };
}

function standIn(address: Address | undefined, ports: PolicyEndpoint['ports']): PolicyEndpoint {
  return {
    key: '',
    kind: 'workload',
    shown: '',
    node: '',
    namespace: IN_NO_NAMESPACE,
    labels: {},
    addresses: address === undefined ? [] : [address],
    ports,
    profiles: [],
    interfaceName: undefined,
  };
}
