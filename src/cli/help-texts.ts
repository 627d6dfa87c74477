export const ROOT_HELP = `
The connection comes from the environment: DATASTORE_TYPE, KV_ENDPOINTS, KV_DISCOVERY_SRV,
KV_KEY_FILE, KV_CERT_FILE, KV_CA_CERT_FILE, ORCHCONFIG. With --config, from that file alone.

Examples:
  KV_ENDPOINTS=http://127.0.0.1:2379 netplugctl get ippools -o wide
  netplugctl apply -f pools.yaml
  netplugctl ipam show --ip 10.0.0.7
`;

export const EXIT_HELP = `
Exit status: 0 done, 1 something was found, 64 wrong command line, 65 wrong resource, 66 not there,
69 in use, or no agent answers, 73 exists already, 74 file of the node cannot be written,
75 datastore does not answer, or conflict, 76 agent of another version, 77 refused,
78 wrong configuration.
`;

export const FILE_HELP = `
Files hold YAML (one or more documents) or JSON. All of them are read before the first resource is
written: one that is wrong changes nothing.
`;

export const DELETE_HELP = `
Deleting a Node leaves its blocks and addresses as they are, because its agent may come back:
"netplugctl node remove NAME" gives them back for a node that is gone for good.
`;

export const GET_HELP = `
Examples:
  netplugctl get ippools
  netplugctl get pool blue -o yaml
  netplugctl get workloadendpoints -n shop -o wide
`;

export const SHOW_HELP = `
Examples:
  netplugctl ipam show --blocks
  netplugctl ipam show --ip 10.0.0.7 -o json
`;

export const CHECK_HELP = `
Exit status 0 when nothing wrong is left, 1 otherwise. Run it on the node itself, in the network
namespace of the host, to have the kernel compared too.

Examples:
  netplugctl ipam check
  netplugctl ipam check --release
`;

export const LINT_HELP = `
Network configurations and lists must be JSON, resources may be YAML. Exit status 1 when a file has
an error.

Examples:
  netplugctl lint /etc/cni/net.d/10-netplug.conflist
`;

export const INSTALL_HELP = `
The conflist is made for the connection of the environment or of --config, with paths as the host
sees them, unless --conf names one. In a pod, the kubeconfig is made from the rights of the pod
unless flags say otherwise. Everything is checked before anything is written; each file changes at
once or not at all, the conflist last. What is as it shall be is left alone. Secrets are not printed.

Examples:
  KV_ENDPOINTS=http://10.0.0.1:2379 netplugctl install
  netplugctl install --conf my.conflist --bin-dir /host/opt/cni/bin --conf-dir /host/etc/cni/net.d \\
    --host-conf-dir /etc/cni/net.d
`;

export const NODE_STATUS_HELP = `
The agent of this node answers; no datastore is asked. What is wrong stands at the end, and the exit
status is then 1. Colours only on a terminal, and never with NO_COLOR set.

Examples:
  netplugctl node status
`;

export const NODE_REMOVE_HELP = `
Make sure that the node never comes back: its pods would go on using addresses that others get.
Frees all addresses of its pods and tunnels and deletes its endpoints and blocks; a block in which
other nodes hold addresses stays, without an owner, until they are freed. The Node itself and its
BGPPeers are deleted too, unless the orchestrator keeps the nodes: delete it there first. May be
repeated.

Examples:
  netplugctl node remove worker-3 --dry-run
  netplugctl node remove worker-3
`;

export const NODE_CLEAN_HELP = `
Drain the node and stop netplug-agent first. Removes its routes (protocol 118), its tunnel devices and
its nftables table, in the network namespace the tool runs in. BIRD and its routes stay: stop BIRD too.
Interfaces of pods stay as well; "netplugctl uninstall --purge" removes those.

Examples:
  netplugctl node clean
`;

export const TRACE_HELP = `
The agent remembers its last 256 calls. Each is a waterfall: a line per phase, over the time of the
call; the newest call stands last. Colours only on a terminal, and never with NO_COLOR set.

Examples:
  netplugctl trace --last 3
  netplugctl trace --pod shop/web --slow
`;

export const UNINSTALL_HELP = `
Drain the node first: pods that are still there cannot be taken down without the plugin. Files that
were changed since they were installed stay, and the exit status is then 1. Nothing in the datastore
changes; "netplugctl ipam check --release" frees the addresses of pods that are gone.

Examples:
  netplugctl uninstall
  netplugctl uninstall --purge
`;
