import {
  choice,
  type Command,
  command,
  flagOption,
  maybe,
  mandatory,
  notAllowed,
  numberLike,
  unless,
  value,
  valueOr,
  values,
} from '../command.ts';
import { MAX_COOL_DOWN_SECONDS } from '../../../model/cool-down.ts';
import { OUTPUT, wholeSeconds } from '../common-options.ts';
import { ipamCheck } from './ipam-check.ts';
import { ipamConfigure } from './ipam-configure.ts';
import { ipamForecast } from './ipam-forecast.ts';
import { ipamMap } from './ipam-map.ts';
import { ipamRelease } from './ipam-release.ts';
import { ipamShow, type Shown } from './ipam-show.ts';

const FILE = maybe('file', 'where to write the picture; standard output unless given', { completes: 'file' });
const KERNEL = unless('compare the records only');
const coolDown = (text: string): number => {
  const seconds = wholeSeconds(text);
  return seconds <= MAX_COOL_DOWN_SECONDS
    ? seconds
    : notAllowed(`Allowed is a whole number of seconds from 0 to ${String(MAX_COOL_DOWN_SECONDS)}.`);
};
const whole = numberLike(/^\d{1,6}$/, 'Allowed is a whole number from 0 to 999999.');

export const IPAM_COMMANDS: readonly Command[] = [
  command({
    path: ['ipam', 'show'],
    summary: 'Shows the usage of pools, or the holder of an address.',
    options: {
      blocks: flagOption('add a row for each block'),
      ip: value('address', 'show the holder of this address', { excludes: ['blocks', 'borrowed', 'configuration'] }),
      borrowed: flagOption('show addresses held on another node than the owner of their block', {
        excludes: ['blocks', 'configuration'],
      }),
      configuration: flagOption('show the IPAM configuration', { excludes: ['blocks'] }),
      output: OUTPUT,
    },
    examples: ['netplugctl ipam show --blocks', 'netplugctl ipam show --ip 10.0.0.7 -o json'],
    run: async (context, { options: { output, ...options } }) => ipamShow(context, { what: shownBy(options), output }),
  }),
  command({
    path: ['ipam', 'map'],
    summary: 'Draws the pools as blocks and addresses.',
    arguments: [FILE],
    options: {
      pool: value('name', 'only this pool'),
      node: value('name', 'only blocks that this node owns or holds addresses of'),
      output: choice('format', 'form of the answer', { choices: ['table', 'json', 'svg', 'html'], short: 'o' }),
    },
    details: `
A cell stands for an address, or in large pools for a block. SVG and HTML are self-contained, with a tooltip
for each cell. Leaked addresses are found from the records only; "netplugctl ipam check" also reads the
kernel. Colours are used on a terminal only, and never when NO_COLOR is set.`,
    examples: ['netplugctl ipam map --pool blue', 'netplugctl ipam map -o html pools.html'],
    run: async (context, { args: [file], options: { output, ...only } }) =>
      ipamMap(context, { ...only, form: output, file }),
  }),
  command({
    path: ['ipam', 'check'],
    summary: 'Compares blocks, endpoints, pools and, on a node, its kernel.',
    options: {
      fix: flagOption('free leaked addresses and remove stray interfaces'),
      unconfirmed: flagOption('treat addresses without proof either way as leaked'),
      node: value('name', 'another name under which this machine holds addresses'),
      kernel: KERNEL,
      grace: valueOr('seconds', 'ignore addresses assigned more recently', { byDefault: 120, read: wholeSeconds }),
      output: OUTPUT,
    },
    details: `
Exits with 0 when no findings are left, 1 otherwise. Run it on the node itself, in the network namespace
of the host, to compare the kernel as well.`,
    examples: ['netplugctl ipam check', 'netplugctl ipam check --fix'],
    run: async (context, { options: { fix, unconfirmed, kernel, grace, ...rest } }) =>
      ipamCheck(context, {
        ...rest,
        mode: fix ? 'fix' : 'list',
        unconfirmed: unconfirmed ? 'leak' : 'note',
        kernel: kernel ? 'ask' : 'leave-out',
        graceSeconds: grace,
      }),
  }),
  command({
    path: ['ipam', 'release'],
    summary: 'Releases addresses that are no longer used.',
    options: {
      ip: values('address', 'address to free; may be repeated'),
      fromReport: value('file', 'output of "ipam check -o json", whose leaked addresses are released', {
        completes: 'file',
      }),
      force: flagOption('release it although an endpoint or an interface uses it'),
      kernel: KERNEL,
      output: OUTPUT,
    },
    details: `
Refuses an address that an endpoint or, on the node itself, an interface uses: the next pod with this
address would share it. Addresses are released by allocation id, so that a new holder keeps its address.
The endpoint of the holder is deleted when it has no other address.`,
    examples: [
      'netplugctl ipam release --ip 10.0.0.7',
      'netplugctl ipam check -o json > report.json; netplugctl ipam release --from-report report.json',
    ],
    run: async (context, { options: { ip, fromReport, force, kernel, output } }) =>
      ipamRelease(context, {
        ips: ip,
        report: fromReport,
        ifUsed: force ? 'release' : 'refuse',
        kernel: kernel ? 'ask' : 'leave-out',
        output,
      }),
  }),
  command({
    path: ['ipam', 'configure'],
    summary: 'Changes and shows the IPAM configuration.',
    options: {
      strictAffinity: value('true|false', 'whether nodes use blocks of their own only', { read: trueOrFalse }),
      maxBlocks: value('number', 'how many blocks of a family one node may own; 0 sets no limit', { read: whole }),
      cooldown: value('seconds', 'for how long a released address is given to no other pod; 0 for none', {
        read: coolDown,
      }),
      force: flagOption('turn strict affinity on although addresses are borrowed'),
      output: OUTPUT,
    },
    examples: ['netplugctl ipam configure', 'netplugctl ipam configure --strict-affinity true --max-blocks 4'],
    run: async (context, { options: { force, ...options } }) =>
      ipamConfigure(context, { ...options, ifAgainst: force ? 'go-on' : 'refuse' }),
  }),
  command({
    path: ['ipam', 'forecast'],
    summary: 'Says whether a cluster fits into its pools, and when borrowing starts.',
    options: {
      nodes: mandatory(valueOr('number', 'how many nodes there are in the end', { byDefault: 0, read: whole })),
      podsPerNode: mandatory(valueOr('number', 'how many pods each of them runs', { byDefault: 0, read: whole })),
      pool: value('name', 'pool that all pods ask for'),
      cidr: value('cidr', 'a pool that is not there yet; no datastore is asked', { excludes: ['pool', 'fromCluster'] }),
      blockSize: value('bits', 'prefix length of the blocks of that pool', { read: whole }),
      fromCluster: flagOption('begin with the nodes and addresses there are'),
      output: OUTPUT,
    },
    details: `
Simulates the planner of ADD while the nodes join one after the other, each with all its pods: which
blocks nodes claim or take over, and when they must borrow. A node with a tunnel holds one more address.
Pre-allocated addresses count as used, and released ones as free, also while they cool down. Exits with 1 when the cluster does not fit.`,
    examples: [
      'netplugctl ipam forecast --nodes 10000 --pods-per-node 110 --cidr 10.0.0.0/12 --block-size 26',
      'netplugctl ipam forecast --nodes 200 --pods-per-node 60 --from-cluster',
    ],
    run: async (context, { options: { fromCluster, ...options } }) =>
      ipamForecast(context, { ...options, start: fromCluster ? 'present' : 'empty' }),
  }),
];

function shownBy(options: {
  readonly blocks: boolean;
  readonly ip: string | undefined;
  readonly borrowed: boolean;
  readonly configuration: boolean;
}): Shown {
  if (options.ip !== undefined) return { of: 'address', ip: options.ip };
  if (options.borrowed) return { of: 'borrowed' };
  if (options.configuration) return { of: 'configuration' };
  return { of: 'pools', withBlocks: options.blocks };
}

function trueOrFalse(text: string): boolean {
  return text === 'true' || text === 'false' ? text === 'true' : notAllowed('Allowed is true or false.');
}
