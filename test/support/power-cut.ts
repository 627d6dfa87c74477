// What a power cut leaves of a node: its disk.
import type { TestNode } from './node.ts';

const SCRIPT = `
set -u
# All processes of the node but the first one of its namespace, which holds it.
kill -9 -1
# Links go with the pods that they lead to; the others now.
for link in $(ip -o link | awk -F'[ :@]+' '{print $2}'); do [ "$link" = lo ] || ip link delete dev "$link" 2>/dev/null; done
nft flush ruleset
for family in -4 -6; do
  ip $family rule flush
  ip $family rule add pref 32766 lookup main
  ip $family route flush table main
  for type in blackhole unreachable prohibit; do ip $family route flush table all type $type; done
done
ip rule add pref 32767 lookup default
sysctl -q -w net.ipv4.ip_forward=0 net.ipv6.conf.all.forwarding=0
# Volumes of pods in memory, file systems of containers, namespaces of pods.
awk -v kubelet="$0/kubelet/pods/" '$5 ~ "^/run/" || index($5, kubelet) == 1 {print $5}' /proc/self/mountinfo |
  sort -r | while read -r mount; do umount -l "$mount"; done
find /run -mindepth 1 -delete
mkdir /run/lock
# Those of pods; the one of the node is in use.
find /sys/fs/cgroup -mindepth 1 -depth -type d -exec rmdir {} + 2>/dev/null
left=$(ip -o link | grep -v ' lo:'; nft list ruleset; ip route; ls /run | grep -vx lock)
[ -z "$left" ] || { echo "it has kept: $left" >&2; exit 1; }
`;

/**
 * Ends everything on the node and forgets what is not on its disk: links, addresses, routes, rules, /run, control groups.
 * Less than a reboot: the kernel keeps its boot id, tracked connections, and its settings of the network but forwarding.
 */
export async function cutPower(machine: Pick<TestNode, 'dir' | 'run'>): Promise<void> {
  const { status, stderr } = await machine.run(['sh', '-c', SCRIPT, machine.dir]);
  if (status !== 0) throw new Error(`the power of the node cannot be cut: ${stderr}`);
}
