import { type Command, command, flag, unless, value, valueOr } from '../command.ts';
import { OUTPUT, wholeSeconds } from '../common-options.ts';
import { ipamCheck } from './ipam-check.ts';
import { ipamShow } from './ipam-show.ts';

export const IPAM_COMMANDS: readonly Command[] = [
  command({
    path: ['ipam', 'show'],
    summary: 'Shows how full the pools are, or who holds an address.',
    options: {
      blocks: flag('a row for each block too'),
      ip: value('address', 'say who holds this address'),
      output: OUTPUT,
    },
    examples: ['netplugctl ipam show --blocks', 'netplugctl ipam show --ip 10.0.0.7 -o json'],
    run: async (context, { options: { blocks, ip, output } }) => ipamShow(context, { withBlocks: blocks, ip, output }),
  }),
  command({
    path: ['ipam', 'check'],
    summary: 'Compares blocks, endpoints, pools and, on a node, its kernel.',
    options: {
      release: flag('free leaked addresses and remove stray interfaces'),
      unconfirmed: flag('take addresses without proof either way for leaked'),
      node: value('name', 'another name under which this machine holds addresses'),
      kernel: unless('compare the records only'),
      grace: valueOr('seconds', 'pass over addresses assigned more recently', { byDefault: 120, read: wholeSeconds }),
      output: OUTPUT,
    },
    details: `
Exit status 0 when nothing wrong is left, 1 otherwise. Run it on the node itself, in the network
namespace of the host, to have the kernel compared too.`,
    examples: ['netplugctl ipam check', 'netplugctl ipam check --release'],
    run: async (context, { options: { release, unconfirmed, kernel, node, grace, output } }) =>
      ipamCheck(context, {
        mode: release ? 'release' : 'list',
        unconfirmed: unconfirmed ? 'leak' : 'note',
        kernel: kernel ? 'ask' : 'leave-out',
        node,
        graceSeconds: grace,
        output,
      }),
  }),
];
