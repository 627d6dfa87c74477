import { ERRORS } from '../../base/error-codes.ts';
import { toNetplugError } from '../../base/errors.ts';
import type { Io, Status } from './ports.ts';

/** Writes message, hint and code to stderr and gives the exit status of the code. `about` names the object it befell. */
export function reportError(io: Pick<Io, 'stderr'>, cause: unknown, about?: string): Status {
  const [status = 70] = causesOf(cause).map((each) => {
    const { message, hint, code } = toNetplugError(each);
    io.stderr(about === undefined ? `${message}\n` : `${about}: ${message}\n`);
    if (hint !== undefined) io.stderr(`  hint: ${hint}\n`);
    io.stderr(`  code: ${code}\n`);
    return ERRORS[code].exit;
  });
  return status;
}

/** The first is what happened, the others what failed while cleaning up after it. */
function causesOf(cause: unknown): unknown[] {
  if (cause instanceof AggregateError) return cause.errors.flatMap(causesOf);
  if (cause instanceof SuppressedError) return [...causesOf(cause.suppressed), ...causesOf(cause.error)];
  return [cause];
}
