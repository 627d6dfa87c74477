// What another plugin does in a cluster in which netplug does not do everything.
import type { Cluster } from './cluster.ts';
import { until } from './node.ts';

/** Beginning of the names that the plugin `ptp` gives to the interfaces of pods on their node. */
export const PTP_PREFIX = 'veth';

/** Routes the pod CIDR of each node from the others and from the control plane. Returns the CIDRs in the order of the nodes. */
export async function routePodCidrs(cluster: Cluster): Promise<readonly string[]> {
  const cidrs: string[] = [];
  for (const { name, addresses } of cluster.nodes) {
    const cidr = await podCidrOf(cluster, name);
    const others = cluster.nodes.filter((node) => node.name !== name).map(({ machine }) => machine);
    for (const machine of [cluster.control, ...others])
      await machine.exec('ip', 'route', 'add', cidr, 'via', addresses.ipv4);
    cidrs.push(cidr);
  }
  return cidrs;
}

/** Connects pods by `ptp` with addresses of their node's pod CIDR, and routes these between nodes. */
export async function connectByPtp(cluster: Cluster): Promise<void> {
  const cidrs = await routePodCidrs(cluster);
  for (const [index, { machine }] of cluster.nodes.entries()) {
    const ipam = { type: 'host-local', ranges: [[{ subnet: cidrs[index] }]], routes: [{ dst: '0.0.0.0/0' }] };
    const list = { cniVersion: '1.0.0', name: 'other', plugins: [{ type: 'ptp', ipam }] };
    const write = ['sh', '-c', 'mkdir -p /etc/cni/net.d && cat > /etc/cni/net.d/10-other.conflist'];
    const { status, stderr } = await machine.run(write, { stdin: JSON.stringify(list) });
    if (status !== 0) throw new Error(`10-other.conflist is not written: ${stderr}`);
  }
}

/** Waits until the controller manager has given the node an IPv4 range. */
async function podCidrOf(cluster: Cluster, node: string): Promise<string> {
  let found: string | undefined;
  await until(
    async () => {
      const { spec } = await cluster.get('node', node);
      found = (spec.podCIDRs ?? []).find((cidr: string) => !cidr.includes(':'));
      return found !== undefined;
    },
    `${node} has a pod CIDR`,
    60_000,
    200,
  );
  return found ?? '';
}
