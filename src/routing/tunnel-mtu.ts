export type Encapsulation = 'vxlan-over-ipv4' | 'vxlan-over-ipv6' | 'ipip';

/** Bytes of outer headers: VXLAN has Ethernet 14, VXLAN 8, UDP 8, and IP 20 or 40. */
export const ENCAPSULATION_BYTES: Readonly<Record<Encapsulation, number>> = {
  'vxlan-over-ipv4': 50,
  'vxlan-over-ipv6': 70,
  ipip: 20,
};

/** In bytes: every link with IPv6 must carry packets of this size (RFC 8200, section 5). */
export const IPV6_MIN_MTU = 1280;

export interface MtuInput {
  /** MTU in bytes of each interface that has an address of the node. */
  readonly uplinkMtus: readonly number[];
  /** The encapsulations that any pool uses. */
  readonly encapsulations: ReadonlySet<Encapsulation>;
  /** Whether pods get IPv6 addresses. */
  readonly hasIpv6Pods: boolean;
}

export type PodMtu =
  | { readonly kind: 'offered'; readonly mtu: number }
  | { readonly kind: 'problem'; readonly problem: string };

/** Returns the largest MTU, in bytes, with which packets of pods fit into every tunnel in use. */
export function podMtu({ uplinkMtus, encapsulations, hasIpv6Pods }: MtuInput): PodMtu {
  if (uplinkMtus.length === 0) return problem('no interface has an address of the node');
  const uplinkMtu = Math.min(...uplinkMtus);
  const mtu = uplinkMtu - Math.max(0, ...[...encapsulations].map((each) => ENCAPSULATION_BYTES[each]));
  if (hasIpv6Pods && mtu < IPV6_MIN_MTU) {
    const found = `${String(mtu)} of ${String(uplinkMtu)} bytes are left after encapsulation`;
    return problem(`${found}, and IPv6 needs ${String(IPV6_MIN_MTU)}`);
  }
  return { kind: 'offered', mtu };
}

function problem(reason: string): PodMtu {
  return { kind: 'problem', problem: `Cannot offer an MTU to pods: ${reason}` };
}
