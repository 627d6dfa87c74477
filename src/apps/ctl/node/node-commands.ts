import type { NodeName } from '../../../model/names.ts';
import {
  type Command,
  command,
  flagOption,
  notAllowed,
  numberLike,
  one,
  textLike,
  value,
  valueOr,
} from '../command.ts';
import { OUTPUT, SOCKET } from '../common-options.ts';
import { cleanNode } from './clean-node.ts';
import { nodeStatus } from './node-status.ts';
import { removeNode } from './remove-node.ts';
import { showReports } from './show-reports.ts';
import { trace } from './trace.ts';

const callCount = numberLike(/^[1-9]\d{0,8}$/, 'Allowed is a whole number, 1 or more.');
const podName = textLike(/^[^/]+\/[^/]+$/, 'Allowed is NAMESPACE/NAME.');

export const NODE_COMMANDS: readonly Command[] = [
  command({
    path: ['node', 'status'],
    summary: 'Shows addresses, tunnels, pools, routes and BGP sessions of this node, or the problems of all nodes.',
    options: {
      all: flagOption('the problems that the agents of all nodes report to the datastore'),
      socket: SOCKET,
      output: OUTPUT,
    },
    details: `
Asks the agent of this node; does not read the datastore. Problems are listed at the end, each with its
code, what to do, and since when the agent knows it; the exit status is then 1. With --all it asks no
agent: it lists what each has reported to the datastore, which may be ten minutes old. An agent that has
reported nothing for half an hour is named as silent, with exit status 1 too. Colours are used on a
terminal only, and never when NO_COLOR is set.`,
    examples: ['netplugctl node status', 'netplugctl node status --all'],
    run: async (context, { options: { all, ...options } }) =>
      all ? showReports(context, options.output) : nodeStatus(context, options),
  }),
  command({
    path: ['node', 'remove'],
    summary: 'Removes all records of a node that does not return.',
    arguments: [one('name', 'name of the node', { read: nodeName })],
    options: {
      force: flagOption('remove them although the orchestrator still has the node'),
      dryRun: flagOption('print what would be done, and change nothing'),
    },
    details: `
Make sure that the node does not return: its pods would keep using addresses that are assigned to
other pods. The command releases all addresses of its pods and tunnels and deletes its endpoints and
blocks. A block in which other nodes hold addresses stays without an owner until they are released.
The Node and its BGPPeers are deleted as well, unless the orchestrator manages the nodes: delete it
there first. The command is idempotent.`,
    examples: ['netplugctl node remove worker-3 --dry-run', 'netplugctl node remove worker-3'],
    run: async (context, { args: [node], options: { force, dryRun } }) =>
      removeNode(context, {
        node,
        ifPresent: force ? 'remove' : 'refuse',
        mode: dryRun ? 'dry-run' : 'apply',
      }),
  }),
  command({
    path: ['node', 'clean'],
    summary: 'Removes what a stopped agent left on this host for traffic between nodes.',
    options: { socket: SOCKET },
    details: `
Drain the node and stop netplug-agent first. Removes its routes (protocol 118), its tunnel devices and
its nftables tables in the network namespace of the tool, and stops BIRD with its routes. Interfaces of
pods stay; "netplugctl node uninstall --purge" removes them.`,
    examples: ['netplugctl node clean'],
    run: async (context, { options }) => cleanNode(context, options),
  }),
  command({
    path: ['trace'],
    summary: 'Shows where the latest calls of this node spent their time.',
    options: {
      last: valueOr('number', 'number of calls', { byDefault: 10, read: callCount }),
      pod: value('namespace/name', 'only calls of this pod', { read: podName }),
      slow: flagOption('show the slowest calls instead of the newest'),
      socket: SOCKET,
      output: OUTPUT,
    },
    details: `
The agent remembers its last 256 calls. Each is shown as a waterfall with a line per phase; the newest
call comes last. Colours are used on a terminal only, and never when NO_COLOR is set.`,
    examples: ['netplugctl trace --last 3', 'netplugctl trace --pod shop/web --slow'],
    run: async (context, { options: { slow, ...options } }) =>
      trace(context, { ...options, order: slow ? 'slowest' : 'newest' }),
  }),
];

/** Accepts names that no resource may have: without an agent, pods hold addresses under any host name. */
function nodeName(text: string): NodeName {
  return text === '' ? notAllowed('Allowed is the name of a node.') : (text as NodeName); // decoded here
}
