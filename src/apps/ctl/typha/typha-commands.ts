import { type Command, command } from '../command.ts';
import { OUTPUT } from '../common-options.ts';
import { typhaStatus } from './typha-status.ts';

export const TYPHA_COMMANDS: readonly Command[] = [
  command({
    path: ['typha', 'status'],
    summary: 'Shows the servers of netplug-typha, and how many agents each serves.',
    options: { output: OUTPUT },
    details: `
Reads the Leases in which servers say every ten seconds where they are and whom they serve. A server that
has lost the API server does not renew its Lease. Which server a node has: "netplugctl node status".

The exit status is 1 if no server serves.`,
    examples: ['netplugctl typha status', 'netplugctl typha status -o json'],
    run: async (context, { options: { output } }) => typhaStatus(context, { output }),
  }),
];
