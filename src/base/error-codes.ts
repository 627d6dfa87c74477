/** An error of netplug: what programs report for it, and whether the same call may succeed later without a change by the user. */
interface ErrorRow {
  /** The number in the JSON error that a runtime reads. Those of the CNI standard keep their meaning, those of netplug start at 100. */
  readonly cni: number;
  /** The exit status of netplugctl. */
  readonly exit: number;
  readonly retry: boolean;
  readonly about: string;
}

/** Every error of netplug, by its code, which is a public contract. A row is CNI number, exit status and meaning. */
// oxfmt-ignore
export const ERRORS = {
  'cni/version-unsupported': permanent(1, 78, 'The configuration asks for a version of the CNI specification, or a verb of it, that is not supported.'),
  'netconf/needs-orchestrator': permanent(2, 69, 'A setting needs the API of the orchestrator, but no access to it is configured.'),
  'cni/env-invalid': permanent(4, 64, 'A CNI_* environment variable is missing or malformed.'),
  'cni/input-failed': transient(5, 74, 'The network configuration could not be read from standard input.'),
  'cni/input-undecodable': permanent(6, 65, 'Standard input is empty, too large or not a JSON object.'),
  'netconf/invalid': permanent(7, 78, 'The network configuration is invalid; every problem is listed with its path.'),
  'ipam/pool-not-found': permanent(7, 78, 'A named pool does not exist, or a named range is only part of a pool.'),
  'ipam/pool-unusable': permanent(7, 78, 'A named pool is disabled, overlaps addresses that are in use otherwise, is of the other address family or reserved for another use.'),
  'node/name-mismatch': permanent(7, 78, 'The agent has registered this machine under a different node name than the plugin would use.'),
  'kernel/netns-invalid': permanent(8, 66, 'The network namespace of the pod does not exist, is not a network namespace, or is the plugin’s own.'),
  'store/unavailable': transient(11, 75, 'The datastore did not answer in time.'),
  'store/conflict': transient(11, 75, 'Timed out because other writers kept changing the same record.'),
  'store/not-leader': transient(11, 75, 'A controller lost its lease, and made no change.'),
  'controllers/other-cluster': permanent(11, 78, 'The API server is of another cluster than the records in etcd; the controllers change nothing.'),
  'ipam/exhausted': transient(11, 75, 'No eligible pool has a free address.'),
  'ipam/pre-allocated': transient(11, 75, 'The requested address, or every free address, is pre-allocated by the agent of another node that does not answer.'),
  'gate/not-ready': transient(11, 75, 'Timed out while waiting for a readiness gate to succeed.'),
  'store/locked': transient(11, 75, 'The datastore is locked for maintenance: no address is assigned or released until it is unlocked.'),
  'store/replaced': transient(11, 75, 'The datastore at the configured address holds the records of a different cluster than before.'),
  'cni/deadline': transient(11, 75, 'The call timed out.'),
  'agent/journal-failed': transient(11, 74, 'The agent could not write its decision to its journal.'),
  'agent/address-conflict': permanent(117, 78, 'Another node publishes an address of this node; the agent publishes it when the other one does not have it any more.'),
  'agent/not-alone': transient(11, 75, 'Another agent serves the node and does not hand over.'),
  'agent/name-taken': transient(11, 75, 'Another machine has the name of this node. Give each machine a NODENAME of its own, or remove the node of a machine that is gone.'),
  'agent/busy': transient(11, 75, 'An agent has written something for this attachment that it may still take back, or has not written yet.'),
  'status/not-ready': transient(50, 69, 'The plugin cannot serve an ADD now.'),
  'ipam/address-taken': permanent(100, 69, 'Another attachment holds the requested address.'),
  'ipam/address-not-in-pool': permanent(101, 78, 'The requested address lies in no eligible IP pool.'),
  'ipam/strict-affinity': permanent(102, 69, 'The requested address lies in a block of another node, and strict affinity forbids borrowing it.'),
  'annotation/invalid': permanent(104, 65, 'An annotation of the pod or its namespace is invalid; the message names pod, key, value and rule.'),
  'orch/not-found': transient(105, 66, 'The orchestrator has no pod, namespace or node of that name, or the node has no pod CIDR.'),
  'ipam/request-invalid': permanent(103, 78, 'A request for addresses is malformed, names two addresses of one family, or names none.'),
  'kernel/interface-exists': permanent(110, 73, 'The pod has an interface of that name that netplug did not create for this attachment, or the host has one of another pod.'),
  'kernel/foreign-route': permanent(111, 73, 'The host has a route to the address of the pod that netplug did not create.'),
  'kernel/address-in-use': transient(119, 73, 'The host routes the address of the pod to the link of another running pod.'),
  'kernel/module-missing': permanent(113, 69, 'The kernel lacks the module for a kind of tunnel that an IP pool needs.'),
  'kernel/tunnel-taken': permanent(115, 71, 'A VXLAN device of another program has the number and the port of a tunnel of netplug.'),
  'bgp/port-taken': transient(116, 69, 'Another program listens on the port on which BIRD is to listen.'),
  'cni/record-failed': transient(114, 74, 'A file in the state folder that records an attachment for the agent could not be written, read or removed.'),
  'kernel/failed': transient(112, 71, 'The kernel refused a change of links, addresses or routes.'),
  'check/mismatch': permanent(120, 1, 'CHECK found a difference between the kernel, the datastore and the result of ADD.'),
  'store/refused': permanent(130, 77, 'The datastore refused the credentials, or its certificate is not trusted.'),
  'store/unbound-token': permanent(133, 77, 'The token of the plugin or the agent is bound to no node, or to another one: the admission policies refuse its writes.'),
  'store/config-invalid': permanent(131, 78, 'The configured connection to the datastore is unusable: unreadable file, no endpoint, failed discovery, unknown context.'),
  'store/corrupt': permanent(132, 65, 'A record in the datastore cannot be decoded.'),
  'delegate/not-found': permanent(140, 72, 'No folder of CNI_PATH contains the executable of a delegated plugin.'),
  'delegate/failed': transient(141, 70, 'A delegated plugin failed without a CNI error of its own.'),
  'resource/invalid': permanent(150, 65, 'A resource is invalid; every problem is listed with its path.'),
  'resource/not-found': permanent(151, 66, 'There is no resource of that kind and name.'),
  'resource/exists': permanent(152, 73, 'A resource of that kind and name exists already.'),
  'resource/changed': transient(153, 75, 'Another writer has changed the resource since it was read.'),
  'resource/in-use': permanent(154, 69, 'Pods hold addresses of the resource or have interfaces on the node, the orchestrator still has the node, or an agent runs on it.'),
  'resource/not-writable': permanent(155, 69, 'The orchestrator or netplug itself manages the resource; it cannot be written through netplug.'),
  'resource/label-exists': permanent(156, 73, 'The label or annotation has another value, and overwriting was not requested.'),
  'resource/owned': permanent(158, 69, 'The Installation decides these fields of the resource, or whether there is a pool, and the operator would undo the change.'),
  'resource/field-conflict': permanent(157, 69, 'Other writers own fields of the resource that the command would change; each is named with its owner.'),
  'cli/usage': permanent(160, 64, 'The command line is invalid, or a file named on it cannot be read.'),
  'cli/version-mismatch': permanent(162, 79, 'A command that writes is of a different version than the cluster.'),
  'cli/export-unusable': permanent(163, 65, 'The file was not written by `datastore export`, or was changed since.'),
  'cli/import-refused': permanent(164, 73, 'The import, or undoing it, is refused; the message names the reasons.'),
  'cli/import-differs': transient(165, 1, 'The records read back after an import differ from the file.'),
  'cli/program-missing': permanent(166, 72, 'A program that the command needs is not installed.'),
  'plan/outdated': permanent(167, 69, 'A plan can be neither resumed nor undone: the actual state differs from its record, or the record is missing or damaged.'),
  'install/failed': permanent(161, 74, 'A file or folder of the node could not be written or removed (disk full, no permission, read-only), or the host cannot run an executable.'),
  'upgrade/not-installed': permanent(189, 78, 'The cluster has no installation of netplug that could be upgraded.'),
  'upgrade/refused': permanent(184, 69, 'Hazards in the cluster, or what has happened since, forbid the upgrade or its rollback.'),
  'upgrade/backup-unusable': permanent(185, 65, 'A backup of an upgrade is damaged, incomplete or of an unknown format.'),
  'upgrade/not-verified': transient(186, 1, 'A verification failed after a step of an upgrade; the upgrade has stopped.'),
  'upgrade/packets-lost': transient(187, 1, 'Packets between pods were lost while the cluster was upgraded, which has stopped.'),
  'upgrade/in-progress': transient(188, 75, 'Another call of the tool changes the release of this cluster, perhaps from another machine.'),
  'install/incomplete': transient(11, 69, 'No agent accepts the call, and the standalone program cannot be executed.'),
  'install/refused': permanent(168, 69, 'A check before an installation in a cluster failed, the API server refused an object of it, or netplug-operator its spec.'),
  'install/not-ready': transient(169, 75, 'Timed out while waiting for programs or nodes of an installation in a cluster, or a connection of the probe failed.'),
  'agent/unreachable': transient(170, 69, 'No agent of this node listens on its socket, or the agent closed the connection without an answer.'),
  'agent/socket-unusable': permanent(171, 73, 'The agent cannot listen on its socket: the folder belongs to another user or cannot be written.'),
  'agent/protocol': permanent(172, 76, 'A message on the socket of the agent is not a request or answer of netplug.'),
  'agent/health-failed': permanent(173, 69, 'The address for health and metrics is malformed, or the agent cannot listen on it.'),
  'agent/detection-invalid': permanent(174, 78, 'The method to detect an address of the node is unknown or malformed.'),
  'bgp/bird-missing': permanent(180, 72, 'The routing daemon BIRD, which runs BGP for the node, is not installed.'),
  'bgp/bird-failed': transient(181, 70, 'BIRD does not start, does not answer on its control socket or refuses its configuration.'),
  'bgp/peer-unusable': permanent(182, 78, 'A BGP session cannot be set up as configured, and is left out.'),
  'policy/probe-impossible': permanent(183, 69, 'The packet of `policy why --probe` cannot be sent from this machine; the message says why and where it can.'),
  'stream/protocol': permanent(190, 76, 'The other end of a connection between programs of netplug sent what is no message of it, or too much at once.'),
  'stream/refused': permanent(191, 69, 'A server of netplug refused a connection, for a reason that this release does not know.'),
  'stream/format-unsupported': permanent(193, 79, 'Client and server are of releases that have no format in common.'),
  'stream/full': transient(194, 75, 'A server of netplug has its share of connections, or too many that are not identified yet.'),
  'typha/behind': transient(195, 75, 'netplug-typha has an older state of the datastore than the agent.'),
  'typha/topic-unknown': permanent(196, 78, 'netplug-typha does not serve what an agent follows: they are of different releases or settings.'),
  'stream/identity-refused': permanent(192, 77, 'A server of netplug refused the token of an agent, which proves the node it runs on.'),
  'typha/needs-orchestrator': permanent(198, 78, 'netplug-typha, or an agent that is to use it, has a datastore other than the API of the orchestrator.'),
  'typha/none': permanent(200, 69, 'No server of netplug-typha has written a Lease in the cluster.'),
  'typha/no-token': transient(199, 75, 'The token that proves the node of an agent to netplug-typha cannot be read.'),
  'typha/pod-cidr-mismatch': permanent(197, 78, 'USE_POD_CIDR of netplug-typha and of an agent differ.'),
  'sidecar/name-taken': permanent(201, 73, 'Another program of the pod has the socket at which netplug-sidecar answers the proxy.'),
  'mesh/version-unsupported': permanent(203, 78, 'The service mesh is of a version for which there is no injection template.'),
  'mesh/config-unreadable': permanent(204, 65, 'The configuration of the sidecar injector of the mesh cannot be read, or not be changed without touching other parts.'),
  'mesh/missing': permanent(205, 69, 'The cluster has no service mesh, or none of the revision.'),
  'sidecar/proxy-unreadable': transient(202, 69, 'The proxy of the pod does not show its configuration, or more than is read.'),
  'internal/invariant': permanent(999, 70, 'netplug broke one of its own rules: a bug to report.'),
} satisfies Readonly<Record<string, ErrorRow>>;

export type ErrorCode = keyof typeof ERRORS;

/** Returns an error that lasts until the user changes something. */
function permanent(cni: number, exit: number, about: string): ErrorRow {
  return { cni, exit, retry: false, about };
}

/** Returns an error after which the same call may succeed. */
function transient(cni: number, exit: number, about: string): ErrorRow {
  return { cni, exit, retry: true, about };
}
