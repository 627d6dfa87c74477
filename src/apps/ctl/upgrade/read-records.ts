import { heldAddresses } from '../../../model/ip-block.ts';
import { rangesOfNode } from '../../../model/cluster-ranges.ts';
import { isLocked } from '../../../model/cluster-information.ts';
import { KIND_NAMES, KINDS } from '../../../model/kinds.ts';
import { API_VERSION } from '../../../model/resource.ts';
import { cidrContains, cidrSize, parseCidr } from '../../../net/cidr.ts';
import type { Datastore } from '../../../config/connection.ts';
import type { Store } from '../../../datastore/store.ts';
import type { ResourceKind, ResourceOf } from '../../../model/kinds.ts';
import type { DatastoreState } from '../../../upgrade/cluster/snapshot.ts';
import { openPrefixes } from '../../../upgrade/cluster/open-prefixes.ts';
import { findCluster } from '../admit.ts';
import type { Attempts } from '../cluster/attempts.ts';
import { isOf } from '../ipam/finding.ts';
import { lookTwice } from '../ipam/ipam-check.ts';
import type { Context } from '../ports.ts';

/** The label that marks host endpoints for all interfaces, and the selector of the temporary policy. */
export const UPGRADE_NAMES = { label: 'netplug/host-endpoint-upgrade', policy: 'allow-all-upgrade' } as const;
/** Younger allocations may belong to a call that is under way. */
const GRACE_SECONDS = 60;

/** Reads what checks need to know about the records. What cannot be read is reported. */
export async function readRecordFacts(
  context: Context,
  {
    store,
    datastore,
    served,
    attempts,
  }: {
    readonly store: Store;
    readonly datastore: Datastore;
    readonly served: readonly string[];
    readonly attempts: Attempts;
  },
): Promise<DatastoreState> {
  const { signal } = context;
  const unreadable: string[] = [];
  // An older release has fewer kinds.
  const isThere = (kind: ResourceKind): boolean => {
    const group = kind === 'Node' ? '' : API_VERSION.split('/')[0];
    return datastore.type === 'kvv3' || served.includes(`${group ?? ''}/${KINDS[kind].plural}`);
  };
  const list = async <K extends ResourceKind>(kind: K): Promise<readonly ResourceOf<K>[] | undefined> => {
    if (!isThere(kind)) return [];
    const listing = await attempts.read(kind, undefined, async () => store.listResources(kind, signal));
    unreadable.push(...(listing?.problems ?? []));
    return listing?.resources;
  };
  const cluster = isThere('ClusterInformation')
    ? await attempts.read('ClusterInformation', undefined, async () => findCluster(store, signal))
    : undefined;
  const endpoints = await list('HostEndpoint');
  const policies = (await list('GlobalNetworkPolicy')) ?? [];
  const others = [...((await list('NetworkPolicy')) ?? []), ...((await list('Profile')) ?? [])];
  const pools = (await list('IPPool')) ?? [];
  const nodes = (await list('Node')) ?? [];
  const isRead = (kind: ResourceKind): boolean =>
    ['HostEndpoint', 'GlobalNetworkPolicy', 'NetworkPolicy', 'Profile', 'IPPool', 'Node'].includes(kind);
  for (const kind of KIND_NAMES.filter((each) => !isRead(each))) await list(kind);
  const looked = isThere('IPPool')
    ? await attempts.read('addresses', undefined, async () =>
        lookTwice(context, store, { here: undefined, options: { node: undefined, graceSeconds: GRACE_SECONDS } }),
      )
    : undefined;
  const faults = looked?.findings.filter(
    (each) => !isOf(each, 'unconfirmed-address') && !isOf(each, 'unreadable-record'),
  );
  const blocks = looked?.state.blocks ?? [];
  const selector = `has(${UPGRADE_NAMES.label})`;
  return {
    type: datastore.type,
    clusterVersion: cluster?.spec.netplugVersion,
    isLocked: isLocked(cluster),
    hostEndpoints: endpoints,
    preparation: policies.filter(({ spec }) => spec.selector === selector).map(({ metadata }) => metadata.name),
    addressProblems: faults?.length,
    addressFaults: faults?.map(({ id, subject }) => `${id} ${subject}`),
    unreadable: [...new Set([...unreadable, ...(looked?.state.unreadable ?? [])])],
    openPrefixes: openPrefixes([...policies, ...others]),
    pools: pools.map(({ metadata, spec }) => {
      const cidr = parseCidr(spec.cidr);
      const inside = blocks.filter((block) => cidrContains(cidr, block.cidr));
      const held = inside.reduce((sum, block) => sum + heldAddresses(block).length, 0);
      return { name: metadata.name, cidr: spec.cidr, used: held / Number(cidrSize(cidr)), isDisabled: spec.disabled };
    }),
    nodes: nodes.map(rangesOfNode),
  };
}
