import { Command as Parser, CommanderError, Option as ParserOption, Argument as ParserArgument } from 'commander';
import { ownValue } from '../../base/own-value.ts';
import { NetplugError } from '../../base/errors.ts';
import type { Allowances } from './admit.ts';
import type { KubeconfigFlags } from '../../config/connection-facts.ts';
import { type Argument, type Command, type Given, longFlag, type Option, type Options } from './command.ts';
import { COMMANDS, GROUPS } from './commands.ts';
import { EXIT_STATUSES } from './exit-statuses.ts';
import { GLOBAL_OPTIONS } from './global-options.ts';

export interface CommandLine {
  /** Undefined when the user asked for help, which has been written. */
  readonly asked: ParsedArguments | undefined;
  readonly config: string | undefined;
  readonly kubeconfig: KubeconfigFlags;
  /** Undefined unless given. */
  readonly timeoutSeconds: number | undefined;
  readonly allow: Allowances;
}

export interface ParsedArguments {
  readonly command: Command;
  readonly given: Given;
}

export const TOOL = {
  name: 'netplugctl',
  summary: 'Manages the resources and addresses of netplug.',
  details: `
netplugctl finds its datastore by --config, --kubeconfig and --context; else by DATASTORE_TYPE,
KV_ENDPOINTS, KV_DISCOVERY_SRV, KV_KEY_FILE, KV_CERT_FILE, KV_CA_CERT_FILE and ORCHCONFIG; else by
KUBECONFIG; else by the network configuration of this node, the service account of a pod, and
~/.kube/config.`,
  examples: [
    'KV_ENDPOINTS=http://127.0.0.1:2379 netplugctl get ippools -o wide',
    'netplugctl apply -f pools.yaml',
    'netplugctl ipam show --ip 10.0.0.7',
  ],
} as const;

interface GlobalOptions {
  readonly config?: string;
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly timeout?: number;
  readonly allowVersionMismatch?: true;
  readonly allowLocked?: true;
}

/** Parses the arguments of the program. @throws cli/usage */
export function readCommandLine(
  argv: readonly string[],
  { write, program }: { readonly write: (text: string) => void; readonly program?: string | undefined },
): CommandLine {
  const chosen: { asked: ParsedArguments | undefined } = { asked: undefined };
  const choose = (asked: ParsedArguments): void => {
    chosen.asked = asked;
  };
  const parser = buildParser(write, choose, program);
  try {
    parser.parse(helpLast(argv, parser), { from: 'user' });
  } catch (cause) {
    if (!(cause instanceof CommanderError)) throw cause;
    if (cause.exitCode !== 0) throw cause.code === 'commander.help' ? noCommandError(parser) : usageError(cause);
  }
  const { config, kubeconfig, context, timeout, ...allowed } = parser.opts<GlobalOptions>();
  return {
    asked: chosen.asked,
    config,
    // An empty value counts as absent, as with kubectl.
    kubeconfig: { file: kubeconfig === '' ? undefined : kubeconfig, context: context === '' ? undefined : context },
    timeoutSeconds: timeout,
    allow: { versionMismatch: allowed.allowVersionMismatch === true, locked: allowed.allowLocked === true },
  };
}

/** Builds the parser from the declarations of the commands. */
export function buildParser(
  write: (text: string) => void,
  choose: (asked: ParsedArguments) => void,
  program: string = TOOL.name,
): Parser {
  const root = new Parser(program)
    .description(TOOL.summary)
    .exitOverride()
    .configureOutput({
      writeOut: write,
      writeErr: () => undefined,
      getOutHelpWidth: () => 100,
      getErrHelpWidth: () => 100,
    })
    .configureHelp({ showGlobalOptions: true })
    .addHelpText('after', `${helpText(TOOL)}\nExit status:\n${exitText()}`);
  addOptions(root, GLOBAL_OPTIONS);
  const parsers = new Map<string, Parser>();
  for (const command of COMMANDS) {
    let parser = root;
    for (const [index, word] of command.path.entries()) {
      const path = command.path.slice(0, index + 1).join(' ');
      parser =
        parsers.get(path) ??
        parser
          .command(word)
          .description(ownValue(GROUPS, path) ?? '')
          .enablePositionalOptions();
      parsers.set(path, parser);
    }
    addCommand(parser, command, choose);
  }
  return root;
}

function addCommand(parser: Parser, command: Command, choose: (asked: ParsedArguments) => void): void {
  parser.description(command.summary).addHelpText('after', helpText(command));
  for (const argument of command.arguments) parser.addArgument(parserArgument(argument));
  addOptions(parser, command.options);
  parser.action((...all: unknown[]) => {
    // commander passes the arguments first, then the options, then the command.
    const args = command.arguments.map(({ arity }, index) => all[index] ?? (arity === 'any' ? [] : undefined));
    const found = parser.opts<Record<string, unknown>>();
    const options = Object.fromEntries(
      Object.entries(command.options).map(([name, { byDefault }]) => [name, ownValue(found, name) ?? byDefault]),
    );
    choose({ command, given: { args, options } });
  });
}

function parserArgument({ name, what, arity, read }: Argument): ParserArgument {
  const isVariadic = arity === 'some' || arity === 'any';
  const isRequired = arity === 'one' || arity === 'some';
  const dotted = isVariadic ? `${name}...` : name;
  const argument = new ParserArgument(isRequired ? `<${dotted}>` : `[${dotted}]`, what);
  return argument.argParser((text: string, before: unknown) =>
    isVariadic ? [...(Array.isArray(before) ? before : []), read(text)] : read(text),
  );
}

function addOptions(parser: Parser, options: Options): void {
  for (const [name, option] of Object.entries(options)) parser.addOption(parserOption(name, option));
}

function parserOption(name: string, given: Option): ParserOption {
  const { short, value: placeholder, what, byDefault, choices, isRepeatable, isMandatory, excludes, read } = given;
  const flags = `${short === undefined ? '' : `-${short}, `}${longFlag(name, given)}${placeholder === undefined ? '' : ` <${placeholder}>`}`;
  const option = new ParserOption(flags, what).makeOptionMandatory(isMandatory).conflicts([...excludes]);
  if (placeholder === undefined) return option;
  if (choices !== undefined) return option.choices(choices).default(byDefault);
  if (isRepeatable) {
    return option.argParser((text: string, before: unknown) => [...(Array.isArray(before) ? before : []), text]);
  }
  if (byDefault !== undefined) option.default(byDefault);
  return read === undefined ? option : option.argParser((text: string) => read(text));
}

function exitText(): string {
  return [...EXIT_STATUSES].map(([status, text]) => `  ${String(status).padStart(2)}  ${text}\n`).join('');
}

function helpText({ details, examples }: { details?: string | undefined; examples: readonly string[] }): string {
  const shown = examples.map((line) => `  ${line}\n`).join('');
  return `${details === undefined ? '' : `${details}\n`}${shown === '' ? '' : `\nExamples:\n${shown}`}`;
}

/** Rewrites `help ipam show` to `ipam help show`, which is what commander expects of a group. */
function helpLast(argv: readonly string[], root: Parser): string[] {
  const [help, first, ...rest] = argv;
  const isGroup = root.commands.some((each) => each.name() === first && each.commands.length > 0);
  return help === 'help' && first !== undefined && isGroup ? [first, 'help', ...rest] : [...argv];
}

/** Returns the error for a command line that names no command, or only a group, or asks for help on an unknown command. */
function noCommandError(root: Parser): NetplugError {
  const words = root.args.filter((word) => word !== 'help');
  let [group, path] = [root, ''];
  for (const word of words) {
    const next = group.commands.find((each) => each.name() === word);
    if (next === undefined) return notUnderstood(`unknown command '${word}'`, commandsOf(group, path));
    [group, path] = [next, `${path} ${word}`];
  }
  return notUnderstood(`no command${path === '' ? '' : ` of${path}`} is given`, commandsOf(group, path));
}

function commandsOf(group: Parser, path: string): string {
  const names = group.commands.map((each) => each.name()).join(', ');
  return `The commands are ${names}; see "${TOOL.name}${path} --help"`;
}

function usageError({ message }: CommanderError): NetplugError {
  const what = message.replace(/^error: /, '').replaceAll(/\s*\n\s*/g, ' ');
  return notUnderstood(what, 'See "netplugctl --help", or "netplugctl help COMMAND"');
}

function notUnderstood(what: string, hint: string): NetplugError {
  return new NetplugError('cli/usage', `Cannot understand the command line: ${what}`, { hint });
}
