// A cluster with every feature of netplug on: agents keep the network between its nodes, with the rights of the shipped
// roles, and pods are known to the orchestrator.
import { type Cluster, type ClusterOptions, startCluster } from './cluster.ts';
import { startControllers } from './cluster-controllers.ts';
import { giveAccess, KUBECONFIG } from './orch-access.ts';

/** Fields of an IP pool. */
export interface PoolSpec {
  readonly cidr: string;
  readonly [field: string]: unknown;
}

/** What is left to the caller as it is for `startCluster`. */
type PassedOn = 'images' | 'logs' | 'names' | 'networking' | 'nodes' | 'onProgress' | 'proxyMode';

export interface RoutedClusterOptions extends Pick<ClusterOptions, PassedOn> {
  /** Specs of IP pools by name. */
  readonly pools: Readonly<Record<string, PoolSpec>>;
  /** Where netplug keeps its records: the API of the orchestrator unless given, or the etcd of the control plane. */
  readonly datastore?: 'orch' | 'kv';
  /** Runs `netplug-orch-controllers`. They start before the nodes are ready, on etcd because labels of nodes come from them. */
  readonly controllers?: boolean;
  /** Of the network configuration; addresses of both families from the pools unless given. */
  readonly ipam?: object;
}

const FROM_POOLS = { type: 'netplug-ipam', assign_ipv4: 'true', assign_ipv6: 'true' };

/** Starts two nodes with host ports, and returns when pods can be given to them. */
export async function startRoutedCluster(options: RoutedClusterOptions): Promise<Cluster> {
  const { pools, datastore = 'orch', ipam = FROM_POOLS, networking = {}, controllers = false, ...passedOn } = options;
  const network = {
    ...(datastore === 'orch' ? { kv_endpoints: undefined, datastore_type: 'orch' } : {}),
    orch: { orchconfig: KUBECONFIG },
    policy: { type: 'orch' },
    feature_control: { ip_addrs_no_ipam: true, floating_ips: true },
    ipam,
  };
  const cluster = await startCluster({
    pools: {},
    networking,
    ...passedOn,
    // Until the plugin has its access to the API, STATUS says so, and nodes are not ready.
    networkWorks: 'later',
    conflist: (node) => ({
      cniVersion: '1.1.0',
      name: 'k8s-pod-network',
      plugins: [
        node.netconf(network),
        { type: 'portmap', snat: true, capabilities: { portMappings: true } },
        { type: 'bandwidth', capabilities: { bandwidth: true } },
      ],
    }),
  });
  try {
    await giveAccess(cluster);
    for (const [name, { cidr, ...spec }] of Object.entries(pools)) {
      if (datastore === 'kv') await cluster.control.seedPool(name, cidr, spec);
      else
        await cluster.apply([
          { apiVersion: 'netplug.io/v3', kind: 'IPPool', metadata: { name }, spec: { cidr, ...spec } },
        ]);
    }
    if (controllers) await startControllers(cluster, datastore);
    await cluster.waitForNodesReady();
    for (const node of cluster.nodes) await node.agent()?.ready();
  } catch (cause) {
    await cluster[Symbol.asyncDispose]();
    throw cause;
  }
  return cluster;
}
