import { never } from '../base/errors.ts';
import type { HostInterface } from '../dataplane/host-network.ts';
import { type Address, bitsOf, type Family, formatAddress, sameAddress } from '../net/address.ts';
import { type Cidr, cidrAround, cidrContains, formatCidr, parseCidr } from '../net/cidr.ts';
import type { Detection } from './detect-address-method.ts';
import { ownerOfLink } from './foreign-links.ts';

/** The facts of the host from which its address is detected. */
export interface HostFacts {
  /** In the kernel's order: the first of several candidates wins. */
  readonly interfaces: readonly HostInterface[];
  /** All pools, whose addresses belong to pods or tunnels. */
  readonly pools: readonly Cidr[];
  /** For `can-reach`: the host's route to the target; undefined when it has none. */
  readonly reach: { readonly device: string; readonly source: Address | undefined } | undefined;
  /** Addresses that the node has had, the preferred one first: of several that a method allows it stays the one, whatever the kernel lists first. */
  readonly known?: readonly Address[];
  /** The InternalIPs of the Node, in its order. */
  readonly internalIps: readonly Address[];
}

/** An address of the node, and the interface that has it. */
export interface Detected {
  readonly kind: 'found';
  readonly address: Address;
  readonly prefixBits: number;
  readonly interfaceName: string;
  /** Bytes. */
  readonly mtu: number;
}

export type DetectionOutcome =
  | Detected
  | { readonly kind: 'none' }
  | {
      readonly kind: 'problem';
      /** A sentence for the user. */
      readonly problem: string;
      /** A method that finds an address that was skipped for the name of its interface. */
      readonly method?: string;
    };

/** Loopback and link-local networks, which other nodes cannot reach. */
const LOCAL: readonly Cidr[] = ['127.0.0.0/8', '169.254.0.0/16', '::1/128', 'fe80::/10'].map(parseCidr);

/**
 * Detects the node's address of the family among those of its interfaces. A method that leaves a choice takes the first interface
 * that has an address with a network, unless another interface has one that the node has had, or else the InternalIP; there
 * `preferred` decides.
 */
export function detectAddress(family: Family, detection: Detection, facts: HostFacts): DetectionOutcome {
  const candidates = candidatesOf(family, facts);
  const choose = (lists: readonly (readonly Detected[])[], reason: string): DetectionOutcome =>
    preferred(lists.find((list) => list.length > 0) ?? [], facts) ??
    problem(family, `${reason}${inPools(family, facts)}`);
  const offered = offeredOf(candidates, facts);
  const chooseOffered = (list: readonly Detected[], reason: string): DetectionOutcome => {
    const outcome = choose([list], reason);
    const skipped = likeliestOf(candidates.filter((each) => !offered.includes(each)));
    return outcome.kind === 'problem' && skipped !== undefined ? withSkipped(outcome.problem, skipped) : outcome;
  };
  switch (detection.kind) {
    case 'none':
      return { kind: 'none' };
    case 'first-found':
      return chooseOffered(offered, 'no interface that is up has one');
    case 'skip-interface': {
      const left = offered.filter((each) => !matchesAny(each, detection.patterns));
      return chooseOffered(left, `no interface that is up has one, other than ${patternList(detection.patterns)}`);
    }
    case 'interface': {
      const inOrder = detection.patterns.map((pattern) => candidates.filter((each) => matchesAny(each, [pattern])));
      return choose(inOrder, `no interface that is up and matches ${patternList(detection.patterns)} has one`);
    }
    case 'cidr': {
      const inOrder = detection.cidrs.map((cidr) => candidates.filter(({ address }) => cidrContains(cidr, address)));
      return choose(inOrder, `no interface that is up has one in ${detection.cidrs.map(formatCidr).join(', ')}`);
    }
    case 'can-reach':
      return detectByRoute(family, detection.target, facts);
    case 'orch-internal-ip': {
      const internal = facts.internalIps.find((address) => address.family === family);
      if (internal === undefined)
        return problem(family, 'the Node of the orchestrator has no InternalIP of this family');
      return ownerOf(family, internal, facts);
    }
    case 'literal': {
      const owner = ownerOf(family, detection.address, facts);
      if (owner.kind !== 'found' || detection.prefixBits === undefined) return owner;
      return { ...owner, prefixBits: detection.prefixBits };
    }
    default:
      return never(detection);
  }
}

function detectByRoute(family: Family, target: Address, facts: HostFacts): DetectionOutcome {
  const text = formatAddress(target);
  if (target.family !== family) return problem(family, `${text} is of the other family`);
  if (facts.reach === undefined) return problem(family, `the host has no route to ${text}`);
  const { device, source } = facts.reach;
  const there = candidatesOf(family, facts).filter(({ interfaceName, address }) =>
    source === undefined ? interfaceName === device : sameAddress(address, source),
  );
  return (
    preferred(there, facts) ??
    problem(family, `interface "${device}", by which the host reaches ${text}, has none to use`)
  );
}

/** Finds the address on any interface, also on one that is down, because the user named the address. */
function ownerOf(family: Family, wanted: Address, { interfaces }: HostFacts): DetectionOutcome {
  if (wanted.family !== family) return problem(family, `${formatAddress(wanted)} is of the other family`);
  const found = interfaces.flatMap(addressesOf).find(({ address }) => sameAddress(address, wanted));
  return found ?? problem(family, `no interface has ${formatAddress(wanted)}`);
}

/** Returns the addresses by which other nodes can reach this one, on interfaces of any name. */
function candidatesOf(
  family: Family,
  { interfaces, pools, known = [] }: Pick<HostFacts, 'interfaces' | 'pools' | 'known'>,
): readonly Detected[] {
  // A pool that is written over the network of a node takes no address away from the node.
  const isRefused = (address: Address): boolean =>
    [...LOCAL, ...(includes(known, address) ? [] : pools)].some((cidr) => cidrContains(cidr, address));
  return interfaces
    .filter(({ isUp, isLoopback }) => isUp && !isLoopback)
    .flatMap(addressesOf)
    .filter(({ address }) => address.family === family && !isRefused(address));
}

/**
 * Returns the candidates without those of interfaces that other programs name so. An interface with the InternalIP is the node's
 * whatever its name is, and without one on any interface that of an address that the node has had: a later list of names moves none.
 */
function offeredOf(
  candidates: readonly Detected[],
  { interfaces, known = [], internalIps }: HostFacts,
): readonly Detected[] {
  const withAny = (addresses: readonly Address[]): ReadonlySet<string> =>
    new Set(
      interfaces
        .filter((each) => each.addresses.some(({ address }) => includes(addresses, address)))
        .map(({ name }) => name),
    );
  const internal = withAny(internalIps);
  const trusted = internal.size > 0 ? internal : withAny(known);
  return candidates.filter((each) => mayBeOfNode(each) || trusted.has(each.interfaceName));
}

/** Docker names bridges by numbers; `br-ex` and the like are bridges with an uplink more often than not. */
function likeliestOf(skipped: readonly Detected[]): Detected | undefined {
  return skipped.find(({ interfaceName }) => /^br-(?![0-9a-f]{12}$)/.test(interfaceName)) ?? skipped[0];
}

function withSkipped(text: string, skipped: Detected): DetectionOutcome {
  const { address, interfaceName } = skipped;
  const owner = ownerOfLink(interfaceName) ?? 'other programs';
  return {
    kind: 'problem',
    problem: `${text.replace('has one', 'has one that counts')}; ${formatAddress(address)} of interface "${interfaceName}" is skipped, because ${owner} names interfaces so`,
    method: methodFor(skipped),
  };
}

/** Returns a method that finds the address, and those of other nodes in its network. */
function methodFor({ address, prefixBits, interfaceName }: Detected): string {
  if (isHostAddress({ address, prefixBits })) return `interface=^${interfaceName}$`;
  return `cidr=${formatCidr(cidrAround(address, prefixBits))}`;
}

/** Returns a method that finds another address of this node than that one; undefined when it has none. Networks are alike on all nodes. */
export function methodWithout(
  taken: Pick<Detected, 'address' | 'interfaceName'>,
  { interfaces, pools }: Pick<HostFacts, 'interfaces' | 'pools'>,
): string | undefined {
  const methods = candidatesOf(taken.address.family, { interfaces, pools })
    .filter((each) => mayBeOfNode(each) && !isHostAddress(each))
    .map(({ address, prefixBits, interfaceName }) => {
      const network = cidrAround(address, prefixBits);
      if (!cidrContains(network, taken.address)) return `cidr=${formatCidr(network)}`;
      return interfaceName === taken.interfaceName ? undefined : `interface=^${interfaceName}$`;
    });
  return methods.find((method) => method !== undefined);
}

/** Names an address that is not used because a pool contains it; an empty text when there is none. */
function inPools(family: Family, facts: HostFacts): string {
  if (candidatesOf(family, facts).some(mayBeOfNode)) return '';
  const [covered] = candidatesOf(family, { ...facts, pools: [] }).filter(mayBeOfNode);
  const pool = facts.pools.find((cidr) => covered !== undefined && cidrContains(cidr, covered.address));
  if (covered === undefined || pool === undefined) return '';
  const text = `${formatAddress(covered.address)} of interface "${covered.interfaceName}"`;
  return `; ${text} is inside the pool ${formatCidr(pool)}, whose addresses are for pods`;
}

function addressesOf({ name, mtu, addresses }: HostInterface): readonly Detected[] {
  return addresses.map(({ address, prefixBits }) => ({
    kind: 'found',
    address,
    prefixBits,
    interfaceName: name,
    mtu,
  }));
}

function mayBeOfNode({ interfaceName }: Detected): boolean {
  return ownerOfLink(interfaceName) === undefined;
}

function matchesAny({ interfaceName }: Detected, patterns: readonly RegExp[]): boolean {
  return patterns.some((pattern) => pattern.test(interfaceName));
}

function patternList(patterns: readonly RegExp[]): string {
  return patterns.map(({ source }) => `"${source}"`).join(', ');
}

/** Reports whether the prefix is that of the address alone: of a program that moves it between nodes, or of a network that routes each host. */
export function isHostAddress({ address, prefixBits }: Pick<Detected, 'address' | 'prefixBits'>): boolean {
  return prefixBits === bitsOf(address.family);
}

/** Reports whether other nodes cannot reach the address: it is a loopback or link-local one. */
export function isLocalAddress(address: Address): boolean {
  return LOCAL.some((cidr) => cidrContains(cidr, address));
}

/**
 * Returns the candidate to use. The interface is the one of an address that the node has had, wherever the kernel lists it since it
 * was made again; without one it is that of the InternalIP, and else the first that has an address with a network. Addresses with a
 * network go before those without. Among the former the one that the node has had goes before the InternalIP and that before the first; among
 * the latter the InternalIP goes first, since one that moves may be what the node had.
 */
function preferred(candidates: readonly Detected[], { known = [], internalIps }: HostFacts): Detected | undefined {
  const isInternal = ({ address }: Detected): boolean => includes(internalIps, address);
  const sure = candidates.filter((each) => !isHostAddress(each) || isInternal(each));
  const [anchor] = inOrderOf([...known, ...internalIps], sure.length > 0 ? sure : candidates);
  const there = candidates.filter(({ interfaceName }) => interfaceName === anchor?.interfaceName);
  // DHCPv6 assigns addresses without a network: one on which the node and its Node agree stays.
  const isLasting = (each: Detected): boolean =>
    !isHostAddress(each) || (each.address.family === 6 && isInternal(each) && includes(known, each.address));
  const hasLasting = there.some(isLasting);
  const eligible = hasLasting ? there.filter(isLasting) : there;
  return inOrderOf(hasLasting ? [...known, ...internalIps] : [...internalIps, ...known], eligible)[0];
}

/** Returns the candidates with those first that have one of the addresses, in the order of the addresses. */
function inOrderOf(addresses: readonly Address[], candidates: readonly Detected[]): readonly Detected[] {
  const first = addresses.flatMap((wanted) => candidates.filter(({ address }) => sameAddress(address, wanted)));
  return [...first, ...candidates];
}

function includes(addresses: readonly Address[], wanted: Address): boolean {
  return addresses.some((address) => sameAddress(address, wanted));
}

function problem(family: Family, reason: string): DetectionOutcome {
  return { kind: 'problem', problem: `Cannot find an IPv${String(family)} address of the node: ${reason}` };
}
