import { ERRORS } from '../base/error-codes.ts';
import { type Facts, type NetplugError, reasonOf, toNetplugError } from '../base/errors.ts';
import { CNI_VERSIONS, type CniVersion } from '../config/netconf.ts';
import type { Failure } from './call-record.ts';
import { DelegateError } from './delegate.ts';

/** The error document of CNI 1.1.0, section 5; `details` carries the hint and our own stable code. */
export function renderError(cause: unknown, asked: CniVersion | undefined): Record<string, unknown> {
  const first = firstCause(cause);
  const cniVersion = asked ?? CNI_VERSIONS.at(-1);
  if (first instanceof DelegateError) {
    return {
      cniVersion,
      code: first.cniCode,
      msg: first.message,
      ...(first.details === undefined ? {} : { details: first.details }),
    };
  }
  const error = toNetplugError(first);
  return { cniVersion, code: ERRORS[error.code].cni, msg: error.message, details: detailsOf(error) };
}

/** The same for the log, with whatever else failed and, for a bug of ours, where. */
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

/** The same in short. */
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

/** Of several failures the first is told and the rest are in the log. A failed cleanup stands behind what caused it. */
function firstCause(cause: unknown): unknown {
  if (cause instanceof AggregateError && cause.errors.length > 0) return firstCause(cause.errors[0]);
  if (cause instanceof SuppressedError) return firstCause(cause.suppressed);
  return cause;
}

function detailsOf({ hint, code }: NetplugError): string {
  return hint === undefined ? `code: ${code}` : `hint: ${hint}; code: ${code}`;
}
