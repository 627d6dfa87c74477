import type { NodeName } from '../../../model/names.ts';
import { type Command, command, flagOption, notAllowed, one, value, valueOr } from '../command.ts';
import { OUTPUT, SOCKET } from '../common-options.ts';
import { cleanNode } from './clean-node.ts';
import { nodeStatus } from './node-status.ts';
import { removeNode } from './remove-node.ts';
import { trace } from './trace.ts';

export const NODE_COMMANDS: readonly Command[] = [
  command({
    path: ['node', 'status'],
    summary: 'Shows addresses, tunnels, pools, routes and BGP sessions of this node.',
    options: { socket: SOCKET, output: OUTPUT },
    details: `
The agent of this node answers; no datastore is asked. What is wrong stands at the end, and the exit
status is then 1. Colours only on a terminal, and never with NO_COLOR set.`,
    examples: ['netplugctl node status'],
    run: async (context, { options }) => nodeStatus(context, options),
  }),
  command({
    path: ['node', 'remove'],
    summary: 'Gives back everything of a node that is gone for good.',
    arguments: [one('name', 'name of the node', { read: nodeName })],
    options: {
      force: flagOption('also while the orchestrator still has the node'),
      dryRun: flagOption('say what would be done, and do nothing'),
    },
    details: `
Make sure that the node never comes back: its pods would go on using addresses that others get.
Frees all addresses of its pods and tunnels and deletes its endpoints and blocks; a block in which
other nodes hold addresses stays, without an owner, until they are freed. The Node itself and its
BGPPeers are deleted too, unless the orchestrator keeps the nodes: delete it there first. May be
repeated.`,
    examples: ['netplugctl node remove worker-3 --dry-run', 'netplugctl node remove worker-3'],
    run: async (context, { args: [node], options: { force, dryRun } }) =>
      removeNode(context, {
        node,
        ifPresent: force ? 'remove' : 'refuse',
        mode: dryRun ? 'rehearse' : 'carry-out',
      }),
  }),
  command({
    path: ['node', 'clean'],
    summary: 'Removes what a stopped agent left on this host for traffic between nodes.',
    options: { socket: SOCKET },
    details: `
Drain the node and stop netplug-agent first. Removes its routes (protocol 118), its tunnel devices and
its nftables tables, in the network namespace the tool runs in, and stops BIRD with its routes.
Interfaces of pods stay; "netplugctl uninstall --purge" removes those.`,
    examples: ['netplugctl node clean'],
    run: async (context, { options }) => cleanNode(context, options),
  }),
  command({
    path: ['trace'],
    summary: 'Shows where the last calls of this node spent their time.',
    options: {
      last: valueOr('number', 'how many calls', { byDefault: 10, read: callCount }),
      pod: value('namespace/name', 'only calls of this pod', { read: podName }),
      slow: flagOption('the slowest calls instead of the newest'),
      socket: SOCKET,
      output: OUTPUT,
    },
    details: `
The agent remembers its last 256 calls. Each is a waterfall: a line per phase, over the time of the
call; the newest call stands last. Colours only on a terminal, and never with NO_COLOR set.`,
    examples: ['netplugctl trace --last 3', 'netplugctl trace --pod shop/web --slow'],
    run: async (context, { options: { slow, ...options } }) =>
      trace(context, { ...options, order: slow ? 'slowest' : 'newest' }),
  }),
];

/** Also names that no resource may have: a host name under which pods got addresses without an agent. */
function nodeName(text: string): NodeName {
  return text === '' ? notAllowed('Allowed is the name of a node.') : (text as NodeName); // decoded here
}

function callCount(text: string): number {
  return /^[1-9]\d{0,8}$/.test(text) ? Number(text) : notAllowed('Allowed is a whole number from 1.');
}

function podName(text: string): string {
  return /^[^/]+\/[^/]+$/.test(text) ? text : notAllowed('Allowed is namespace and name, with a slash between.');
}
