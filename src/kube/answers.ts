import type { ErrorCode } from '../base/error-codes.ts';
import { isNetplugError, NetplugError } from '../base/errors.ts';
import { tryParseJson } from '../base/try-parse-json.ts';
import { type HeldField, readStatus } from './objects.ts';
import { describeCredential, type Session } from './session.ts';
import type { RawAnswer } from './transport.ts';

/** Refusals that callers decide on; everything else is an error. */
export type ApiRefusal = 'not-found' | 'exists' | 'conflict' | 'gone' | 'invalid' | 'too large';

export type ApiAnswer<T> =
  | { readonly outcome: 'ok'; readonly value: T }
  | {
      readonly outcome: ApiRefusal;
      /** In the API's own words. */
      readonly message: string;
      /** The held fields of a conflict about fields alone; otherwise none. */
      readonly heldFields: readonly HeldField[];
      /** An earlier try of the same request went unanswered: what stands in the way may be its own work. */
      readonly mayBeOurs: boolean;
    };

/** Meaning of one answer. */
export type ApiVerdict =
  | { readonly kind: 'ok'; readonly body: unknown }
  | {
      readonly kind: 'refusal';
      readonly outcome: ApiRefusal;
      readonly message: string;
      readonly heldFields: readonly HeldField[];
    }
  | { readonly kind: 'unauthorized'; readonly message: string }
  | { readonly kind: 'forbidden'; readonly message: string }
  /** The same request may succeed later. */
  | {
      readonly kind: 'transient';
      readonly message: string;
      readonly waitMs: number | undefined;
      readonly isUnsent: boolean;
      /** HTTP status, when there was an answer. */
      readonly status: number | undefined;
    }
  | { readonly kind: 'foreign'; readonly message: string; readonly isUnknownKind?: true };

/** The HTTP status of an API that turns a request away because it has too many. */
const BUSY = 429;

/** The one place where answers of the API become ours. */
export function judgeAnswer({ status, headers, text }: RawAnswer): ApiVerdict {
  const body = tryParseJson(text);
  const said = readStatus(body);
  const message = said?.message ?? (text.trim().split('\n')[0] ?? '').slice(0, 200);
  if (status >= 200 && status < 300) {
    return body === undefined ? { kind: 'foreign', message: 'the answer is no JSON' } : { kind: 'ok', body };
  }
  const heldFields = said?.heldFields ?? [];
  const refusal = (outcome: ApiRefusal): ApiVerdict => ({ kind: 'refusal', outcome, message, heldFields });
  switch (status) {
    case 401:
      return { kind: 'unauthorized', message };
    case 403:
      return { kind: 'forbidden', message };
    case 404:
      // An API that knows the kind answers with a Status; one that does not, or a wrong server, with a page of text.
      if (said?.reason !== 'NotFound' || /could not find the requested resource/.test(message)) {
        return { kind: 'foreign', message: `it knows nothing of that kind (${message})`, isUnknownKind: true };
      }
      return refusal('not-found');
    case 409:
      return refusal(said?.reason === 'AlreadyExists' ? 'exists' : 'conflict');
    case 410:
      return refusal('gone');
    case 400:
    case 413:
    case 422:
      return refusal('invalid');
    case 500:
      // What an applied object that does not fit its schema is answered with: trying again would change nothing.
      if (message.startsWith('failed to create typed patch object')) return refusal('invalid');
  }
  if (status !== BUSY && status < 500) {
    return { kind: 'foreign', message: `it answers with HTTP status ${String(status)} (${message})` };
  }
  const seconds = Number(headers['retry-after']);
  return {
    kind: 'transient',
    message: `HTTP status ${String(status)}${message === '' ? '' : ` (${message})`}`,
    waitMs: Number.isFinite(seconds) && seconds > 0 ? seconds * 1000 : undefined,
    // Rejected before the request was processed.
    isUnsent: status === BUSY,
    status,
  };
}

/** The error for callers. */
export function apiError(
  code: Extract<ErrorCode, 'store/unavailable' | 'store/refused'>,
  {
    reason,
    hint,
    session,
    now,
    status,
    isUnknownKind,
    cause,
  }: {
    reason: string;
    hint?: string;
    session: Session;
    now: number;
    status?: number | undefined;
    isUnknownKind?: true | undefined;
    cause?: unknown;
  },
): NetplugError {
  const { host } = session.server;
  const credential = describeCredential(session.credential, now);
  return new NetplugError(code, `Cannot use the API of the orchestrator at ${session.server.origin}: ${reason}`, {
    hint:
      hint ??
      (code === 'store/refused'
        ? `Look at ${credential}, and at the rights its user has (manifests/rbac.yaml)`
        : 'Look at the health of the API server and the way to it, then try again'),
    facts: {
      host,
      ...(code === 'store/refused' ? { credential } : {}),
      ...(status === undefined ? {} : { status }),
      ...(isUnknownKind === undefined ? {} : { isUnknownKind }),
    },
    cause,
  });
}

/** Reports whether the API does not serve the kind: its definition is missing. */
export function isUnknownKind(cause: unknown): boolean {
  return isNetplugError(cause, 'store/unavailable') && cause.facts['isUnknownKind'] === true;
}

/** Whether the API was there and only had too much to do. */
export function isBusy(cause: unknown): boolean {
  return isNetplugError(cause, 'store/unavailable') && cause.facts['status'] === BUSY;
}
