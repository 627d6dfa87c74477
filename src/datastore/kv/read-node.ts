import { CLUSTER_INFORMATION_ID, clusterIdOf, isLocked } from '../../model/cluster-information.ts';
import { DEFAULT_IPAM_CONFIGURATION, IPAM_CONFIGURATION_NAME } from '../../model/ipam-configuration.ts';
import type { NodeName } from '../../model/names.ts';
import type { EndpointId } from '../../model/workload-endpoint.ts';
import { compareCidrs } from '../../net/cidr.ts';
import { compareText } from '../order.ts';
import type { NodeSettings, NodeView, SettingKind } from '../allocation-store.ts';
import { decodeBorrowed } from './borrowed-records.ts';
import type { KeyValue } from '../../../proto/gen/etcd_pb.js';
import { cidrOfKey, type Keys } from './keys.ts';
import { again, fetchBlocks, type Reach } from './read-blocks.ts';
import { blockReader, endpointReader, resourceReader, sortOut } from './records.ts';
import { get, getRange, type Op, rangeOf, rangesIn, decodeText, txn } from './requests.ts';

/** One request; a second one for the blocks the node borrows from, when there are any, at the same moment. */
export async function readNodeView(reach: Reach, node: NodeName, endpoint: EndpointId | undefined): Promise<NodeView> {
  return again(async () => readNodeViewOnce(reach, node, endpoint));
}

async function readNodeViewOnce(reach: Reach, node: NodeName, endpoint: EndpointId | undefined): Promise<NodeView> {
  const asked = endpoint === undefined ? [] : [get(reach.keys.endpoint(endpoint))];
  const records = await readNodeRecords(reach, node, asked);
  const settings = settingsOf(reach.keys, records);
  const read = {
    owned: sortOut(records.owned, blockReader(reach.keys)),
    borrowed: sortOut(records.borrowed, blockReader(reach.keys)),
    endpoints: sortOut(records.endpoints, endpointReader(reach.keys)),
  };
  return {
    ...settings,
    owned: read.owned.good.sort((a, b) => compareCidrs(a.value.cidr, b.value.cidr)),
    borrowed: read.borrowed.good.sort((a, b) => compareCidrs(a.value.cidr, b.value.cidr)),
    endpoint: read.endpoints.good[0],
    rollbacks: reach.client.rollbacks,
    problems: [...settings.problems, ...Object.values(read).flatMap(({ problems }) => problems)],
  };
}

/** The records that make the settings of a node. */
export type SettingRecords = Readonly<Record<SettingKind, readonly KeyValue[]>>;

/** Everything about a node as it was at one revision. */
export interface NodeRecords extends SettingRecords {
  readonly owned: readonly KeyValue[];
  readonly borrowed: readonly KeyValue[];
  readonly endpoints: readonly KeyValue[];
  readonly revision: bigint;
}

/** `endpoints` says which endpoints are read as well. */
export async function readNodeRecords(reach: Reach, node: NodeName, endpoints: readonly Op[]): Promise<NodeRecords> {
  const { client, keys, signal } = reach;
  const answer = await client.read(
    txn({
      success: [
        getRange(rangeOf(keys.resources('IPPool'))),
        getRange(rangeOf(keys.resources('IPReservation'))),
        get(keys.resource({ kind: 'IPAMConfiguration', name: IPAM_CONFIGURATION_NAME })),
        get(keys.resource({ kind: 'Node', name: node })),
        get(keys.resource(CLUSTER_INFORMATION_ID)),
        getRange(rangeOf(keys.blocksOf(node))),
        getRange(rangeOf(keys.borrowedBy(node))),
        ...endpoints,
      ],
    }),
    signal,
  );
  const [pools = [], reservations = [], config = [], nodes = [], cluster = [], owned = [], lent = [], ...rest] =
    rangesIn(answer);
  const revision = answer.header?.revision ?? 0n;
  const blocks = lent.flatMap((kv) => {
    const cidr = cidrOfKey(decodeText(kv.key));
    const record = decodeBorrowed(decodeText(kv.value));
    return cidr === undefined || record === undefined ? [] : [keys.block(cidr, record.owner)];
  });
  const borrowed = await fetchBlocks(reach, { blocks, revision });
  return {
    IPPool: pools,
    IPReservation: reservations,
    IPAMConfiguration: config,
    Node: nodes,
    ClusterInformation: cluster,
    owned,
    borrowed,
    endpoints: rest.flat(),
    revision,
  };
}

export function settingsOf(keys: Keys, records: SettingRecords): NodeSettings {
  const read = {
    pools: sortOut(records.IPPool, resourceReader(keys, 'IPPool')),
    reservations: sortOut(records.IPReservation, resourceReader(keys, 'IPReservation')),
    config: sortOut(records.IPAMConfiguration, resourceReader(keys, 'IPAMConfiguration')),
    nodes: sortOut(records.Node, resourceReader(keys, 'Node')),
    clusters: sortOut(records.ClusterInformation, resourceReader(keys, 'ClusterInformation')),
  };
  return {
    pools: read.pools.good
      .map(({ resource, version }) => ({ value: resource, version }))
      .sort((a, b) => compareText(a.value.metadata.name, b.value.metadata.name)),
    reservations: read.reservations.good
      .map(({ resource }) => resource)
      .sort((a, b) => compareText(a.metadata.name, b.metadata.name)),
    config: { ...DEFAULT_IPAM_CONFIGURATION, ...read.config.good[0]?.resource.spec },
    node: read.nodes.good[0]?.resource,
    isLocked: isLocked(read.clusters.good[0]?.resource),
    clusterId: clusterIdOf(read.clusters.good[0]?.resource),
    problems: Object.values(read).flatMap(({ problems }) => problems),
  };
}
