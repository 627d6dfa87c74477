import type { Address, Family } from '../../../net/address.ts';
import { FAMILIES } from '../../../net/address.ts';
import { type Cidr, hostCidr } from '../../../net/cidr.ts';
import { HOST_LINK_PREFIX } from '../../../dataplane/kernel.ts';
import { TUNNELS, type TunnelKind, VXLAN_PORT } from '../../../routing/tunnels.ts';

/** Hooks whose filters are judged. */
export const FILTERED_HOOKS = ['input', 'forward', 'output'] as const;
export type FilteredHook = (typeof FILTERED_HOOKS)[number];

/** `outside` is between pods and addresses that are none of pods. */
export type TrafficKind = 'pods' | 'outside' | 'vxlan' | 'ipip' | 'bgp';

/** Packets that a host firewall must let pass, by what they have in common. What is not given differs, or is not known. */
export interface NeededTraffic {
  readonly kind: TrafficKind;
  readonly hook: FilteredHook;
  readonly family: Family;
  /** Names of links; `npl*` for all that begin so. */
  readonly iifname?: string;
  readonly oifname?: string;
  readonly saddr?: readonly Cidr[];
  readonly daddr?: readonly Cidr[];
  readonly protocol?: number;
  readonly dport?: number;
  /** Whether it answers a connection; else it opens one. */
  readonly isAnswer?: true;
  /** The address of the other node, for sentences. */
  readonly peer?: Address;
}

/** What passes between this node, its pods and the other nodes. */
export interface NodeTraffic {
  /** Families of pods. */
  readonly families: ReadonlySet<Family>;
  readonly pools: readonly Cidr[];
  /** The node's own addresses, and the links by which packets for them arrive, as far as they are known. */
  readonly own: ReadonlyMap<Family, { readonly address: Address; readonly device: string | undefined }>;
  /** The own addresses of the other nodes; undefined where they are not known. */
  readonly peers: readonly Address[] | undefined;
  /** Tunnels from which packets arrive. */
  readonly tunnels: readonly TunnelKind[];
  /** Families of pods whose packets may also arrive without a tunnel. */
  readonly direct: ReadonlySet<Family>;
  /** TCP port of BGP; undefined where the other nodes do not speak it with this one. */
  readonly bgpPort: number | undefined;
}

/** All links of pods have the same prefix. */
export const LINKS = `${HOST_LINK_PREFIX}*`;
const [TCP, UDP, IPIP] = [6, 17, 4];

/** Returns what the host firewall must let pass. */
export function trafficOf(node: NodeTraffic): readonly NeededTraffic[] {
  return FAMILIES.flatMap((family) => [...ofPods(node, family), ...betweenNodes(node, family)]);
}

/** Packets of pods on other nodes come from a tunnel, or from the uplink. */
function ofPods(
  { families, pools, own, peers, tunnels, direct }: NodeTraffic,
  family: Family,
): readonly NeededTraffic[] {
  if (!families.has(family)) return [];
  const uplink = own.get(family)?.device;
  const ranges = pools.filter(({ base }) => base.family === family);
  const known = ranges.length === 0 ? undefined : ranges;
  const devices = tunnels.filter((kind) => TUNNELS[kind].family === family).map((kind) => TUNNELS[kind].device);
  const others = peers?.length === 0 ? [] : [...devices, ...(direct.has(family) ? [uplink] : [])];
  const pods = { kind: 'pods', hook: 'forward', family, saddr: known, daddr: known } as const;
  const outside = { kind: 'outside', hook: 'forward', family } as const;
  return [
    { ...pods, iifname: LINKS, oifname: LINKS },
    ...others.flatMap((device) => [
      { ...pods, iifname: device, oifname: LINKS },
      { ...pods, iifname: LINKS, oifname: device },
    ]),
    { ...outside, iifname: LINKS, oifname: uplink, saddr: known },
    { ...outside, iifname: uplink, oifname: LINKS, daddr: known, isAnswer: true as const },
    { ...outside, iifname: uplink, oifname: LINKS, daddr: known },
  ].map(defined);
}

function betweenNodes({ own, peers, tunnels, bgpPort }: NodeTraffic, family: Family): readonly NeededTraffic[] {
  const kinds = new Set(tunnels.filter((kind) => TUNNELS[kind].family === family).map(packetsOf));
  const packets = [...kinds, ...(bgpPort === undefined ? [] : (['bgp'] as const))];
  const theirs = peers?.filter((address) => address.family === family) ?? [undefined];
  const { address, device } = own.get(family) ?? {};
  const here = address && [hostCidr(address)];
  return packets.flatMap((kind) =>
    theirs.flatMap((peer) => {
      const there = peer && [hostCidr(peer)];
      const common = { kind, family, peer, ...PACKETS[kind], ...(kind === 'bgp' ? { dport: bgpPort } : {}) };
      return [
        defined({ ...common, hook: 'input', iifname: device, saddr: there, daddr: here }),
        defined({ ...common, hook: 'output', oifname: device, saddr: here, daddr: there }),
      ];
    }),
  );
}

const PACKETS = {
  vxlan: { protocol: UDP, dport: VXLAN_PORT },
  ipip: { protocol: IPIP },
  bgp: { protocol: TCP },
} as const;

function packetsOf(kind: TunnelKind): 'vxlan' | 'ipip' {
  return kind === 'ipip4' ? 'ipip' : 'vxlan';
}

type Loose = { readonly [Key in keyof NeededTraffic]: NeededTraffic[Key] | undefined };

function defined(traffic: Loose): NeededTraffic {
  // The parts that every traffic has are given.
  return Object.fromEntries(
    Object.entries(traffic).filter(([, value]) => value !== undefined),
  ) as unknown as NeededTraffic;
}
