import type { ErrorCode } from './error-codes.ts';

export type Facts = Readonly<Record<string, string | number | boolean | readonly string[] | undefined>>;

/** An error with a stable code, a message, a hint that says what to do, and its facts as data. */
export class NetplugError extends Error {
  readonly code: ErrorCode;
  readonly hint: string | undefined;
  readonly facts: Facts;

  constructor(code: ErrorCode, message: string, more: { hint?: string; facts?: Facts; cause?: unknown } = {}) {
    super(message, more.cause === undefined ? undefined : { cause: more.cause });
    this.name = 'NetplugError';
    this.code = code;
    this.hint = more.hint;
    this.facts = more.facts ?? {};
  }
}

/** Reports whether `cause` is a NetplugError of one of the given codes (of any code when none is given). */
export function isNetplugError(cause: unknown, ...codes: readonly ErrorCode[]): cause is NetplugError {
  return cause instanceof NetplugError && (codes.length === 0 || codes.includes(cause.code));
}

/** Returns `cause` itself when it is a NetplugError, otherwise an internal/invariant error that wraps it. */
export function toNetplugError(cause: unknown): NetplugError {
  if (cause instanceof NetplugError) return cause;
  return new NetplugError('internal/invariant', `Cannot finish the call: ${reasonOf(cause)}`, {
    hint: 'Report this as a bug of netplug, with the log of the call',
    cause,
  });
}

/** @throws internal/invariant when `fact` is false. */
export function invariant(fact: boolean, broken: string): asserts fact {
  if (!fact) {
    throw new NetplugError('internal/invariant', `Cannot go on: ${broken}`, {
      hint: 'Report this as a bug of netplug',
    });
  }
}

/** The default branch of an exhaustive switch. */
export function never(value: never): never {
  throw new NetplugError('internal/invariant', `Cannot go on: unexpected value ${JSON.stringify(value)}`);
}

/** Returns the errno name (`ENOENT`, …) of a failed system call made through node:fs, node:net and the like. */
export function errnoOf(cause: unknown): string | undefined {
  return cause instanceof Error && 'code' in cause && typeof cause.code === 'string' ? cause.code : undefined;
}

/** Text that Node appends to some errors of TLS: advice for its own command line. */
const NODE_ADVICE = /; if the root CA is installed locally, try running Node\.js with --use-system-ca$/;

/** Returns the message of an error without Node's own advice; of an AggregateError, each different message once. */
export function reasonOf(cause: unknown): string {
  if (cause instanceof AggregateError) return [...new Set(cause.errors.map(reasonOf))].join(', ');
  return cause instanceof Error ? cause.message.replace(NODE_ADVICE, '') : String(cause);
}

/** Returns the reason of a failure, and behind it what to do about it. */
export function reasonAndRemedy(cause: unknown): string {
  const remedy = cause instanceof NetplugError && cause.hint !== undefined ? ` (${cause.hint})` : '';
  return `${reasonOf(cause)}${remedy}`;
}
