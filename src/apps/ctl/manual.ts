import { invariant } from '../../base/errors.ts';
import { type Argument, type Command, longFlag, type Option, type Options } from './command.ts';
import { TOOL } from './command-line.ts';
import { COMMANDS } from './commands.ts';
import { EXIT_STATUSES } from './exit-statuses.ts';
import { markdownTable } from '../../base/markdown-table.ts';
import { GLOBAL_OPTIONS } from './global-options.ts';

/** Chapters of the first page. Each chapter and each command may have notes. */
const CHAPTERS = { intro: '', connection: 'Connection', resources: 'Resources' } as const;

/** A page of commands that belong together. */
interface Group {
  readonly title: string;
  /** The first words of its commands: those of the longest match count. */
  readonly commands: readonly string[];
}

/** Pages by their names. */
const GROUPS: Readonly<Record<string, Group>> = {
  resources: {
    title: 'Resources',
    commands: ['apply', 'create', 'replace', 'patch', 'label', 'annotate', 'delete', 'get', 'watch', 'explain', 'diff'],
  },
  ipam: { title: 'Addresses and pools', commands: ['ipam'] },
  explain: { title: 'Explanations', commands: ['why', 'explain pod', 'explain agent', 'plan add'] },
  policy: { title: 'Policies', commands: ['policy', 'explain endpoint'] },
  lint: { title: 'Files', commands: ['lint', 'explain netconf', 'schema'] },
  doctor: { title: 'Diagnosis', commands: ['doctor', 'diags', 'trace'] },
  node: { title: 'Nodes', commands: ['node'] },
  datastore: { title: 'Datastore', commands: ['datastore'] },
  'host-endpoints': { title: 'Host endpoints', commands: ['host-endpoints'] },
  cluster: {
    title: 'Installation in a cluster',
    commands: ['install', 'uninstall', 'lint manifest', 'typha', 'cluster typha'],
  },
  mesh: { title: 'Service mesh', commands: ['mesh'] },
  upgrade: { title: 'Upgrades', commands: ['upgrade'] },
  probe: { title: 'Probes', commands: ['probe'] },
  tool: { title: 'The tool itself', commands: ['version', 'completion', 'complete'] },
};

/** Names of notes: the chapters, and the commands with `-` between their words. */
export const NOTE_NAMES: readonly string[] = [...Object.keys(CHAPTERS), ...COMMANDS.map(noteName)];

/** Renders the manual from the declarations of the commands and from notes in Markdown, by paths from its folder. */
export function manualPages(noteOf: (name: string) => string | undefined): Readonly<Record<string, string>> {
  const groups = Object.entries(GROUPS).map(([name, { title }]) => {
    const commands = COMMANDS.filter((command) => groupOf(command) === name);
    const parts = [
      `# ${TOOL.name}: ${title.toLowerCase()}`,
      `[All commands](../${TOOL.name}.md#commands), and the options that all of them have.`,
      ...commands.map((command) => section(command, noteOf(noteName(command)))),
    ];
    return [`${TOOL.name}/${name}.md`, joined(parts)] as const;
  });
  return { [`${TOOL.name}.md`]: firstPage(noteOf), ...Object.fromEntries(groups) };
}

function firstPage(noteOf: (name: string) => string | undefined): string {
  const chapters = Object.entries(CHAPTERS).map(([name, title]) =>
    [title === '' ? `# ${TOOL.name}` : `## ${title}`, noteOf(name)].join('\n\n'),
  );
  return joined([
    ...chapters,
    `## Commands\n\n${markdownTable(['Command', 'What it does'], COMMANDS.map(indexRow))}`,
    `Every command accepts these options, before or after its words:\n\n${optionTable(GLOBAL_OPTIONS)}`,
    `## Exit status\n\n${markdownTable(
      ['Status', 'Meaning'],
      [...EXIT_STATUSES].map(([status, text]) => [String(status), text]),
    )}`,
    'Each error prints its code, such as `resource/in-use`; [errors.md](errors.md) lists all of them.',
  ]);
}

function joined(parts: readonly string[]): string {
  return `${parts.map((part) => part.trim()).join('\n\n')}\n`;
}

/** Returns the page of a command. Throws for one that no group names, so that none is missing from the manual. */
function groupOf({ path }: Command): string {
  const words = path.join(' ');
  const matches = Object.entries(GROUPS).flatMap(([name, { commands }]) =>
    commands.filter((each) => words === each || words.startsWith(`${each} `)).map((each) => ({ name, each })),
  );
  const [best] = matches.toSorted((a, b) => b.each.length - a.each.length);
  invariant(best !== undefined, `no page of the manual has "${words}"`);
  return best.name;
}

function noteName({ path }: Command): string {
  return path.join('-');
}

function indexRow(command: Command): string[] {
  const words = command.path.join(' ');
  return [`[\`${words}\`](${TOOL.name}/${groupOf(command)}.md#${noteName(command)})`, command.summary];
}

function section(command: Command, note: string | undefined): string {
  const { path, summary, details, examples } = command;
  const usage = [TOOL.name, ...path, ...command.arguments.map(argumentUsage), '[OPTION…]'].join(' ');
  const rows = command.arguments.map(({ name, what }) => [`\`${name.toUpperCase()}\``, what]);
  return [
    `## ${path.join(' ')}`,
    summary,
    fenced([usage]),
    rows.length === 0 ? '' : markdownTable(['Argument', 'Meaning'], rows),
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
