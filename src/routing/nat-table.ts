import type { FilterSet, FilterTable, TableRule } from '../dataplane/policy-filter.ts';
import { FAMILIES, type Family } from '../net/address.ts';
import { type Cidr, formatCidr, outermostCidrs } from '../net/cidr.ts';
import { ACCEPT, goesOutside, rule, setName } from './filter-parts.ts';
import { type FloatingAddress, floatingPart, type NatPart } from './nat-floating.ts';

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

/** The table of address translation. */
export interface NatTable extends FilterTable {
  /** Whether nothing is translated: then it belongs on a host only where it exists already. */
  readonly isIdle: boolean;
}

/**
 * Renders the table of address translation of a node. With nothing to translate, an existing table keeps its chains and
 * one rule that tracks connections: without them the kernel would stop translating established connections.
 */
export function renderNat(input: NatInput): NatTable {
  const parts = FAMILIES.map((family) => familyPart(family, input));
  const [arriving, leaving] = [parts.flatMap((each) => each.arriving), parts.flatMap((each) => each.leaving)];
  const translating = [...leaving, ...input.tunnels.toSorted().map(tunnelRule)];
  const isIdle = arriving.length + translating.length === 0;
  const tracking = rule('established', { kind: 'state', states: ['established'] }, ACCEPT);
  return {
    name: NAT_TABLE,
    chains: new Map([
      ['prerouting', { hook: { type: 'nat', hook: 'prerouting', priority: -100 }, rules: arriving }],
      ['output', { hook: { type: 'nat', hook: 'output', priority: -100 }, rules: arriving }],
      [
        'postrouting',
        { hook: { type: 'nat', hook: 'postrouting', priority: 100 }, rules: isIdle ? [tracking] : translating },
      ],
    ]),
    sets: new Map(parts.flatMap((each) => each.sets)),
    isIdle,
  };
}

/** The first matching source translation wins, so rules for floating addresses precede masquerading. */
function familyPart(family: Family, input: NatInput): NatPart {
  const floating = floatingPart(
    family,
    input.floating.filter((pair) => pair.external.family === family),
  );
  const isMasquerading = input.natPools.some(({ base }) => base.family === family);
  if (floating.sets.length === 0 && !isMasquerading) return floating;
  const fromPool = setName('nat-pools', family);
  const masquerading = isMasquerading
    ? [
        rule(fromPool, { kind: 'member', side: 'source', family, set: fromPool }, ...goesOutside(family), {
          kind: 'masquerade',
        }),
      ]
    : [];
  return {
    sets: [
      [setName('pools', family), poolSet(family, input.allPools)],
      ...floating.sets,
      ...(isMasquerading ? [[fromPool, poolSet(family, input.natPools)] as const] : []),
    ],
    arriving: floating.arriving,
    leaving: [...floating.leaving, ...masquerading],
  };
}

/** Masquerades the host's own packets into a tunnel, whose answers would otherwise bypass the tunnel or get lost. */
function tunnelRule(device: string): TableRule {
  return rule(
    'tunnel',
    { kind: 'interface', direction: 'out', name: device },
    { kind: 'address type', side: 'source', type: 'local' },
    { kind: 'address type', side: 'source', type: 'local', isOfLeaving: true, isNegated: true },
    { kind: 'masquerade' },
  );
}

function poolSet(family: Family, pools: readonly Cidr[]): FilterSet {
  const ofFamily = outermostCidrs(pools.filter(({ base }) => base.family === family));
  return { kind: 'nets', family, elements: new Set(ofFamily.map(formatCidr)) };
}
