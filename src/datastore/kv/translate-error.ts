import { Code, ConnectError } from '@connectrpc/connect';
import { type ErrorCode, errnoOf, NetplugError } from '../../base/errors.ts';

/** What a failed request means. */
export interface Verdict {
  readonly code: Extract<ErrorCode, 'store/unavailable' | 'store/refused' | 'internal/invariant'>;
  readonly reason: string;
  /** The server itself said so: asking another member of the same cluster changes nothing. */
  readonly isFinal: boolean;
}

export interface Circumstances {
  /** The connection is encrypted and no request on it was ever answered. */
  readonly isUnprovenTls: boolean;
}

/** The one place where errors of the transport and of etcd become ours. */
export function judge(causes: readonly unknown[], { isUnprovenTls }: Circumstances): Verdict {
  const chain = causes.flatMap(chainOf);
  const tls = chain.find(isTlsFailure);
  if (tls !== undefined) return refused(tls.message.trim(), false);
  const root = chain.find((error) => !(error instanceof ConnectError) && error.message !== '') ?? chain[0];
  const reason = root?.message ?? String(causes[0]);
  const answer = chain.find((error) => error instanceof ConnectError && isAnswer(error));
  if (answer instanceof ConnectError) return judgeAnswer(answer);
  if (isUnprovenTls && chain.some(isClosed)) {
    // With TLS 1.3 a server rejects the client's certificate after the handshake, and its alert may get lost.
    return refused(`the server closed the connection right after the TLS handshake (${reason})`, false);
  }
  return { code: 'store/unavailable', reason, isFinal: false };
}

/** The error for callers; `where` says what was being talked to. */
export function errorOf(
  { code, reason }: Pick<Verdict, 'code' | 'reason'>,
  where: string,
  cause?: unknown,
): NetplugError {
  return new NetplugError(code, `Cannot use the kv datastore ${where}: ${reason}`, { hint: HINTS[code], cause });
}

const HINTS: Readonly<Record<Verdict['code'], string>> = {
  'store/unavailable': 'Look at the health of etcd and the way to it, then try again',
  'store/refused':
    'Check kv_key_file, kv_cert_file and kv_ca_cert_file, and the rights of the certificate’s user in etcd',
  'internal/invariant': 'Report this as a bug of netplug, with the log of the call',
};

function judgeAnswer(error: ConnectError): Verdict {
  const reason = error.rawMessage;
  const isAuthText = /\b(user|auth\w*|permission|password|role|token)\b/i.test(reason);
  switch (error.code) {
    case Code.Unauthenticated:
    case Code.PermissionDenied:
      return refused(reason, true);
    case Code.InvalidArgument:
    case Code.FailedPrecondition:
      // etcd says "user name is empty" this way when authentication is on and the caller shows no certificate.
      return isAuthText ? refused(reason, true) : { code: 'internal/invariant', reason, isFinal: true };
    case Code.Unimplemented:
      return { code: 'store/unavailable', reason: `this is no etcd v3 (${reason})`, isFinal: false };
    default:
      return { code: 'store/unavailable', reason, isFinal: false };
  }
}

function refused(reason: string, isFinal: boolean): Verdict {
  return { code: 'store/refused', reason, isFinal };
}

/** The error, what caused it, and the errors an AggregateError bundles (one per address of a host name). */
function chainOf(cause: unknown): Error[] {
  const chain: Error[] = [];
  for (let error = cause; error instanceof Error && !chain.includes(error); error = error.cause) {
    if (error instanceof AggregateError) chain.push(...error.errors.flatMap(chainOf));
    chain.push(error);
  }
  return chain;
}

function isTlsFailure(error: Error): boolean {
  return /^(CERT_|UNABLE_TO_|ERR_TLS_|ERR_SSL_|DEPTH_ZERO_|SELF_SIGNED_|INVALID_CA|INVALID_PURPOSE|HOSTNAME_|PATH_LENGTH|EPROTO)/.test(
    errnoOf(error) ?? '',
  );
}

/** Whether etcd answered, rather than the client noticing that something broke. */
function isAnswer(error: ConnectError): boolean {
  const isLocal = error.cause !== undefined || /^(http\/2|PING|protocol error|connection)/.test(error.rawMessage);
  return !isLocal && error.code !== Code.Aborted && error.code !== Code.Canceled;
}

function isClosed(error: Error): boolean {
  return (
    ['ECONNRESET', 'EPIPE', 'ERR_HTTP2_STREAM_CANCEL', 'ERR_HTTP2_SESSION_ERROR'].includes(errnoOf(error) ?? '') ||
    (error instanceof ConnectError && [Code.Aborted, Code.Canceled].includes(error.code)) ||
    /closed|hang up|destroyed|missing trailer/i.test(error.message)
  );
}
