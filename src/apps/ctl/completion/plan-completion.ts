import { ownValue } from '../../../base/own-value.ts';
import { type Command, type Completion, longFlag, type Option, type Options } from '../command.ts';

/** One word that could stand next. */
export interface Candidate {
  readonly word: string;
  readonly about: string;
}

/** Completions that a shell offers. `stem` is the part of the current word before the one that is completed. */
export type Offer =
  | { readonly kind: 'words'; readonly candidates: readonly Candidate[] }
  | { readonly kind: 'file' }
  | { readonly kind: 'kinds'; readonly stem: string }
  /** Contexts of the kubeconfig. */
  | { readonly kind: 'contexts'; readonly stem: string }
  | {
      readonly kind: 'names';
      readonly of: string;
      readonly stem: string;
      readonly namespace: string | undefined;
      readonly given: readonly string[];
    };

/** A command line as far as it stands, its last word perhaps unfinished. */
export interface Line {
  readonly commands: readonly Command[];
  /** Options that every command has. */
  readonly globals: Options;
  /** Without the program's name; the last is the one to be completed. */
  readonly words: readonly string[];
}

/** Returns the completions for the last word of the line. */
export function planCompletion(line: Line): Offer {
  const current = line.words.at(-1) ?? '';
  const state = readWords(line);
  const { open, command, options } = state;
  if (open !== undefined) return ofValue(open, current, '');
  if (current.startsWith('-') && !state.isBehindDashes) {
    const [flag, value] = splitFlag(current);
    if (value === undefined) return { kind: 'words', candidates: flagsOf(options) };
    const [, option] = findOption(options, flag) ?? [];
    return option === undefined ? NOTHING : ofValue(option, value, `${flag}=`);
  }
  const below = state.args.length === 0 ? subcommands(line.commands, state.path) : [];
  if (below.length > 0 && command === undefined) return { kind: 'words', candidates: below };
  const argument = command?.arguments[Math.min(state.args.length, command.arguments.length - 1)];
  return argument === undefined ? NOTHING : ofPlace(argument.completes, current, state);
}

/** Returns the value that a flag has on the line; undefined when the line does not have the flag. */
export function valueGiven(line: Line, name: string): string | undefined {
  return readWords(line).values.get(name);
}

const NOTHING: Offer = { kind: 'words', candidates: [] };

interface State {
  readonly path: readonly string[];
  readonly command: Command | undefined;
  readonly options: Options;
  readonly args: readonly string[];
  /** The option whose value is the last word. */
  readonly open: Option | undefined;
  readonly values: ReadonlyMap<string, string>;
  readonly isBehindDashes: boolean;
}

function readWords({ commands, globals, words }: Line): State {
  const path: string[] = [];
  const args: string[] = [];
  const values = new Map<string, string>();
  let open: string | undefined;
  let isBehindDashes = false;
  const commandAt = (): Command | undefined => commands.find((each) => isSame(each.path, path));
  const optionsNow = (): Options => ({ ...globals, ...commandAt()?.options });
  for (const word of words.slice(0, -1)) {
    if (open !== undefined) {
      values.set(open, word);
      open = undefined;
    } else if (word === '--') isBehindDashes = true;
    else if (word.startsWith('-') && !isBehindDashes) {
      const [flag, value] = splitFlag(word);
      const [name = '', option] = findOption(optionsNow(), flag) ?? [];
      if (option?.value === undefined) continue;
      if (value === undefined) open = name;
      else values.set(name, value);
    } else if (args.length === 0 && subcommands(commands, path).some((each) => each.word === word)) path.push(word);
    else args.push(word);
  }
  const options = optionsNow();
  return {
    path,
    command: commandAt(),
    options,
    args,
    open: open === undefined ? undefined : ownValue(options, open),
    values,
    isBehindDashes,
  };
}

function ofValue({ completes, choices }: Option, value: string, stem: string): Offer {
  return ofPlace(choices ?? completes, value, { stem });
}

function ofPlace(
  completes: Completion,
  current: string,
  { stem = '', args = [], values }: { readonly stem?: string } & Partial<State>,
): Offer {
  if (typeof completes !== 'string') {
    return { kind: 'words', candidates: completes.map((word) => ({ word: `${stem}${word}`, about: '' })) };
  }
  if (completes === 'file' || completes === 'folder') return { kind: 'file' };
  if (completes === 'context') return { kind: 'contexts', stem };
  if (completes === 'nothing') return NOTHING;
  const namespace = values?.get('namespace');
  const [kind = '', name] = current.split('/');
  if (name !== undefined) return { kind: 'names', of: kind, stem: `${kind}/`, namespace, given: [] };
  // Kinds may be joined by commas.
  if (completes === 'kind') return { kind: 'kinds', stem: stem + current.slice(0, current.lastIndexOf(',') + 1) };
  const [of = '', ...given] = args;
  return of.includes('/') ? NOTHING : { kind: 'names', of: of.split(',')[0] ?? '', stem: '', namespace, given };
}

function subcommands(commands: readonly Command[], path: readonly string[]): readonly Candidate[] {
  const below = commands.filter(
    (each) => each.path.length > path.length && isSame(each.path.slice(0, path.length), path),
  );
  const byWord = new Map<string, string>();
  for (const { path: words, summary } of below) {
    const word = words[path.length] ?? '';
    const isCommand = words.length === path.length + 1;
    if (isCommand || !byWord.has(word)) byWord.set(word, isCommand ? summary : '');
  }
  return [...byWord].map(([word, about]) => ({ word, about }));
}

function flagsOf(options: Options): readonly Candidate[] {
  return [
    ...Object.entries(options).map(([name, option]) => ({ word: longFlag(name, option), about: option.what })),
    { word: '--help', about: 'display help for command' },
  ];
}

function findOption(options: Options, flag: string): readonly [name: string, option: Option] | undefined {
  return Object.entries(options).find(
    ([name, option]) => longFlag(name, option) === flag || (option.short !== undefined && `-${option.short}` === flag),
  );
}

/** `--output=json` is a flag and its value, and so is `-ojson`. */
function splitFlag(word: string): [string, string | undefined] {
  const at = word.indexOf('=');
  if (word.startsWith('--')) return at === -1 ? [word, undefined] : [word.slice(0, at), word.slice(at + 1)];
  return word.length > 2 ? [word.slice(0, 2), word.slice(2)] : [word, undefined];
}

function isSame(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((word, index) => word === b[index]);
}
