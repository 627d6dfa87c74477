// What another plugin does in a cluster in which netplug does not do everything.
import type { Cluster } from './cluster.ts';

/** Beginning of the names that the plugin `ptp` gives to the interfaces of pods on their node. */
export const PTP_PREFIX = 'veth';

/** Gives each node a pod CIDR, and routes the others' pods to them. */
export async function routePodCidrs(cluster: Cluster): Promise<void> {
  for (const [index, { name }] of cluster.nodes.entries()) {
    const cidr = subnetOf(index);
    const patch = JSON.stringify({ spec: { podCIDR: cidr, podCIDRs: [cidr] } });
    await cluster.kubectl('patch', 'node', name, `--patch=${patch}`);
    for (const other of cluster.nodes)
      if (other.name !== name)
        await other.machine.exec('ip', 'route', 'add', cidr, 'via', cluster.node(index).addresses.ipv4);
  }
}

/** Connects pods by `ptp` with addresses of `host-local`, and routes them between nodes. */
export async function connectByPtp(cluster: Cluster): Promise<void> {
  await routePodCidrs(cluster);
  for (const [index, { machine }] of cluster.nodes.entries()) {
    const ipam = { type: 'host-local', ranges: [[{ subnet: subnetOf(index) }]], routes: [{ dst: '0.0.0.0/0' }] };
    const list = { cniVersion: '1.0.0', name: 'other', plugins: [{ type: 'ptp', ipam }] };
    const write = ['sh', '-c', 'mkdir -p /etc/cni/net.d && cat > /etc/cni/net.d/10-other.conflist'];
    const { status, stderr } = await machine.run(write, { stdin: JSON.stringify(list) });
    if (status !== 0) throw new Error(`10-other.conflist is not written: ${stderr}`);
  }
}

function subnetOf(index: number): string {
  return `10.86.${String(index)}.0/24`;
}
