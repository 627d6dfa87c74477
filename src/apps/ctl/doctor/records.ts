import type { ResourceStore } from '../../../datastore/resource-store.ts';
import type { AllocationStore } from '../../../datastore/allocation-store.ts';
import type { IpBlock } from '../../../model/ip-block.ts';
import type { IpPool } from '../../../model/ip-pool.ts';
import type { IpReservation } from '../../../model/ip-reservation.ts';
import {
  DEFAULT_IPAM_CONFIGURATION,
  IPAM_CONFIGURATION_NAME,
  type IpamConfigurationSpec,
} from '../../../model/ipam-configuration.ts';
import type { Node } from '../../../model/node.ts';

/** Records of the datastore, read concurrently. */
export interface Records {
  readonly pools: readonly IpPool[];
  readonly nodes: readonly Node[];
  readonly reservations: readonly IpReservation[];
  readonly blocks: readonly IpBlock[];
  readonly config: IpamConfigurationSpec;
  /** Records that cannot be decoded, with the reason. */
  readonly unreadable: readonly string[];
}

export async function readRecords(store: AllocationStore & ResourceStore, signal: AbortSignal): Promise<Records> {
  const [pools, nodes, reservations, configs, blocks] = await Promise.all([
    store.listResources('IPPool', signal),
    store.listResources('Node', signal),
    store.listResources('IPReservation', signal),
    store.listResources('IPAMConfiguration', signal),
    store.listBlocks(signal),
  ]);
  const config = configs.resources.find(({ metadata }) => metadata.name === IPAM_CONFIGURATION_NAME);
  return {
    pools: pools.resources,
    nodes: nodes.resources,
    reservations: reservations.resources,
    blocks: blocks.blocks.map(({ value }) => value),
    config: config?.spec ?? DEFAULT_IPAM_CONFIGURATION,
    unreadable: [pools, nodes, reservations, configs, blocks].flatMap(({ problems }) => problems),
  };
}
