import { ERRORS } from '../base/error-codes.ts';
import { visibleLines } from '../base/visible-text.ts';
import { type Facts, type NetplugError, reasonOf, toNetplugError } from '../base/errors.ts';
import { CNI_VERSIONS, type CniVersion } from '../config/netconf.ts';
import type { Failure } from './call-record.ts';
import { DelegateError } from './delegate.ts';

/**
 * Renders the error document of CNI 1.1.0, section 5. `details` contains the hint and netplug's error code. Runtimes decode the texts,
 * and kubelets write them into events: what steers a terminal in them is escaped.
 */
export function renderError(cause: unknown, asked: CniVersion | undefined): Record<string, unknown> {
  const first = firstCause(cause);
  const cniVersion = asked ?? CNI_VERSIONS.at(-1);
  if (first instanceof DelegateError) {
    return {
      cniVersion,
      code: first.cniCode,
      msg: visibleLines(first.message),
      ...(first.details === undefined ? {} : { details: visibleLines(first.details) }),
    };
  }
  const error = toNetplugError(first);
  return {
    cniVersion,
    code: ERRORS[error.code].cni,
    msg: visibleLines(error.message),
    details: visibleLines(detailsOf(error)),
  };
}

/** Returns the facts of the error for the log: also further failures and, for an internal error, the stack. */
export function failureFacts(cause: unknown): Facts {
  const first = firstCause(cause);
  const others = cause === first ? [] : allCauses(cause).filter((other) => other !== first);
  if (first instanceof DelegateError)
    return { message: first.message, code: first.cniCode, others: others.map(reasonOf) };
  const { code, message, hint, facts, stack } = toNetplugError(first);
  return {
    ...facts,
    code,
    message,
    hint,
    ...(others.length === 0 ? {} : { others: others.map(reasonOf) }),
    ...(code === 'internal/invariant' ? { stack: first instanceof Error ? first.stack : stack } : {}),
  };
}

/** Returns code and message of the error. */
export function failureOf(cause: unknown): Failure {
  const first = firstCause(cause);
  if (first instanceof DelegateError) return { code: 'delegate/refused', message: first.message };
  const { code, message } = toNetplugError(first);
  return { code, message };
}

function allCauses(cause: unknown): unknown[] {
  if (cause instanceof AggregateError) return cause.errors.flatMap(allCauses);
  if (cause instanceof SuppressedError) return [...allCauses(cause.suppressed), ...allCauses(cause.error)];
  return [cause];
}

/** Returns the failure to report. Of several it is the first; a failed cleanup never hides the failure before it. */
function firstCause(cause: unknown): unknown {
  if (cause instanceof AggregateError && cause.errors.length > 0) return firstCause(cause.errors[0]);
  if (cause instanceof SuppressedError) return firstCause(cause.suppressed);
  return cause;
}

function detailsOf({ hint, code }: NetplugError): string {
  return hint === undefined ? `code: ${code}` : `hint: ${hint}; code: ${code}`;
}
