import { CLUSTER_INFORMATION_NAME, clusterIdOf, isLocked } from '../model/cluster-information.ts';
import { DEFAULT_IPAM_CONFIGURATION, IPAM_CONFIGURATION_NAME } from '../model/ipam-configuration.ts';
import type { AnyResource, ResourceKind, ResourceOf } from '../model/kinds.ts';
import type { NodeName } from '../model/names.ts';
import type { NodeSettings } from './allocation-store.ts';
import type { Query, Seen } from './follow.ts';
import { compareResources } from './order.ts';

/** The resources that decide which addresses a node may assign, as queries. */
export function settingQueries(node: NodeName): readonly Extract<Query, { readonly kind: 'resources' }>[] {
  return [
    { kind: 'resources', of: 'IPPool' },
    { kind: 'resources', of: 'IPReservation' },
    { kind: 'resources', of: 'IPAMConfiguration', name: IPAM_CONFIGURATION_NAME },
    { kind: 'resources', of: 'Node', name: node },
    { kind: 'resources', of: 'ClusterInformation', name: CLUSTER_INFORMATION_NAME },
  ];
}

/** Puts the settings of a node together from what `settingQueries` found. */
export function settingsFrom(found: readonly Seen<AnyResource>[]): NodeSettings {
  const of = <K extends ResourceKind>(kind: K): ResourceOf<K>[] =>
    found
      .flatMap(({ value }) => value ?? [])
      // The kind is compared; the compiler does not connect it with K.
      .filter((value): value is ResourceOf<K> => value.kind === kind)
      .sort(compareResources);
  const [cluster] = of('ClusterInformation');
  return {
    pools: of('IPPool').map((value) => ({ value, version: value.metadata.resourceVersion ?? '' })),
    reservations: of('IPReservation'),
    config: { ...DEFAULT_IPAM_CONFIGURATION, ...of('IPAMConfiguration')[0]?.spec },
    node: of('Node')[0],
    isLocked: isLocked(cluster),
    clusterId: clusterIdOf(cluster),
    // Of a resource that can be read, something else than its settings was left out.
    problems: found.flatMap(({ value, problem }) => (value === undefined ? (problem ?? []) : [])),
  };
}
