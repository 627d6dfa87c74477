import { type Command, command, flagOption, value } from '../command.ts';
import { OUTPUT, SOCKET } from '../common-options.ts';
import { doctor, listChecks } from './doctor.ts';

export const CONF_DIR_OPTION = value(
  'folder',
  'folder of network configurations of the runtime (default: /etc/cni/net.d)',
  {
    completes: 'folder',
  },
);
export const BIN_DIR_OPTION = value(
  'folder',
  'folder of the plugins (default: $CNI_PATH, $NETPLUG_CNI_BIN_DIR, or /opt/cni/bin)',
  {
    completes: 'folder',
  },
);
export const HEALTH_OPTION = value('address', 'address of the health pages of the agent (default: 127.0.0.1:9098)');

export const DOCTOR_COMMAND: Command = command({
  path: ['doctor'],
  summary: 'Finds problems of this node and the cluster, and suggests remedies.',
  options: {
    node: flagOption('examine this node only', { excludes: ['cluster'] }),
    cluster: flagOption('examine the cluster only'),
    list: flagOption('list the checks without running them'),
    confDir: CONF_DIR_OPTION,
    binDir: BIN_DIR_OPTION,
    socket: SOCKET,
    health: HEALTH_OPTION,
    output: OUTPUT,
  },
  details: `
Changes nothing. Each finding has a stable id, a severity, what was found, what is expected and a
remedy; docs/doctor.md lists the ids. The exit status is 1 if there is an error, 0 otherwise.

Examines the cluster, and also this node when root runs it on a machine that an agent has registered.`,
  examples: ['netplugctl doctor', 'netplugctl doctor --node -o json', 'netplugctl doctor --list'],
  run: async (context, { options: { node, cluster, list, output, ...places } }) => {
    if (list) return listChecks(context, output);
    return doctor(context, { ...places, scope: node ? 'node' : cluster ? 'cluster' : undefined, output });
  },
});
