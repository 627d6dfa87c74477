import { FAMILIES, type Family } from '../net/address.ts';
import { type Cidr, outermostCidrs } from '../net/cidr.ts';
import type { NftChain, NftObject, NftTable } from '../dataplane/packet-filter.ts';
import { type FloatingAddress, floatingObjects } from './nat-floating.ts';
import {
  ACCEPT,
  ADDRESS_TYPES,
  ESTABLISHED,
  MASQUERADE,
  addressType,
  goesOutside,
  headerAddress,
  isIn,
  isOfNoType,
  isOfType,
  leavesBy,
  setName,
  prefixOf,
  rule,
} from './nft-statements.ts';

export const NAT_TABLE = 'netplug-nat';

/** Facts on which the address translation of this node depends. */
export interface NatInput {
  /** Pools with `natOutgoing`. */
  readonly natPools: readonly Cidr[];
  /** Every pool, those with `natOutgoing` included. */
  readonly allPools: readonly Cidr[];
  /** Floating IPs of pods of this node. The first pod gets an external address that several have; a pod sends with its first one. */
  readonly floating: readonly FloatingAddress[];
  /** Names of the tunnel devices. */
  readonly tunnels: readonly string[];
}

const CHAINS: readonly NftChain[] = [
  { name: 'prerouting', type: 'nat', hook: 'prerouting', prio: -100, policy: 'accept' },
  { name: 'output', type: 'nat', hook: 'output', prio: -100, policy: 'accept' },
  { name: 'postrouting', type: 'nat', hook: 'postrouting', prio: 100, policy: 'accept' },
];

/**
 * Renders the table of address translation of a node. With nothing to translate, an existing table keeps its chains and
 * one rule that tracks connections: without them the kernel would stop translating established connections.
 */
export function renderNat(input: NatInput): NftTable {
  const objects = [...FAMILIES.flatMap((family) => familyObjects(family, input)), ...tunnelRules(input.tunnels)];
  const rules = objects.filter((object) => 'rule' in object);
  const chains = CHAINS.map((chain) => ({ chain }));
  if (rules.length === 0)
    return { name: NAT_TABLE, objects: [...chains, rule('postrouting', ESTABLISHED, ACCEPT)], onlyIfExists: true };
  const sets = objects.filter((object) => !('rule' in object));
  return { name: NAT_TABLE, objects: [...sets, ...chains, ...rules] };
}

/** The first matching source translation wins, so rules for floating addresses precede masquerading. */
function familyObjects(family: Family, input: NatInput): readonly NftObject[] {
  const floating = input.floating.filter((pair) => pair.external.family === family && pair.internal.family === family);
  const objects = [...floatingObjects(family, floating), ...outgoingObjects(family, input.natPools)];
  return objects.length === 0 ? [] : [poolSet('pools', family, input.allPools), ...objects];
}

function outgoingObjects(family: Family, natPools: readonly Cidr[]): readonly NftObject[] {
  if (!natPools.some(({ base }) => base.family === family)) return [];
  const fromPool = isIn(headerAddress(family, 'saddr'), setName('nat-pools', family));
  return [poolSet('nat-pools', family, natPools), rule('postrouting', fromPool, ...goesOutside(family), MASQUERADE)];
}

/** Masquerades the host's own packets into a tunnel, whose answers would otherwise bypass the tunnel or get lost. */
function tunnelRules(tunnels: readonly string[]): readonly NftObject[] {
  if (tunnels.length === 0) return [];
  const isOwn = isOfType(addressType('saddr'), 'local');
  const isOfAnotherDevice = isOfNoType(addressType('saddr', 'oif'), ['local']);
  return [rule('postrouting', leavesBy(tunnels.toSorted()), isOwn, isOfAnotherDevice, MASQUERADE)];
}

function poolSet(name: string, family: Family, pools: readonly Cidr[]): NftObject {
  const elem = outermostCidrs(pools.filter(({ base }) => base.family === family)).map(prefixOf);
  const set = { name: setName(name, family), type: ADDRESS_TYPES[family], flags: ['interval'] };
  return { set: elem.length === 0 ? set : { ...set, elem } };
}
