import type { Resource } from './resource.ts';

export type EncapsulationMode = 'Never' | 'Always' | 'CrossSubnet';
export type PoolUse = 'Workload' | 'Tunnel';

export interface IpPoolSpec {
  /** Canonical CIDR text, host bits clear. */
  readonly cidr: string;
  readonly ipipMode: EncapsulationMode;
  readonly vxlanMode: EncapsulationMode;
  readonly natOutgoing: boolean;
  readonly disabled: boolean;
  readonly disableBGPExport: boolean;
  /** Prefix length of the blocks nodes claim: 26 for IPv4, 122 for IPv6 unless set. */
  readonly blockSize: number;
  /** Selector over node labels; `all()` unless set. */
  readonly nodeSelector: string;
  readonly allowedUses: readonly PoolUse[];
}
export type IpPool = Resource<'IPPool', IpPoolSpec>;
