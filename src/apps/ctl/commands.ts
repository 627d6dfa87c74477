import type { Command } from './command.ts';
import { CLUSTER_COMMANDS } from './cluster/cluster-commands.ts';
import { DATASTORE_COMMANDS } from './datastore/datastore-commands.ts';
import { DIAGS_COMMAND } from './diags/diags-commands.ts';
import { DOCTOR_COMMAND } from './doctor/doctor-commands.ts';
import { HOST_ENDPOINT_COMMANDS } from './host-endpoints/host-endpoint-commands.ts';
import { EXPLAIN_COMMANDS } from './explain/explain-commands.ts';
import { completionCommands } from './completion/completion-commands.ts';
import { INSTALL_COMMANDS } from './install/install-commands.ts';
import { IPAM_COMMANDS } from './ipam/ipam-commands.ts';
import { LINT_COMMANDS } from './lint/lint-commands.ts';
import { MESH_COMMANDS } from './mesh/mesh-commands.ts';
import { NODE_COMMANDS } from './node/node-commands.ts';
import { FLOW_COMMANDS } from './policy/flow-commands.ts';
import { POLICY_COMMANDS } from './policy/policy-commands.ts';
import { PROBE_COMMANDS } from './probe/probe-commands.ts';
import { RESOURCE_COMMANDS } from './resources/resource-commands.ts';
import { FLEET_COMMANDS } from './upgrade/fleet/fleet-commands.ts';
import { TYPHA_COMMANDS } from './typha/typha-commands.ts';
import { UPGRADE_COMMANDS } from './upgrade/upgrade-commands.ts';
import { VERSION_COMMAND } from './version.ts';

/** All commands, in the order of the help. */
export const COMMANDS: readonly Command[] = [
  ...RESOURCE_COMMANDS,
  ...IPAM_COMMANDS,
  ...EXPLAIN_COMMANDS,
  ...POLICY_COMMANDS,
  ...FLOW_COMMANDS,
  ...LINT_COMMANDS,
  DOCTOR_COMMAND,
  DIAGS_COMMAND,
  ...NODE_COMMANDS,
  ...DATASTORE_COMMANDS,
  ...HOST_ENDPOINT_COMMANDS,
  ...INSTALL_COMMANDS,
  ...CLUSTER_COMMANDS,
  ...TYPHA_COMMANDS,
  ...MESH_COMMANDS,
  ...UPGRADE_COMMANDS,
  ...FLEET_COMMANDS,
  ...PROBE_COMMANDS,
  VERSION_COMMAND,
  ...completionCommands(() => COMMANDS),
];

/** Summaries of the groups of commands. */
export const GROUPS: Readonly<Record<string, string>> = {
  datastore: 'Locks the datastore, and moves its contents into another one.',
  explain: 'Explains addresses and policies of a pod, or the settings of the agent.',
  'host-endpoints': 'Shows host endpoints, and migrates them in an upgrade.',
  ipam: 'Shows, checks and releases addresses.',
  policy: 'Explains what policies do.',
  install: 'Installs netplug in a cluster, and shows the installation.',
  uninstall: 'Removes netplug from a cluster.',
  probe: 'Tries connections and nodes, for an installation.',
  plan: 'Shows what the plugin would do.',
  upgrade: 'Plans, checks, carries out and verifies an upgrade of the cluster, and goes back.',
  typha: 'Shows the fan-out.',
  mesh: 'Shows what a service mesh needs for rules about requests.',
  cluster: 'Changes how netplug is installed in a cluster.',
  'cluster typha': 'Switches the fan-out on or off.',
  node: 'Shows the network of this node, and cleans up after nodes.',
};
