import { type Command, command, mandatory, maybe, one, value, valueOr } from '../command.ts';
import { OUTPUT, SOCKET } from '../common-options.ts';
import { explainAgent } from './explain-agent.ts';
import { runPlanAdd } from './run-plan-add.ts';
import { runWhy, runWhyPod } from './run-why.ts';

const POD_TEXT = 'namespace and name, with a slash between';
const WHAT = one('what', 'an address, or the word "pod"');
const MAYBE_POD = maybe('pod', POD_TEXT);
const POD = one('pod', POD_TEXT);
const WHY_POD = {
  netconf: value('file', 'network configuration of the node (default: the first one of netplug in /etc/cni/net.d)', {
    completes: 'file',
  }),
  node: value('name', 'node to explain for (default: the node of the pod)'),
  output: OUTPUT,
};
const WHY_DETAILS = `
For an address, prints its holder, or why it has none. On a node with an agent, names what goes before its
routes to the addresses. For a pod, prints its addresses and how they were
chosen, or why it has none: each method of the precedence table with its value, and each pool with the
reason why ADD would use it or not. Nothing is written: the command simulates an ADD. It reads annotations
from the orchestrator when policy.type of the network configuration is "orch". The exit status is 1 when
the pod has no address and an ADD would be refused.`;

export const EXPLAIN_COMMANDS: readonly Command[] = [
  command({
    path: ['why'],
    summary: 'Explains the state of an address, or the addresses of a pod.',
    arguments: [WHAT, MAYBE_POD],
    options: WHY_POD,
    details: WHY_DETAILS,
    examples: ['netplugctl why 10.0.0.7', 'netplugctl why pod shop/web-0'],
    run: async (context, { args: [what, name], options }) => runWhy(context, { what, name }, options),
  }),
  command({
    path: ['explain', 'pod'],
    summary: 'Explains why a pod has its addresses, or none.',
    arguments: [POD],
    options: WHY_POD,
    details: WHY_DETAILS,
    examples: ['netplugctl explain pod shop/web-0'],
    run: async (context, { args: [pod], options }) => runWhyPod(context, pod, options),
  }),
  command({
    path: ['explain', 'agent'],
    summary: 'Shows the settings of the agent of this machine and where each comes from.',
    options: { socket: SOCKET, output: OUTPUT },
    details: `
A variable of the environment takes precedence over the AgentConfiguration of the node, "node.<name>", and
that over the AgentConfiguration "default".`,
    examples: ['netplugctl explain agent', 'netplugctl explain agent -o json'],
    run: async (context, { options }) => explainAgent(context, options),
  }),
  command({
    path: ['plan', 'add'],
    summary: 'Shows what an ADD would change in datastore and kernel, without changing anything.',
    options: {
      netconf: mandatory(value('file', 'network configuration or list of the node', { completes: 'file' })),
      node: value('name', 'node of the pod (default: this machine)'),
      pod: value('namespace/name', 'pod of the ADD'),
      args: value('pairs', 'CNI_ARGS of the call, such as "IP=10.0.0.7"'),
      container: value('id', 'container of the ADD'),
      netns: value('path', 'network namespace of the container; the plan then considers the kernel of this machine'),
      ifname: valueOr('name', 'interface of the container', { byDefault: 'eth0' }),
      socket: SOCKET,
      output: OUTPUT,
    },
    details: `
The command runs ADD on a datastore and a kernel that record changes instead of applying them. If an
agent serves the calls of this machine, the plan uses the addresses that the agent offers. Otherwise,
and for other nodes, it is the plan of netplug-standalone, and lists the addresses that an agent has
pre-allocated. The datastore is that of flags and variables, or else that of the network configuration.
The plan does not predict errors of the kernel, such as an existing route. An ADD that
would be refused fails with the error of ADD.`,
    examples: [
      'netplugctl plan add --netconf /etc/cni/net.d/10-netplug.conflist --pod shop/web-0',
      'netplugctl plan add --netconf net.conf --node worker-3 --args "IP=10.0.0.7" -o json',
    ],
    run: async (context, { options: { netconf, ifname, ...rest } }) =>
      runPlanAdd(context, { ...rest, netconf: netconf ?? '', ifName: ifname }),
  }),
];
