import { type Command, InvalidArgumentError, Option } from 'commander';
import type { NodeName } from '../../model/names.ts';
import { NODE_CLEAN_HELP, NODE_REMOVE_HELP, NODE_STATUS_HELP } from '../help-texts.ts';
import { type Job, type Output, OUTPUTS } from '../job.ts';

/** Adds `node` with its commands. */
export function addNode(program: Command, choose: (job: Job) => void): void {
  const node = program.command('node').description('Shows the network of this node, and clears up after nodes.');
  node
    .command('status')
    .description('Shows addresses, tunnels, pools, routes and BGP sessions of this node.')
    .addOption(socketOption())
    .addOption(new Option('-o, --output <format>', 'form of the answer').choices(OUTPUTS).default('table'))
    .addHelpText('after', NODE_STATUS_HELP)
    .action(({ socket, output }: { socket?: string; output: Output }) => {
      choose({ verb: 'node-status', socket, output });
    });
  node
    .command('remove')
    .description('Gives back everything of a node that is gone for good.')
    .argument('<name>', 'name of the node', nodeName)
    .option('--force', 'also while the orchestrator still has the node')
    .option('--dry-run', 'say what would be done, and do nothing')
    .addHelpText('after', NODE_REMOVE_HELP)
    .action((name: NodeName, { force, dryRun }: { force?: true; dryRun?: true }) => {
      choose({
        verb: 'node-remove',
        node: name,
        ifPresent: force === true ? 'remove' : 'refuse',
        mode: dryRun === true ? 'rehearse' : 'carry-out',
      });
    });
  node
    .command('clean')
    .description('Removes what a stopped agent left on this host for traffic between nodes.')
    .addOption(socketOption())
    .addHelpText('after', NODE_CLEAN_HELP)
    .action(({ socket }: { socket?: string }) => {
      choose({ verb: 'node-clean', socket });
    });
}

function socketOption(): Option {
  return new Option('--socket <path>', 'where the agent listens (default: /run/netplug/cni.sock)');
}

/** Also names that no resource may have: a host name under which pods got addresses without an agent. */
function nodeName(text: string): NodeName {
  if (text !== '') return text as NodeName; // decoded here
  throw new InvalidArgumentError('Allowed is the name of a node.');
}
