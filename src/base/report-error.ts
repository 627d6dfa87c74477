import { ERRORS } from './error-codes.ts';
import { toNetplugError } from './errors.ts';

/**
 * Writes message, hint and code of each error to stderr. Returns the exit status of the first. `about` names the object
 * that the error is about.
 */
export function reportError(io: { readonly stderr: (text: string) => void }, cause: unknown, about?: string): number {
  const [status = 70] = causesOf(cause).map((each) => {
    const { message, hint, code } = toNetplugError(each);
    io.stderr(about === undefined ? `${message}\n` : `${about}: ${message}\n`);
    if (hint !== undefined) io.stderr(`  hint: ${hint}\n`);
    io.stderr(`  code: ${code}\n`);
    return ERRORS[code].exit;
  });
  return status;
}

/** Returns the error itself first, then the errors of the clean-up that followed it. */
function causesOf(cause: unknown): unknown[] {
  if (cause instanceof AggregateError) return cause.errors.flatMap(causesOf);
  if (cause instanceof SuppressedError) return [...causesOf(cause.suppressed), ...causesOf(cause.error)];
  return [cause];
}
