import { InvalidArgumentError } from 'commander';
import type { Context, Status } from './ports.ts';

/** One word behind the command. `T` is what it is read as. */
export interface Argument<T = unknown> {
  readonly name: string;
  readonly what: string;
  readonly arity: 'one' | 'optional' | 'some' | 'any';
  readonly read: (text: string) => T extends readonly (infer E)[] ? E : T;
  readonly completes: Completion;
}

/** One flag. `T` is what it is read as. */
export interface Option<T = unknown> {
  /** One letter. */
  readonly short: string | undefined;
  /** What stands for the value, such as `address`; undefined for a flag without one. */
  readonly value: string | undefined;
  readonly what: string;
  /** What it is when it is not given; flags are false, the rest undefined unless it says so. */
  readonly byDefault: T | undefined;
  readonly choices: readonly string[] | undefined;
  readonly isRepeatable: boolean;
  readonly isMandatory: boolean;
  /** Whether the flag is spelt `--no-NAME`; it is true then unless given. */
  readonly isNegated: boolean;
  /** Names of options that cannot be given with this one. */
  readonly excludes: readonly string[];
  readonly read: ((text: string) => unknown) | undefined;
  readonly completes: Completion;
}

/** What a shell can offer in that place. */
export type Completion = 'file' | 'folder' | 'kind' | 'name' | 'context' | 'nothing' | readonly string[];

export type Options = Readonly<Record<string, Option>>;
export type ArgumentValues<A extends readonly Argument[]> = {
  readonly [I in keyof A]: A[I] extends Argument<infer T> ? T : never;
};
export type OptionValues<O extends Options> = {
  readonly [K in keyof O]: O[K] extends Option<infer T> ? T : never;
};

interface Declaration<A extends readonly Argument[], O extends Options> {
  /** The words that name it, such as `ipam` and `show`. */
  readonly path: readonly [string, ...string[]];
  /** One sentence. */
  readonly summary: string;
  readonly arguments?: A;
  /** By their names in camel case: `dryRun` is `--dry-run`. */
  readonly options?: O;
  /** What else people should know, in paragraphs; the manual has more in docs/netplugctl/. */
  readonly details?: string;
  /** Whole command lines. */
  readonly examples?: readonly string[];
  /** Time it gets unless somebody says otherwise, where that is not the usual. */
  readonly timeoutSeconds?: number;
  readonly run: (
    context: Context,
    given: { readonly args: ArgumentValues<A>; readonly options: OptionValues<O> },
  ) => Promise<Status>;
}

/** One command, declared once: parser, help, manual and shell completion are made from it. */
export interface Command {
  readonly path: readonly [string, ...string[]];
  readonly summary: string;
  readonly arguments: readonly Argument[];
  readonly options: Options;
  readonly details: string | undefined;
  readonly examples: readonly string[];
  readonly timeoutSeconds: number | undefined;
  readonly run: (context: Context, given: Given) => Promise<Status>;
}

/** What a command line gave a command: as its declaration reads it. */
export interface Given {
  readonly args: readonly unknown[];
  readonly options: Readonly<Record<string, unknown>>;
}

export function command<const A extends readonly Argument[] = [], const O extends Options = Options>(
  declaration: Declaration<A, O>,
): Command {
  const { path, summary, details, examples = [], run } = declaration;
  return {
    path,
    summary,
    arguments: declaration.arguments ?? [],
    options: declaration.options ?? {},
    details,
    examples,
    timeoutSeconds: declaration.timeoutSeconds,
    // The parser reads words by this declaration; the compiler does not follow them through it.
    run: async (context, given) => run(context, given as unknown as Parameters<typeof run>[1]),
  };
}

/** As it is spelt on the command line: `dryRun` is `--dry-run`. */
export function longFlag(name: string, { isNegated }: Pick<Option, 'isNegated'>): string {
  return `--${isNegated ? 'no-' : ''}${name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

/** Thrown by `read`; the message says what is allowed. */
export function notAllowed(message: string): never {
  throw new InvalidArgumentError(message);
}

interface Read<T> {
  readonly read?: (text: string) => T;
  readonly completes?: Completion;
}

export function one<T = string>(name: string, what: string, read: Read<T> = {}): Argument<T> {
  return argument({ name, what, arity: 'one' }, read);
}

export function maybe<T = string>(name: string, what: string, read: Read<T> = {}): Argument<T | undefined> {
  return argument({ name, what, arity: 'optional' }, read);
}

/** At least one. */
export function some<T = string>(name: string, what: string, read: Read<T> = {}): Argument<readonly T[]> {
  return argument({ name, what, arity: 'some' }, read);
}

/** One, many or none. */
export function any<T = string>(name: string, what: string, read: Read<T> = {}): Argument<readonly T[]> {
  return argument({ name, what, arity: 'any' }, read);
}

interface More {
  readonly short?: string;
  readonly excludes?: readonly string[];
}

/** A flag: true when it is given. */
export function flagOption(what: string, more: More = {}): Option<boolean> {
  return { ...PLAIN, what, byDefault: false, ...more };
}

/** A flag spelt `--no-NAME`: false when it is given. */
export function unless(what: string): Option<boolean> {
  return { ...PLAIN, what, byDefault: true, isNegated: true };
}

/** A flag with a value. */
export function value(name: string, what: string, more?: More & Read<string>): Option<string | undefined>;
export function value<T>(
  name: string,
  what: string,
  more: More & Read<T> & Pick<Required<Read<T>>, 'read'>,
): Option<T | undefined>;
export function value<T>(name: string, what: string, more: More & Read<T> = {}): Option<T | undefined> {
  return { ...PLAIN, value: name, what, byDefault: undefined, ...more };
}

/** A flag with a value that is always there. */
export function valueOr<T>(name: string, what: string, more: More & Read<T> & { readonly byDefault: T }): Option<T> {
  return { ...PLAIN, value: name, what, ...more };
}

/** A flag with a value that may be given several times. */
export function values(name: string, what: string, more: More & Read<string> = {}): Option<readonly string[]> {
  return { ...PLAIN, value: name, what, byDefault: [], isRepeatable: true, ...more };
}

/** The same where nothing can be done without it. */
export function mandatory<T>(option: Option<T>): Option<T> {
  return { ...option, isMandatory: true };
}

/** A flag with one of a few values; the first unless given. */
export function choice<const C extends readonly [string, ...string[]]>(
  name: string,
  what: string,
  more: More & { readonly choices: C },
): Option<C[number]> {
  return { ...PLAIN, value: name, what, byDefault: more.choices[0], ...more };
}

const PLAIN = {
  short: undefined,
  value: undefined,
  choices: undefined,
  isRepeatable: false,
  isMandatory: false,
  isNegated: false,
  excludes: [],
  read: undefined,
  completes: 'nothing',
} as const;

function argument<T, E>(known: Pick<Argument, 'name' | 'what' | 'arity'>, { read, completes }: Read<E>): Argument<T> {
  // Without a reader the words stay what they are, which is what E is then.
  const as = read ?? ((text: string): E => text as E);
  return { ...known, read: as as Argument<T>['read'], completes: completes ?? 'nothing' };
}
