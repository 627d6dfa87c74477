import { CLUSTER_INFORMATION_NAME, clusterIdOf, isLocked } from '../model/cluster-information.ts';
import { DEFAULT_IPAM_CONFIGURATION, IPAM_CONFIGURATION_NAME } from '../model/ipam-configuration.ts';
import type { AnyResource, ResourceKind, ResourceOf } from '../model/kinds.ts';
import type { NodeName } from '../model/names.ts';
import type { NodeSettings } from './allocation-store.ts';
import type { Query, Decoded } from './follow.ts';
import { compareResources } from './order.ts';

/** Returns queries for the resources that decide which addresses a node may assign. */
export function settingQueries(node: NodeName): readonly Extract<Query, { readonly kind: 'resources' }>[] {
  return [
    { kind: 'resources', of: 'IPPool' },
    { kind: 'resources', of: 'IPReservation' },
    { kind: 'resources', of: 'IPAMConfiguration', name: IPAM_CONFIGURATION_NAME },
    { kind: 'resources', of: 'Node', name: node },
    { kind: 'resources', of: 'ClusterInformation', name: CLUSTER_INFORMATION_NAME },
  ];
}

/** Returns the settings of a node from the records of `settingQueries`. */
export function settingsFrom(found: readonly Decoded<AnyResource>[]): NodeSettings {
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
    // The problem of a readable resource concerns none of its settings.
    problems: found.flatMap(({ value, problem }) => (value === undefined ? (problem ?? []) : [])),
  };
}
