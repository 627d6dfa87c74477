import { X509Certificate } from 'node:crypto';
import { createSecureContext } from 'node:tls';
import { never, reasonOf } from '../base/errors.ts';
import { accessInvalid } from './access.ts';
import { tokenExpiry, tokenIssuedAt } from './jwt.ts';

/** Certificates and keys as PEM texts. */
export interface TlsMaterial {
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
  /** The name the server's certificate must carry, when it is not the host of the URL. */
  readonly servername?: string;
  readonly rejectUnauthorized?: false;
}

/** The credential of requests; `from` names its source for messages. */
export type Credential =
  | { readonly kind: 'none' }
  | { readonly kind: 'token'; readonly token: string; readonly from: string; readonly isRenewedByAgent?: boolean }
  | { readonly kind: 'password'; readonly username: string; readonly password: string; readonly from: string }
  | { readonly kind: 'certificate'; readonly cert: string; readonly from: string };

/** The server and the credential, as read from the files together. */
export interface Session {
  /** Name of the context; undefined without a kubeconfig. */
  readonly context?: string;
  readonly server: URL;
  readonly tls: TlsMaterial;
  readonly credential: Credential;
  /** The files it was read from: when one changes, it is read again. */
  readonly files: readonly string[];
  /** Milliseconds since the epoch at which a credential given for a time must be asked for again. */
  readonly expiresAt?: number;
}

/** The headers that carry the credential; certificates travel in the handshake. */
export function credentialHeaders(credential: Credential): Readonly<Record<string, string>> {
  if (credential.kind === 'token') return { authorization: `Bearer ${credential.token}` };
  if (credential.kind !== 'password') return {};
  const pair = Buffer.from(`${credential.username}:${credential.password}`).toString('base64');
  return { authorization: `Basic ${pair}` };
}

/** Names the credential for an error: what it is, from where, until when; never the secret itself. */
export function describeCredential(credential: Credential, now: number): string {
  switch (credential.kind) {
    case 'none':
      return 'no credential';
    case 'password':
      return `the password of user "${credential.username}" from ${credential.from}`;
    case 'token':
      return `the token from ${credential.from}${validity(tokenExpiry(credential.token), now)}`;
    case 'certificate': {
      const { subject, validTo } = new X509Certificate(credential.cert);
      const who = subject.replaceAll('\n', ', ');
      return `the client certificate of "${who}" from ${credential.from}${validity(Date.parse(validTo), now)}`;
    }
    default:
      return never(credential);
  }
}

/** Returns what to do about a credential that the API does not accept; undefined without special advice. */
export function refusedHint(credential: Credential, now: number): string | undefined {
  if (credential.kind !== 'token' || credential.isRenewedByAgent !== true) return undefined;
  const [issued, expiry] = [tokenIssuedAt(credential.token), tokenExpiry(credential.token)];
  const since = issued === undefined ? '' : ` since ${new Date(issued).toISOString()}`;
  return expiry !== undefined && expiry <= now
    ? `Start netplug-agent on this node, which renews the token and has not done so${since}; see its log`
    : 'Make sure that netplug-agent runs on this node: it replaces a refused token within a minute or so; see its log';
}

/** @throws store/config-invalid when certificates and keys cannot be used together */
export function checkTls(tls: TlsMaterial, from: string): void {
  try {
    createSecureContext({ ca: tls.ca, cert: tls.cert, key: tls.key });
  } catch (cause) {
    throw accessInvalid(
      `the certificates and keys of ${from} do not work together (${reasonOf(cause)})`,
      'Give PEM texts, and the key the client certificate was made for',
      cause,
    );
  }
}

function validity(expiry: number | undefined, now: number): string {
  if (expiry === undefined || Number.isNaN(expiry)) return '';
  return ` (${expiry <= now ? 'expired' : 'valid until'} ${new Date(expiry).toISOString()})`;
}
