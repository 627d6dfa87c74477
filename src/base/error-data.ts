import { type ErrorCode, ERRORS } from './error-codes.ts';
import { type Facts, NetplugError } from './errors.ts';

/** A NetplugError as plain data, to be sent between processes. */
export interface ErrorData {
  readonly code: ErrorCode;
  readonly message: string;
  readonly hint: string | undefined;
  readonly facts: Facts;
}

export function errorData({ code, message, hint, facts }: NetplugError): ErrorData {
  return { code, message, hint, facts };
}

export function errorOf({ code, message, hint, facts }: ErrorData): NetplugError {
  return new NetplugError(code, message, { ...(hint === undefined ? {} : { hint }), facts });
}

/** Reports whether this release knows the code. */
export function isErrorCode(code: string): code is ErrorCode {
  return Object.hasOwn(ERRORS, code);
}
