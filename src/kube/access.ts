import { NetplugError } from '../base/errors.ts';
import type { KubeconfigSource } from '../model/kubeconfig-source.ts';

/** Access to the API of the orchestrator. */
export type OrchAccess =
  /** A configuration file of the orchestrator's own tools; `apiRoot` stands in for the server it names. */
  | { readonly from: 'file'; readonly path: string; readonly apiRoot?: string | undefined }
  /** The kubeconfig files of an administrator, as kubectl reads them. */
  | ({ readonly from: 'kubeconfig' } & KubeconfigSource)
  /** A URL alone: no credentials, and certificates as the machine trusts them. */
  | { readonly from: 'api-root'; readonly url: string }
  /** Credentials that the orchestrator puts into every pod: for the resident programs. */
  | { readonly from: 'in-cluster'; readonly dir?: string };

/** Inputs for loading credentials besides their files. */
export interface AccessInputs {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
}

/** The error for access that is configured wrongly; `what` names file, field and reason. */
export function accessInvalid(what: string, hint: string, cause?: unknown): NetplugError {
  return new NetplugError('store/config-invalid', `Cannot use the API of the orchestrator: ${what}`, { hint, cause });
}

/** @throws store/config-invalid for what is no URL of a server */
export function readServerUrl(text: string, field: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url !== undefined && ['http:', 'https:'].includes(url.protocol) && url.hostname !== '') return url;
  throw accessInvalid(`${field} "${text}" is no URL of a server`, 'Write it as https://host:port');
}
