import type { FilterMatch, FilterTable, TableRule } from '../dataplane/policy-filter.ts';
import { type Address, FAMILIES, type Family, formatAddress } from '../net/address.ts';
import { ACCEPT, COMES_FROM_POD, DROP, rule, setName } from './filter-parts.ts';
import { type TunnelKind, TUNNELS, VXLAN_PORT, VXLAN_VNI } from './tunnels.ts';

export const TUNNEL_TABLE = 'netplug-tunnels';

/** The tunnels in use, and the nodes that may send through them. */
export interface TunnelInput {
  /** The tunnels that pools ask for. */
  readonly tunnels: readonly TunnelKind[];
  /** Addresses of all other nodes. */
  readonly nodes: readonly Address[];
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
 * packets of other VNIs. Without tunnels there is no table.
 */
export function renderTunnelTable({ tunnels, nodes }: TunnelInput): FilterTable | undefined {
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
    rules: [...ofOthers, ...filtered.flatMap(({ family, match }) => dropRules(hook, family, match))],
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

function ofFamily(family: Family, addresses: readonly Address[]): readonly Address[] {
  return addresses.filter((address) => address.family === family);
}
