import { ERRORS, toNetplugError } from '../base/errors.ts';
import type { Io, Status } from './ports.ts';

/** Writes message, hint and code to stderr and gives the exit status of the code. `about` names the object it befell. */
export function reportError(io: Io, cause: unknown, about?: string): Status {
  const first = cause instanceof AggregateError && cause.errors.length > 0 ? cause.errors[0] : cause;
  const { message, hint, code } = toNetplugError(first instanceof SuppressedError ? first.suppressed : first);
  io.stderr(about === undefined ? `${message}\n` : `${about}: ${message}\n`);
  if (hint !== undefined) io.stderr(`  hint: ${hint}\n`);
  io.stderr(`  code: ${code}\n`);
  return ERRORS[code].exit;
}
