import type { ErrorCode } from '../../base/error-codes.ts';
import { errnoOf, NetplugError, reasonOf } from '../../base/errors.ts';
import { GrpcCode, GrpcError } from './grpc.ts';
import { EndedAfterHandshake } from '../../base/http2/ended-after-handshake.ts';

/** Meaning of a failed request. */
export interface EtcdFailure {
  readonly code: Extract<ErrorCode, 'store/unavailable' | 'store/refused' | 'internal/invariant'>;
  readonly reason: string;
  /** The server itself said so: asking another member of the same cluster changes nothing. */
  readonly isFinal: boolean;
}

/** The one place where errors of the transport and of etcd become ours. */
export function judge(cause: unknown): EtcdFailure {
  const chain = chainOf(cause);
  const tls = chain.find(isTlsFailure);
  if (tls !== undefined) return refused(reasonOf(tls).trim(), false);
  const answer = chain.find((error) => error instanceof GrpcError && isAnswer(error));
  if (answer instanceof GrpcError) return judgeAnswer(answer);
  const root = chain.find((error) => !(error instanceof GrpcError) && error.message !== '') ?? chain[0];
  return { code: 'store/unavailable', reason: reasonOf(root ?? cause), isFinal: false };
}

/** Returns what it means that etcd ends a watch with these words. */
export function judgeText(reason: string): EtcdFailure {
  return isAuthText(reason) ? refused(reason, true) : { code: 'store/unavailable', reason, isFinal: true };
}

/** The error for callers; `where` says what was being talked to. */
export function etcdError(
  { code, reason }: Pick<EtcdFailure, 'code' | 'reason'>,
  where: string,
  cause?: unknown,
): NetplugError {
  return new NetplugError(code, `Cannot use the kv datastore ${where}: ${reason}`, { hint: HINTS[code], cause });
}

const HINTS: Readonly<Record<EtcdFailure['code'], string>> = {
  'store/unavailable': 'Look at the health of etcd and the way to it, then try again',
  'store/refused':
    'Check kv_key_file, kv_cert_file and kv_ca_cert_file, and the rights of the certificate’s user in etcd',
  'internal/invariant': 'Report this as a bug of netplug, with the log of the call',
};

function judgeAnswer(error: GrpcError): EtcdFailure {
  const { code, message: reason } = error;
  if (code === GrpcCode.Unauthenticated || code === GrpcCode.PermissionDenied) return refused(reason, true);
  if (code === GrpcCode.InvalidArgument || code === GrpcCode.FailedPrecondition) {
    // etcd says "user name is empty" this way when authentication is on and the caller shows no certificate.
    return isAuthText(reason) ? refused(reason, true) : { code: 'internal/invariant', reason, isFinal: true };
  }
  if (code === GrpcCode.Unimplemented) {
    return { code: 'store/unavailable', reason: `this is no etcd v3 (${reason})`, isFinal: false };
  }
  return { code: 'store/unavailable', reason, isFinal: false };
}

function isAuthText(reason: string): boolean {
  return /\b(user|auth\w*|permission|password|role|token)\b|PermissionDenied/i.test(reason);
}

function refused(reason: string, isFinal: boolean): EtcdFailure {
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
  const code = errnoOf(error) ?? '';
  return error instanceof EndedAfterHandshake || TLS_CODES.test(code);
}

/** Codes of node:tls and OpenSSL for certificates that are not trusted, and alerts. */
const TLS_CODES =
  /^(CERT_|UNABLE_TO_|ERR_TLS_|ERR_SSL_|DEPTH_ZERO_|SELF_SIGNED_|INVALID_|HOSTNAME_|PATH_LENGTH|EPROTO)/;

/** Whether the call ended because of what was asked, and not because it was cancelled. */
function isAnswer({ code }: GrpcError): boolean {
  return code !== GrpcCode.Aborted && code !== GrpcCode.Canceled;
}
