// A cluster whose agents keep the network between its nodes, with the rights of the shipped roles and no other record of
// it than the orchestrator's own.
import { type Cluster, type ClusterOptions, startCluster } from './cluster.ts';
import { giveAccess, KUBECONFIG } from './orch-access.ts';

export interface RoutedClusterOptions extends Pick<ClusterOptions, 'images' | 'networking'> {
  /** Specs of IP pools by name. */
  readonly pools: Readonly<Record<string, object>>;
  /** Of the network configuration; addresses of both families from the pools unless given. */
  readonly ipam?: object;
}

const FROM_POOLS = { type: 'netplug-ipam', assign_ipv4: 'true', assign_ipv6: 'true' };

/** Starts two nodes with host ports, and returns when pods can be given to them. */
export async function startRoutedCluster(options: RoutedClusterOptions): Promise<Cluster> {
  const { pools, ipam = FROM_POOLS, networking = {}, images = [] } = options;
  const network = {
    kv_endpoints: undefined,
    datastore_type: 'orch',
    orch: { orchconfig: KUBECONFIG },
    policy: { type: 'orch' },
    feature_control: { ip_addrs_no_ipam: true, floating_ips: true },
    ipam,
  };
  const cluster = await startCluster({
    pools: {},
    networking,
    images,
    conflist: (node) => ({
      cniVersion: '1.0.0',
      name: 'k8s-pod-network',
      plugins: [node.netconf(network), { type: 'portmap', snat: true, capabilities: { portMappings: true } }],
    }),
  });
  try {
    await giveAccess(cluster);
    await cluster.apply(
      Object.entries(pools).map(([name, spec]) => ({
        apiVersion: 'netplug.io/v3',
        kind: 'IPPool',
        metadata: { name },
        spec,
      })),
    );
    for (const node of cluster.nodes) await node.agent()?.ready();
  } catch (cause) {
    await cluster[Symbol.asyncDispose]();
    throw cause;
  }
  return cluster;
}
