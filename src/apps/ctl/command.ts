import { InvalidArgumentError } from 'commander';
import type { Context, Status } from './ports.ts';

/** A positional argument. `T` is the type of its decoded value. */
export interface Argument<T = unknown> {
  readonly name: string;
  readonly what: string;
  readonly arity: 'one' | 'optional' | 'some' | 'any';
  readonly read: (text: string) => T extends readonly (infer E)[] ? E : T;
  readonly completes: Completion;
}

/** A flag. `T` is the type of its decoded value. */
export interface Option<T = unknown> {
  /** One letter. */
  readonly short: string | undefined;
  /** Placeholder for the value in the help, such as `address`; undefined for a flag without a value. */
  readonly value: string | undefined;
  readonly what: string;
  /** Value when the flag is absent. */
  readonly byDefault: T | undefined;
  readonly choices: readonly string[] | undefined;
  readonly isRepeatable: boolean;
  readonly isMandatory: boolean;
  /** Whether the flag is spelled `--no-NAME`; its value is true unless given. */
  readonly isNegated: boolean;
  /** Names of options that cannot be given with this one. */
  readonly excludes: readonly string[];
  readonly read: ((text: string) => unknown) | undefined;
  readonly completes: Completion;
}

/** Completions that a shell offers for an argument or the value of an option. */
export type Completion = 'file' | 'folder' | 'kind' | 'name' | 'context' | 'nothing' | readonly string[];

export type Options = Readonly<Record<string, Option>>;
export type ArgumentValues<A extends readonly Argument[]> = {
  readonly [I in keyof A]: A[I] extends Argument<infer T> ? T : never;
};
export type OptionValues<O extends Options> = {
  readonly [K in keyof O]: O[K] extends Option<infer T> ? T : never;
};

/** The declaration of a command, from which parser, help, manual and shell completion are generated. */
export interface Command {
  /** The words of the command, such as `ipam` and `show`. */
  readonly path: readonly [string, ...string[]];
  /** One sentence. */
  readonly summary: string;
  readonly arguments: readonly Argument[];
  /** By name in camel case: `dryRun` is `--dry-run`. */
  readonly options: Options;
  /** Further paragraphs of the help. The manual adds those in docs/netplugctl/. */
  readonly details?: string;
  /** Complete command lines. */
  readonly examples: readonly string[];
  /** Default timeout, when it differs from that of the other commands. */
  readonly timeoutSeconds?: number;
  readonly run: (context: Context, given: Given) => Promise<Status>;
}

/** A command as it is written: lists that it leaves out are empty. */
interface Declaration<A extends readonly Argument[], O extends Options>
  extends Pick<Command, 'path' | 'summary'>, Partial<Pick<Command, 'details' | 'examples' | 'timeoutSeconds'>> {
  readonly arguments?: A;
  readonly options?: O;
  readonly run: (
    context: Context,
    given: { readonly args: ArgumentValues<A>; readonly options: OptionValues<O> },
  ) => Promise<Status>;
}

/** The decoded arguments and options of a command line. */
export interface Given {
  readonly args: readonly unknown[];
  readonly options: Readonly<Record<string, unknown>>;
}

export function command<const A extends readonly Argument[] = [], const O extends Options = Options>(
  declaration: Declaration<A, O>,
): Command {
  const { run } = declaration;
  return {
    arguments: [],
    options: {},
    examples: [],
    ...declaration,
    // The parser decodes values by this declaration, which the compiler cannot see.
    run: async (context, given) => run(context, given as unknown as Parameters<typeof run>[1]),
  };
}

/** Returns the spelling on the command line: `dryRun` is `--dry-run`. */
export function longFlag(name: string, { isNegated }: Pick<Option, 'isNegated'>): string {
  return `--${isNegated ? 'no-' : ''}${name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

/** Refuses a value in `read`; the message says what is allowed. */
export function notAllowed(message: string): never {
  throw new InvalidArgumentError(message);
}

interface Read<T> {
  readonly read?: (text: string) => T;
  readonly completes?: Completion;
}

/** Reads a text that passes the test, and refuses others with the message. */
export function textLike(allowed: Pick<RegExp, 'test'>, message: string): (text: string) => string {
  return (text) => (allowed.test(text) ? text : notAllowed(message));
}

/** Reads a number whose digits match the pattern, and refuses others with the message. */
export function numberLike(allowed: RegExp, message: string): (text: string) => number {
  return (text) => (allowed.test(text) ? Number(text) : notAllowed(message));
}

/** Reads one of the words, which are its completions as well. */
export function wordFrom<const W extends string>(words: readonly W[]): Required<Read<W>> {
  return {
    read: (text) => words.find((word) => word === text) ?? notAllowed(`Allowed are ${words.join(', ')}.`),
    completes: words,
  };
}

export function one<T = string>(name: string, what: string, read: Read<T> = {}): Argument<T> {
  return argument({ name, what, arity: 'one' }, read);
}

export function maybe<T = string>(name: string, what: string, read: Read<T> = {}): Argument<T | undefined> {
  return argument({ name, what, arity: 'optional' }, read);
}

/** An argument that must be given at least once. */
export function some<T = string>(name: string, what: string, read: Read<T> = {}): Argument<readonly T[]> {
  return argument({ name, what, arity: 'some' }, read);
}

/** An argument that may be given any number of times. */
export function any<T = string>(name: string, what: string, read: Read<T> = {}): Argument<readonly T[]> {
  return argument({ name, what, arity: 'any' }, read);
}

interface More {
  readonly short?: string;
  readonly excludes?: readonly string[];
}

/** A flag without a value: true when given. */
export function flagOption(what: string, more: More = {}): Option<boolean> {
  return { ...PLAIN, what, byDefault: false, ...more };
}

/** A flag spelled `--no-NAME`: false when given. */
export function unless(what: string): Option<boolean> {
  return { ...PLAIN, what, byDefault: true, isNegated: true };
}

/** A flag with a value. */
export function value<T>(
  name: string,
  what: string,
  more: More & Read<T> & Pick<Required<Read<T>>, 'read'>,
): Option<T | undefined>;
export function value(name: string, what: string, more?: More & Read<string>): Option<string | undefined>;
export function value<T>(name: string, what: string, more: More & Read<T> = {}): Option<T | undefined> {
  return { ...PLAIN, value: name, what, byDefault: undefined, ...more };
}

/** A flag whose value has a default. */
export function valueOr<T>(name: string, what: string, more: More & Read<T> & { readonly byDefault: T }): Option<T> {
  return { ...PLAIN, value: name, what, ...more };
}

/** A flag with a value that may be repeated. */
export function values(name: string, what: string, more: More & Read<string> = {}): Option<readonly string[]> {
  return { ...PLAIN, value: name, what, byDefault: [], isRepeatable: true, ...more };
}

/** Makes an option mandatory. */
export function mandatory<T>(option: Option<T>): Option<T> {
  return { ...option, isMandatory: true };
}

/** A flag whose value is one of several choices, by default the first. */
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
  // Without a decoder, E is string.
  const as = read ?? ((text: string): E => text as E);
  return { ...known, read: as as Argument<T>['read'], completes: completes ?? 'nothing' };
}
