import { Command as Parser, CommanderError, Option as ParserOption, Argument as ParserArgument } from 'commander';
import { NetplugError } from '../base/errors.ts';
import {
  type Argument,
  type Command,
  flag,
  type Given,
  notAllowed,
  type Option,
  type Options,
  value,
} from './command.ts';
import type { Allowances } from './admit.ts';
import { COMMANDS, GROUPS } from './commands.ts';
import { EXIT_STATUSES } from './exit-statuses.ts';

export interface CommandLine {
  /** Undefined when help was asked for, and has been written. */
  readonly asked: Asked | undefined;
  readonly config: string | undefined;
  /** Undefined unless given, or the command has a limit of its own. */
  readonly timeoutSeconds: number | undefined;
  readonly allow: Allowances;
}

export interface Asked {
  readonly command: Command;
  readonly given: Given;
}

/** Every command has them. */
export const GLOBAL_OPTIONS = {
  config: value('file', 'read the connection from a file instead of the environment', { completes: 'file' }),
  timeout: value('seconds', 'time for the whole command (default: 30, and no end for a watch)', {
    read: positiveNumber,
  }),
  allowVersionMismatch: flag('write although the cluster is of another version'),
  allowLocked: flag('write although the datastore is locked'),
};

export const TOOL = {
  name: 'netplugctl',
  summary: 'Manages the resources and addresses of netplug.',
  details: `
The connection comes from the environment: DATASTORE_TYPE, KV_ENDPOINTS, KV_DISCOVERY_SRV,
KV_KEY_FILE, KV_CERT_FILE, KV_CA_CERT_FILE, ORCHCONFIG. With --config, from that file alone.`,
  examples: [
    'KV_ENDPOINTS=http://127.0.0.1:2379 netplugctl get ippools -o wide',
    'netplugctl apply -f pools.yaml',
    'netplugctl ipam show --ip 10.0.0.7',
  ],
} as const;

interface GlobalOptions {
  readonly config?: string;
  readonly timeout?: number;
  readonly allowVersionMismatch?: true;
  readonly allowLocked?: true;
}

/** Reads the words after the program's name. @throws cli/usage */
export function readCommandLine(argv: readonly string[], write: (text: string) => void): CommandLine {
  const chosen: { asked: Asked | undefined } = { asked: undefined };
  const parser = buildParser(write, (asked) => {
    chosen.asked = asked;
  });
  try {
    parser.parse([...argv], { from: 'user' });
  } catch (cause) {
    if (!(cause instanceof CommanderError)) throw cause;
    if (cause.exitCode !== 0) throw usageError(cause);
  }
  const { config, timeout, ...allowed } = parser.opts<GlobalOptions>();
  return {
    asked: chosen.asked,
    config,
    timeoutSeconds: timeout ?? chosen.asked?.command.timeoutSeconds,
    allow: { versionMismatch: allowed.allowVersionMismatch === true, locked: allowed.allowLocked === true },
  };
}

/** The parser itself: what it accepts is what its help says. */
export function buildParser(write: (text: string) => void, choose: (asked: Asked) => void): Parser {
  const root = new Parser(TOOL.name)
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
  const groups = new Map<string, Parser>();
  for (const command of COMMANDS) {
    const [first, ...rest] = command.path;
    if (rest.length === 0) addCommand(root.command(first), command, choose);
    else {
      const group = groups.get(first) ?? root.command(first).description(GROUPS[first] ?? '');
      groups.set(first, group);
      addCommand(group.command(rest.join(' ')), command, choose);
    }
  }
  return root;
}

function addCommand(parser: Parser, command: Command, choose: (asked: Asked) => void): void {
  parser.description(command.summary).addHelpText('after', helpText(command));
  for (const argument of command.arguments) parser.addArgument(parserArgument(argument));
  addOptions(parser, command.options);
  parser.action((...all: unknown[]) => {
    // The library passes the arguments first, then the options, then itself.
    const args = command.arguments.map(({ arity }, index) => all[index] ?? (arity === 'any' ? [] : undefined));
    const found = parser.opts<Record<string, unknown>>();
    const options = Object.fromEntries(
      Object.entries(command.options).map(([name, { byDefault }]) => [name, found[name] ?? byDefault]),
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
  const long = `--${given.isNegated ? 'no-' : ''}${flagName(name)}`;
  const flags = `${short === undefined ? '' : `-${short}, `}${long}${placeholder === undefined ? '' : ` <${placeholder}>`}`;
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

/** `dryRun` is `dry-run` on the command line. */
export function flagName(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

function helpText({ details, examples }: { details?: string | undefined; examples: readonly string[] }): string {
  const shown = examples.map((line) => `  ${line}\n`).join('');
  return `${details === undefined ? '' : `${details}\n`}${shown === '' ? '' : `\nExamples:\n${shown}`}`;
}

function positiveNumber(text: string): number {
  const seconds = Number(text);
  const isOne = /^\d+(\.\d+)?$/.test(text) && seconds > 0 && seconds <= 3600;
  return isOne ? seconds : notAllowed('Allowed is a number of seconds above 0 and up to 3600.');
}

function usageError({ message, code }: CommanderError): NetplugError {
  const isBare = code === 'commander.help';
  const what = isBare ? 'no command is given' : message.replace(/^error: /, '').replaceAll(/\s*\n\s*/g, ' ');
  return new NetplugError('cli/usage', `Cannot understand the command line: ${what}`, {
    hint: 'See "netplugctl --help", or "netplugctl help COMMAND"',
  });
}
