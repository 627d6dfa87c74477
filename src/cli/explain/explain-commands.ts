import { type Command, command, mandatory, value, valueOr } from '../command.ts';
import { OUTPUT } from '../common-options.ts';
import { runPlanAdd } from './run-plan-add.ts';

const NETCONF = value('file', 'network configuration, or list, of the node', { completes: 'file' });

export const EXPLAIN_COMMANDS: readonly Command[] = [
  command({
    path: ['plan', 'add'],
    summary: 'Shows what an ADD would do to datastore and kernel, and does nothing.',
    options: {
      netconf: mandatory(NETCONF),
      node: value('name', 'node the pod is on; this machine unless given'),
      pod: value('namespace/name', 'pod that is added'),
      args: value('pairs', 'CNI_ARGS of the call, such as "IP=10.0.0.7"'),
      container: value('id', 'container that is added'),
      netns: value('path', 'namespace of the container: the kernel of this machine is looked at too'),
      ifname: valueOr('name', 'interface of the container', { byDefault: 'eth0' }),
      output: OUTPUT,
    },
    details: `
ADD itself is run, on a datastore and a kernel that remember what they are told instead of doing it.
The plan is that of the program that serves calls alone; addresses that the agent of the node has set
aside, which it would hand out first, are listed. The datastore is that of the environment or of
--config, else that of the network configuration. What only the kernel can refuse, such as a route
that is there already, is not foreseen. An ADD that would be refused says so as ADD does.`,
    examples: [
      'netplugctl plan add --netconf /etc/cni/net.d/10-netplug.conflist --pod shop/web-0',
      'netplugctl plan add --netconf net.conf --node worker-3 --args "IP=10.0.0.7" -o json',
    ],
    run: async (context, { options: { netconf, ifname, ...rest } }) =>
      runPlanAdd(context, { ...rest, netconf: netconf ?? '', ifName: ifname }),
  }),
];
