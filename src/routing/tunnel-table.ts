import type { FilterMatch, FilterTable, TableRule } from '../dataplane/policy-filter.ts';
import { type Address, FAMILIES, type Family, formatAddress } from '../net/address.ts';
import type { Cidr } from '../net/cidr.ts';
import { ACCEPT, COMES_FROM_OUTSIDE, COMES_FROM_POD, DROP, rule, setName } from './filter-parts.ts';
import { TUNNEL_KINDS, type TunnelKind, TUNNELS, VXLAN_PORT, VXLAN_VNI } from './tunnels.ts';

export const TUNNEL_TABLE = 'netplug-tunnels';

/** The tunnels in use, and the nodes that may send through them. */
export interface TunnelInput {
  /** The tunnels that pools ask for. */
  readonly tunnels: readonly TunnelKind[];
  /** Addresses of all other nodes. */
  readonly nodes: readonly Address[];
  /** Pools to which pods of other nodes send by one tunnel alone. */
  readonly tunnelled?: readonly TunnelledPools[];
}

/** Pools to whose pods those of other nodes send by the tunnel alone. */
export interface TunnelledPools {
  readonly by: TunnelKind;
  /** Disjoint, and of the family of the tunnel. */
  readonly pools: readonly Cidr[];
  /** Only from addresses in these, and of nodes to which the tunnel leads; from all that a tunnel leads to unless given. */
  readonly from?: readonly Cidr[];
}

const [UDP, IPIP] = [17, 4];
const IS_VXLAN: readonly FilterMatch[] = [
  { kind: 'protocol', protocols: [UDP] },
  { kind: 'ports', side: 'destination', spans: [{ first: VXLAN_PORT, last: VXLAN_PORT }] },
];
const IS_IPIP: readonly FilterMatch[] = [{ kind: 'protocol', protocols: [IPIP] }];
/** Does not match a fragment that is too short to contain the VNI, so the table drops it like one with the netplug VNI. */
const IS_OTHER_VXLAN: FilterMatch = {
  kind: 'payload',
  offset: 12,
  bytes: [VXLAN_VNI >> 16, (VXLAN_VNI >> 8) & 0xff, VXLAN_VNI & 0xff],
  isNegated: true,
};

/**
 * Renders the table that drops tunnel packets whose source address is not that of another node. Also drops those that
 * this node forwards to another node: translated on the way, they would come from this node's address. Accepts VXLAN
 * packets of other VNIs. What is for a pod, and comes with the address of a pod or node that only a tunnel leads to, must come out
 * of the tunnel. Without tunnels there is no table.
 */
export function renderTunnelTable({ tunnels, nodes, tunnelled = [] }: TunnelInput): FilterTable | undefined {
  const filtered = FAMILIES.flatMap((family) => {
    const kinds = tunnels.filter((kind) => TUNNELS[kind].family === family);
    const matches = [...new Set(kinds.map((kind) => (kind === 'ipip4' ? IS_IPIP : IS_VXLAN)))];
    return matches.map((match) => ({ family, match }));
  });
  if (filtered.length === 0) return undefined;
  const ofOthers = filtered.some(({ match }) => match === IS_VXLAN)
    ? [rule('other-vxlan', ...IS_VXLAN, IS_OTHER_VXLAN, ACCEPT)]
    : [];
  const chain = (hook: 'input' | 'forward') => ({
    hook: { type: 'filter', hook, priority: 0 } as const,
    rules: [
      ...ofOthers,
      ...filtered.flatMap(({ family, match }) => dropRules(hook, family, match)),
      ...(hook === 'forward' && tunnelled.length > 0 ? [TRANSLATED, ...tunnelled.flatMap(besideTunnel)] : []),
    ],
  });
  return {
    name: TUNNEL_TABLE,
    chains: new Map([
      ['input', chain('input')],
      ['forward', chain('forward')],
    ]),
    sets: new Map(
      [...new Set(filtered.map(({ family }) => family))].map((family) => [
        setName('nodes', family),
        { kind: 'addresses', family, elements: new Set(ofFamily(family, nodes).map(formatAddress)) },
      ]),
    ),
  };
}

/** Also drops packets that come from the link of a pod with the address of a node. */
function dropRules(hook: 'input' | 'forward', family: Family, isTunnel: readonly FilterMatch[]): readonly TableRule[] {
  const set = setName('nodes', family);
  const isConcerned: FilterMatch =
    hook === 'input' ? { kind: 'family', family } : { kind: 'member', side: 'destination', family, set };
  const isStranger: FilterMatch = { kind: 'member', side: 'source', family, set, isNegated: true };
  return [
    rule(`pod-v${String(family)}`, ...isTunnel, isConcerned, COMES_FROM_POD, DROP),
    rule(`stranger-v${String(family)}`, ...isTunnel, isConcerned, isStranger, DROP),
  ];
}

/** What the host translates may have been sent to an address that no tunnel leads to. */
const TRANSLATED = rule('translated', { kind: 'translated' }, ACCEPT);

function besideTunnel({ by, pools, from }: TunnelledPools): readonly TableRule[] {
  const { device, family } = TUNNELS[by];
  const nets = (side: 'source' | 'destination', list: readonly Cidr[]): FilterMatch => ({
    kind: 'nets',
    side,
    family,
    nets: list,
  });
  const leading = from === undefined ? TUNNEL_KINDS.filter((kind) => TUNNELS[kind].family === family) : [by];
  return leading.map((kind) =>
    rule(
      `beside-${by}-${kind}`,
      { kind: 'interface', direction: 'in', name: device, isNegated: true },
      COMES_FROM_OUTSIDE,
      nets('destination', pools),
      ...(from === undefined ? [] : [nets('source', from)]),
      { kind: 'source route', name: TUNNELS[kind].device },
      DROP,
    ),
  );
}

function ofFamily(family: Family, addresses: readonly Address[]): readonly Address[] {
  return addresses.filter((address) => address.family === family);
}
