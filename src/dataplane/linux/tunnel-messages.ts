import { type Address, addressBytes, addressFromBytes } from '../../net/address.ts';
import { type Mac, macBytes } from '../../net/mac.ts';
import type { Tunnel } from '../host-network.ts';
import {
  IFINFO_BYTES,
  IFLA_ADDRESS,
  IFLA_IFNAME,
  IFLA_INFO_DATA,
  IFLA_INFO_KIND,
  IFLA_LINKINFO,
  IFLA_MTU,
  RTM_NEWLINK,
  ifInfo,
} from './link-messages.ts';
import {
  type Message,
  NLM_F_ACK,
  NLM_F_CREATE,
  NLM_F_EXCL,
  attribute,
  decodeAttributes,
  nested,
  attributesIn,
  textAttribute,
  textOfAttribute,
  u32Attribute,
  u32Of,
} from './netlink.ts';

const IFLA_VXLAN_ID = 1;
const IFLA_VXLAN_LINK = 3;
const IFLA_VXLAN_LOCAL = 4;
const IFLA_VXLAN_LEARNING = 7;
const IFLA_VXLAN_PORT = 15;
const IFLA_VXLAN_LOCAL6 = 17;
const IFLA_IPTUN_LOCAL = 2;

/** The properties of a tunnel device that the kernel cannot change. */
export type FixedPart =
  | {
      readonly kind: 'vxlan';
      readonly vni: number;
      readonly port: number;
      readonly local: Address | undefined;
      readonly uplinkIndex: number | undefined;
      readonly isLearning: boolean;
    }
  | { readonly kind: 'ipip'; readonly local: Address | undefined };

/** Creates a tunnel device; `mac` is undefined for a kind without one. */
export function createTunnel({ name, mtu }: Pick<Tunnel, 'name' | 'mtu'>, fixed: FixedPart, mac?: Mac): Message {
  const body = [
    ifInfo({}),
    textAttribute(IFLA_IFNAME, name),
    u32Attribute(IFLA_MTU, mtu),
    ...(mac === undefined ? [] : [attribute(IFLA_ADDRESS, macBytes(mac))]),
    nested(IFLA_LINKINFO, [textAttribute(IFLA_INFO_KIND, fixed.kind), nested(IFLA_INFO_DATA, dataOf(fixed))]),
  ];
  return { type: RTM_NEWLINK, flags: NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL, body: Buffer.concat(body) };
}

/** Returns undefined for a link that is not a tunnel of these kinds. */
export function decodeTunnel(body: Buffer): FixedPart | undefined {
  const info = attributesIn(decodeAttributes(body.subarray(IFINFO_BYTES)), IFLA_LINKINFO);
  const kind = textOfAttribute(info, IFLA_INFO_KIND);
  const data = attributesIn(info, IFLA_INFO_DATA);
  const addressIn = (...types: readonly number[]): Address | undefined => {
    const bytes = types.map((type) => data.get(type)).find((found) => found !== undefined);
    return bytes === undefined ? undefined : addressFromBytes(bytes);
  };
  if (kind === 'ipip') return { kind, local: addressIn(IFLA_IPTUN_LOCAL) };
  if (kind !== 'vxlan') return undefined;
  return {
    kind,
    vni: u32Of(data.get(IFLA_VXLAN_ID)) ?? 0,
    port: data.get(IFLA_VXLAN_PORT)?.readUInt16BE(0) ?? 0,
    local: addressIn(IFLA_VXLAN_LOCAL, IFLA_VXLAN_LOCAL6),
    uplinkIndex: u32Of(data.get(IFLA_VXLAN_LINK)),
    isLearning: data.get(IFLA_VXLAN_LEARNING)?.readUInt8(0) === 1,
  };
}

function dataOf(fixed: FixedPart): readonly Buffer[] {
  const { local } = fixed;
  const bytes = local === undefined ? undefined : addressBytes(local);
  if (fixed.kind === 'ipip') return bytes === undefined ? [] : [attribute(IFLA_IPTUN_LOCAL, bytes)];
  const port = Buffer.alloc(2);
  port.writeUInt16BE(fixed.port, 0);
  return [
    u32Attribute(IFLA_VXLAN_ID, fixed.vni),
    ...(fixed.uplinkIndex === undefined ? [] : [u32Attribute(IFLA_VXLAN_LINK, fixed.uplinkIndex)]),
    ...(bytes === undefined ? [] : [attribute(local?.family === 6 ? IFLA_VXLAN_LOCAL6 : IFLA_VXLAN_LOCAL, bytes)]),
    attribute(IFLA_VXLAN_LEARNING, Uint8Array.of(fixed.isLearning ? 1 : 0)),
    attribute(IFLA_VXLAN_PORT, port),
  ];
}
