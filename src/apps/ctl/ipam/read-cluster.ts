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
import type { Context } from '../ports.ts';

/** Records on which the address manager decides, in the whole cluster. */
export interface Cluster {
  readonly pools: readonly IpPool[];
  readonly reservations: readonly IpReservation[];
  readonly config: IpamConfigurationSpec;
  readonly blocks: readonly IpBlock[];
  readonly nodes: readonly Node[];
}

/** Reads the records of the cluster. Leaves out those that cannot be understood, with a warning each. */
export async function readCluster(
  { io, signal }: Pick<Context, 'io' | 'signal'>,
  store: AllocationStore & ResourceStore,
): Promise<Cluster> {
  const pools = await store.listResources('IPPool', signal);
  const reservations = await store.listResources('IPReservation', signal);
  const nodes = await store.listResources('Node', signal);
  const config = await store.findResource({ kind: 'IPAMConfiguration', name: IPAM_CONFIGURATION_NAME }, signal);
  const blocks = await store.listBlocks(signal);
  for (const problem of [pools, reservations, nodes, blocks].flatMap(({ problems }) => problems))
    io.stderr(`warning: ${problem}\n`);
  return {
    pools: pools.resources,
    reservations: reservations.resources,
    config: { ...DEFAULT_IPAM_CONFIGURATION, ...config?.spec },
    blocks: blocks.blocks.map(({ value }) => value),
    nodes: nodes.resources,
  };
}
