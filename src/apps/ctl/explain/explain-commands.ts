import { type Command, command, mandatory, maybe, one, value, valueOr } from '../command.ts';
import { OUTPUT, SOCKET } from '../common-options.ts';
import { runPlanAdd } from './run-plan-add.ts';
import { runWhy, runWhyPod } from './run-why.ts';

const POD_TEXT = 'namespace and name, with a slash between';
const WHAT = one('what', 'an address, or the word "pod"');
const MAYBE_POD = maybe('pod', POD_TEXT);
const POD = one('pod', POD_TEXT);
const WHY_POD = {
  netconf: value('file', 'network configuration of the node; else the first one of netplug in /etc/cni/net.d', {
    completes: 'file',
  }),
  node: value('name', 'node to explain for, instead of the one the pod is on'),
  output: OUTPUT,
};
const WHY_DETAILS = `
For a pod: the addresses it has and how they were chosen, or why it has none; each method of the
precedence table with what it says; each pool with why it was taken or passed over, and what else
was possible. Nothing is written: what an ADD would do now is rehearsed. Annotations are read from the
orchestrator when policy.type of the network configuration is "orch". Exit status 1 when the pod has
no address and would get none now.`;

const NETCONF = value('file', 'network configuration, or list, of the node', { completes: 'file' });

export const EXPLAIN_COMMANDS: readonly Command[] = [
  command({
    path: ['why'],
    summary: 'Says who holds an address, or why nobody does; and why a pod has its addresses, or none.',
    arguments: [WHAT, MAYBE_POD],
    options: WHY_POD,
    details: WHY_DETAILS,
    examples: ['netplugctl why 10.0.0.7', 'netplugctl why pod shop/web-0'],
    run: async (context, { args: [what, name], options }) => runWhy(context, { what, name }, options),
  }),
  command({
    path: ['explain', 'pod'],
    summary: 'Says why a pod has its addresses, or none.',
    arguments: [POD],
    options: WHY_POD,
    details: WHY_DETAILS,
    examples: ['netplugctl explain pod shop/web-0'],
    run: async (context, { args: [pod], options }) => runWhyPod(context, pod, options),
  }),
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
      socket: SOCKET,
      output: OUTPUT,
    },
    details: `
ADD itself is run, on a datastore and a kernel that remember what they are told instead of doing it.
Where an agent serves the calls of this machine, it is asked which of its addresses it would hand out;
otherwise, and for other nodes, the plan is that of the program that serves calls alone, and addresses
that an agent has set aside are listed. The datastore is that of the environment or of
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
