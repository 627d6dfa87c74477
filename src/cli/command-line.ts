import { Command, CommanderError, InvalidArgumentError, Option } from 'commander';
import { NetplugError } from '../base/errors.ts';
import {
  CHECK_HELP,
  DELETE_HELP,
  EXIT_HELP,
  FILE_HELP,
  GET_HELP,
  LINT_HELP,
  ROOT_HELP,
  SHOW_HELP,
} from './help-texts.ts';
import { addInstall } from './install/install-command.ts';
import { addNode } from './node/node-command.ts';
import { addTrace } from './node/trace-command.ts';
import { type FileChoice, GET_OUTPUTS, type GetOutput, type Job, type Output, OUTPUTS, type Target } from './job.ts';

export interface CommandLine {
  /** Undefined when help was asked for, and has been written. */
  readonly job: Job | undefined;
  readonly config: string | undefined;
  readonly timeoutSeconds: number;
}

interface FileOptions {
  readonly filename?: string[];
  readonly recursive?: true;
}

const DEFAULT_TIMEOUT_SECONDS = 30;

/** Reads the words after the program's name. @throws cli/usage */
export function readCommandLine(argv: readonly string[], write: (text: string) => void): CommandLine {
  const asked: { job: Job | undefined } = { job: undefined };
  const program = buildProgram(write, (job) => {
    asked.job = job;
  });
  try {
    program.parse([...argv], { from: 'user' });
  } catch (cause) {
    if (!(cause instanceof CommanderError)) throw cause;
    if (cause.exitCode !== 0) throw usageError(cause);
  }
  const { config, timeout } = program.opts<{ config?: string; timeout: number }>();
  return { job: asked.job, config, timeoutSeconds: timeout };
}

/** The parser itself: what it accepts is what its help says. */
export function buildProgram(write: (text: string) => void, choose: (job: Job) => void): Command {
  const program = new Command('netplugctl')
    .description('Manages the resources and addresses of netplug.')
    .exitOverride()
    .configureOutput({
      writeOut: write,
      writeErr: () => undefined,
      getOutHelpWidth: () => 100,
      getErrHelpWidth: () => 100,
    })
    .configureHelp({ showGlobalOptions: true })
    .option('--config <file>', 'read the connection from a file instead of the environment')
    .option('--timeout <seconds>', 'time for the whole command', positiveNumber, DEFAULT_TIMEOUT_SECONDS)
    .addHelpText('after', ROOT_HELP + EXIT_HELP);
  addChanges(program, choose);
  addGet(program, choose);
  addIpam(program, choose);
  addNode(program, choose);
  program
    .command('lint')
    .description('Says what is wrong in network configurations and resource files.')
    .argument('<file...>', 'files, folders, or "-" for standard input')
    .addOption(new Option('-o, --output <format>', 'form of the answer').choices(OUTPUTS).default('table'))
    .addHelpText('after', LINT_HELP)
    .action((files: string[], { output }: { output: Output }) => {
      choose({ verb: 'lint', files, output });
    });
  addInstall(program, choose);
  addTrace(program, choose);
  program
    .command('version')
    .description('Prints the version of the tool and of the cluster.')
    .option('--client', 'ask no datastore')
    .action(({ client }: { client?: true }) => {
      choose({ verb: 'version', isClientOnly: client === true });
    });
  return program;
}

function addChanges(program: Command, choose: (job: Job) => void): void {
  const verbs = {
    apply: 'Creates resources, or changes them to what the files say.',
    create: 'Creates resources that must not exist yet.',
    replace: 'Changes resources that must exist to exactly what the files say.',
  } as const;
  for (const verb of ['apply', 'create', 'replace'] as const) {
    withFiles(program.command(verb).description(verbs[verb]), 'mandatory')
      .addHelpText('after', FILE_HELP)
      .action((options: FileOptions) => {
        choose({ verb, files: fileChoice(options) });
      });
  }
  withFiles(program.command('delete').description('Deletes resources.'), 'optional')
    .argument('[kind]', 'kind of resource, such as ippool')
    .argument('[name...]', 'names of resources')
    .option('--ignore-not-found', 'take what is not there for deleted')
    .addHelpText('after', DELETE_HELP)
    .action((kind: string | undefined, names: string[], options: FileOptions & { ignoreNotFound?: true }) => {
      const target = targetOf(kind, names, options);
      if (target.by === 'name' && target.names.length === 0)
        throw usage('Cannot delete: no name is given', 'Name what to delete, or use -f');
      choose({ verb: 'delete', target, ifMissing: options.ignoreNotFound === true ? 'ignore' : 'fail' });
    });
}

function addGet(program: Command, choose: (job: Job) => void): void {
  withFiles(program.command('get').description('Shows resources.'), 'optional')
    .argument('[kind]', 'kind of resource, such as ippool')
    .argument('[name...]', 'names of resources; all of the kind unless given')
    .addOption(new Option('-o, --output <format>', 'form of the answer').choices(GET_OUTPUTS).default('table'))
    .option('-n, --namespace <namespace>', 'only endpoints of this namespace')
    .addHelpText('after', GET_HELP)
    .action(
      (kind: string | undefined, names: string[], options: FileOptions & { output: GetOutput; namespace?: string }) => {
        const { output, namespace } = options;
        choose({ verb: 'get', target: targetOf(kind, names, options), output, namespace });
      },
    );
}

function addIpam(program: Command, choose: (job: Job) => void): void {
  const ipam = program.command('ipam').description('Shows and checks assigned addresses.');
  ipam
    .command('show')
    .description('Shows how full the pools are, or who holds an address.')
    .option('--blocks', 'a row for each block too')
    .option('--ip <address>', 'say who holds this address')
    .addOption(new Option('-o, --output <format>', 'form of the answer').choices(OUTPUTS).default('table'))
    .addHelpText('after', SHOW_HELP)
    .action(({ blocks, ip, output }: { blocks?: true; ip?: string; output: Output }) => {
      choose({ verb: 'ipam-show', withBlocks: blocks === true, ip, output });
    });
  ipam
    .command('check')
    .description('Compares blocks, endpoints, pools and, on a node, its kernel.')
    .option('--release', 'free leaked addresses and remove stray interfaces')
    .option('--unconfirmed', 'take addresses without proof either way for leaked')
    .option('--node <name>', 'another name under which this machine holds addresses')
    .option('--no-kernel', 'compare the records only')
    .option('--grace <seconds>', 'pass over addresses assigned more recently', wholeOrZero, 120)
    .addOption(new Option('-o, --output <format>', 'form of the answer').choices(OUTPUTS).default('table'))
    .addHelpText('after', CHECK_HELP)
    .action(
      (options: {
        release?: true;
        unconfirmed?: true;
        node?: string;
        kernel: boolean;
        grace: number;
        output: Output;
      }) => {
        choose({
          verb: 'ipam-check',
          mode: options.release === true ? 'release' : 'list',
          unconfirmed: options.unconfirmed === true ? 'leak' : 'note',
          kernel: options.kernel ? 'ask' : 'leave-out',
          node: options.node,
          graceSeconds: options.grace,
          output: options.output,
        });
      },
    );
}

function withFiles(command: Command, need: 'mandatory' | 'optional'): Command {
  const collect = (path: string, before: string[] | undefined): string[] => [...(before ?? []), path];
  const option = new Option(
    '-f, --filename <path>',
    'file, folder, or "-" for standard input; may be repeated',
  ).argParser(collect);
  return command
    .addOption(option.makeOptionMandatory(need === 'mandatory'))
    .option('-R, --recursive', 'look into the folders below a folder too');
}

function fileChoice({ filename = [], recursive }: FileOptions): FileChoice {
  return { paths: filename, folders: recursive === true ? 'recursive' : 'flat' };
}

function targetOf(kind: string | undefined, names: readonly string[], options: FileOptions): Target {
  if (kind !== undefined && options.filename !== undefined) {
    throw usage('Cannot use a kind and -f together: both say which resources are meant', 'Keep one of the two');
  }
  if (kind !== undefined) return { by: 'name', kind, names };
  if (options.filename !== undefined) return { by: 'file', files: fileChoice(options) };
  throw usage('Cannot tell which resources are meant: neither a kind nor -f is given', 'Try "netplugctl get ippools"');
}

function positiveNumber(text: string): number {
  const seconds = Number(text);
  if (/^\d+(\.\d+)?$/.test(text) && seconds > 0 && seconds <= 3600) return seconds;
  throw new InvalidArgumentError('Allowed is a number of seconds above 0 and up to 3600.');
}

function wholeOrZero(text: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('Allowed is a whole number of seconds from 0.');
}

function usageError({ message, code }: CommanderError): NetplugError {
  const isBare = code === 'commander.help';
  const what = isBare ? 'no command is given' : message.replace(/^error: /, '').replaceAll(/\s*\n\s*/g, ' ');
  return usage(`Cannot understand the command line: ${what}`, 'See "netplugctl --help", or "netplugctl help COMMAND"');
}

function usage(message: string, hint: string): NetplugError {
  return new NetplugError('cli/usage', message, { hint });
}
