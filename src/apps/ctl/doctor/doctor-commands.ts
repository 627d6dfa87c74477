import { type Command, command, flagOption, value } from '../command.ts';
import { OUTPUT, SOCKET } from '../common-options.ts';
import { doctor, listChecks } from './doctor.ts';

export const CONF_DIR_OPTION = value('folder', 'where the runtime looks for networks (default: /etc/cni/net.d)', {
  completes: 'folder',
});
export const BIN_DIR_OPTION = value('folder', 'where the plugins are (default: $CNI_PATH, or /opt/cni/bin)', {
  completes: 'folder',
});
export const HEALTH_OPTION = value('address', 'health pages of the agent (default: 127.0.0.1:9098)');

export const DOCTOR_COMMAND: Command = command({
  path: ['doctor'],
  summary: 'Looks for what is wrong with this node and the cluster, and says what to do about it.',
  options: {
    node: flagOption('this node only, even for an administrator of the cluster', { excludes: ['cluster'] }),
    cluster: flagOption('the cluster only'),
    list: flagOption('list the checks, and do nothing'),
    confDir: CONF_DIR_OPTION,
    binDir: BIN_DIR_OPTION,
    socket: SOCKET,
    health: HEALTH_OPTION,
    output: OUTPUT,
  },
  details: `
Changes nothing. Each finding has an id that stays, a severity, what was found, what is expected and a
remedy; docs/doctor.md lists them. Exit status 0 when there is no error, 1 otherwise.

Looks at the cluster, and at this node too when run as root on a machine that an agent has registered.`,
  examples: ['netplugctl doctor', 'netplugctl doctor --node -o json', 'netplugctl doctor --list'],
  run: async (context, { options: { node, cluster, list, output, ...places } }) => {
    if (list) return listChecks(context, output);
    return doctor(context, { ...places, scope: node ? 'node' : cluster ? 'cluster' : undefined, output });
  },
});
