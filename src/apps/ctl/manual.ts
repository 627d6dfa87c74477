import { type Argument, type Command, longFlag, type Option, type Options } from './command.ts';
import { TOOL } from './command-line.ts';
import { COMMANDS } from './commands.ts';
import { EXIT_STATUSES } from './exit-statuses.ts';
import { markdownTable } from './markdown-table.ts';
import { GLOBAL_OPTIONS } from './global-options.ts';

/** Chapters before the commands. Each chapter and each command may have notes. */
const CHAPTERS = { intro: '', connection: 'Connection', resources: 'Resources' } as const;

/** Names of notes: the chapters, and the commands with `-` between their words. */
export const NOTE_NAMES: readonly string[] = [...Object.keys(CHAPTERS), ...COMMANDS.map(noteName)];

/** Renders the manual from the declarations of the commands and from notes in Markdown. */
export function manualPage(noteOf: (name: string) => string | undefined): string {
  const chapters = Object.entries(CHAPTERS).map(([name, title]) =>
    [title === '' ? `# ${TOOL.name}` : `## ${title}`, noteOf(name)].join('\n\n'),
  );
  const parts = [
    ...chapters,
    `## Commands\n\n${markdownTable(['Command', 'What it does'], COMMANDS.map(indexRow))}`,
    `Every command accepts these options, before or after its words:\n\n${optionTable(GLOBAL_OPTIONS)}`,
    ...COMMANDS.map((command) => section(command, noteOf(noteName(command)))),
    `## Exit status\n\n${markdownTable(
      ['Status', 'Meaning'],
      [...EXIT_STATUSES].map(([status, text]) => [String(status), text]),
    )}`,
    'Each error prints its code, such as `resource/in-use`; [errors.md](errors.md) lists all of them.',
  ];
  return `${parts.map((part) => part.trim()).join('\n\n')}\n`;
}

function noteName({ path }: Command): string {
  return path.join('-');
}

function indexRow(command: Command): string[] {
  const words = command.path.join(' ');
  return [`[\`${words}\`](#${noteName(command)})`, command.summary];
}

function section(command: Command, note: string | undefined): string {
  const { path, summary, details, examples } = command;
  const usage = [TOOL.name, ...path, ...command.arguments.map(argumentUsage), '[OPTION…]'].join(' ');
  return [
    `## ${path.join(' ')}`,
    summary,
    fenced([usage]),
    command.arguments.length === 0 ? '' : markdownTable(['Argument', 'Meaning'], command.arguments.map(argumentRow)),
    Object.keys(command.options).length === 0 ? '' : optionTable(command.options),
    details?.trim().replaceAll(/(?<!\n)\n(?!\n)/g, ' ') ?? '',
    examples.length === 0 ? '' : fenced(examples),
    note?.trim() ?? '',
  ]
    .filter((part) => part !== '')
    .join('\n\n');
}

function argumentUsage({ name, arity }: Argument): string {
  const word = arity === 'some' || arity === 'any' ? `${name.toUpperCase()}…` : name.toUpperCase();
  return arity === 'one' || arity === 'some' ? word : `[${word}]`;
}

function argumentRow({ name, what }: Argument): string[] {
  return [`\`${name.toUpperCase()}\``, what];
}

function optionTable(options: Options): string {
  return markdownTable(['Option', 'Default', 'Meaning'], Object.entries(options).map(optionRow));
}

function optionRow([name, option]: [string, Option]): string[] {
  const { short, value, what, byDefault, choices, isMandatory } = option;
  const spelt = [short === undefined ? [] : `-${short}`, longFlag(name, option)].flat().join(', ');
  const words = value === undefined ? spelt : `${spelt} ${value.toUpperCase()}`;
  const shown = typeof byDefault === 'string' || typeof byDefault === 'number' ? `\`${String(byDefault)}\`` : '';
  const allowed = choices === undefined ? '' : `: ${choices.map((each) => `\`${each}\``).join(', ')}`;
  return [`\`${words}\``, isMandatory ? 'required' : shown, `${what}${allowed}`];
}

function fenced(lines: readonly string[]): string {
  return ['```', ...lines, '```'].join('\n');
}
