import type { NftChain, NftObject, NftStatement, NftTable } from '../dataplane/packet-filter.ts';
import { type Address, FAMILIES, type Family, formatAddress } from '../net/address.ts';
import {
  ACCEPT,
  ADDRESS_TYPES,
  COMES_FROM_POD,
  DROP,
  headerAddress,
  isIn,
  isNotIn,
  isOfFamily,
  setName,
  rule,
} from './nft-statements.ts';
import { type TunnelKind, TUNNELS, VXLAN_PORT, VXLAN_VNI } from './tunnels.ts';

export const TUNNEL_TABLE = 'netplug-tunnels';

/** The tunnels in use, and the nodes that may send through them. */
export interface TunnelInput {
  /** The tunnels that pools ask for. */
  readonly tunnels: readonly TunnelKind[];
  /** Addresses of all other nodes. */
  readonly nodes: readonly Address[];
}

const INPUT: NftChain = { name: 'input', type: 'filter', hook: 'input', prio: 0, policy: 'accept' };
const FORWARD: NftChain = { name: 'forward', type: 'filter', hook: 'forward', prio: 0, policy: 'accept' };

const IS_VXLAN: NftStatement = {
  match: { op: '==', left: { payload: { protocol: 'udp', field: 'dport' } }, right: VXLAN_PORT },
};
/** Does not match a fragment that is too short to contain the VNI, so the table drops it like one with the netplug VNI. */
const IS_OTHER_VXLAN: NftStatement = {
  match: { op: '!=', left: { payload: { base: 'th', offset: 96, len: 24 } }, right: VXLAN_VNI },
};
/** The protocol number in the IPv4 header. */
const IPIP_PROTOCOL = 4;
const IS_IPIP: NftStatement = { match: { op: '==', left: { meta: { key: 'l4proto' } }, right: IPIP_PROTOCOL } };

/**
 * Renders the table that drops tunnel packets whose source address is not that of another node. Also drops those that
 * this node forwards to another node: translated on the way, they would come from this node's address. Accepts VXLAN
 * packets of other VNIs. Without tunnels the table is empty, which removes it.
 */
export function renderTunnelTable({ tunnels, nodes }: TunnelInput): NftTable {
  const filtered = FAMILIES.flatMap((family) => {
    const kinds = tunnels.filter((kind) => TUNNELS[kind].family === family);
    const matches = [...new Set(kinds.map((kind) => (kind === 'ipip4' ? IS_IPIP : IS_VXLAN)))];
    return matches.map((match) => ({ family, match }));
  });
  if (filtered.length === 0) return { name: TUNNEL_TABLE, objects: [] };
  const families = new Set(filtered.map(({ family }) => family));
  return {
    name: TUNNEL_TABLE,
    objects: [
      ...[...families].map((family) => nodeSet(family, nodes)),
      { chain: INPUT },
      { chain: FORWARD },
      ...(filtered.some(({ match }) => match === IS_VXLAN)
        ? [INPUT, FORWARD].map(({ name }) => rule(name, IS_VXLAN, IS_OTHER_VXLAN, ACCEPT))
        : []),
      ...filtered.flatMap(({ family, match }) => dropRules(family, match)),
    ],
  };
}

/** Also drops packets that come from the link of a pod with the address of a node. */
function dropRules(family: Family, isTunnel: NftStatement): readonly NftObject[] {
  const set = setName('nodes', family);
  const isStranger = isNotIn(headerAddress(family, 'saddr'), set);
  const isToNode = isIn(headerAddress(family, 'daddr'), set);
  return [
    rule(INPUT.name, isOfFamily(family), isTunnel, COMES_FROM_POD, DROP),
    rule(INPUT.name, isTunnel, isStranger, DROP),
    rule(FORWARD.name, isTunnel, isToNode, COMES_FROM_POD, DROP),
    rule(FORWARD.name, isTunnel, isToNode, isStranger, DROP),
  ];
}

function nodeSet(family: Family, nodes: readonly Address[]): NftObject {
  const ofFamily = nodes.filter((address) => address.family === family);
  const elem = [...new Set(ofFamily.map(formatAddress))].toSorted();
  const set = { name: setName('nodes', family), type: ADDRESS_TYPES[family] };
  return { set: elem.length === 0 ? set : { ...set, elem } };
}
