import type { Resource } from './resource.ts';

export interface IpamConfigurationSpec {
  /** When true, a node never uses a block of another node. */
  readonly strictAffinity: boolean;
  /** How many blocks one node may own per address family; 0 sets no limit. */
  readonly maxBlocksPerNode: number;
}
export type IpamConfiguration = Resource<'IPAMConfiguration', IpamConfigurationSpec>;

export const DEFAULT_IPAM_CONFIGURATION: IpamConfigurationSpec = { strictAffinity: false, maxBlocksPerNode: 0 };
