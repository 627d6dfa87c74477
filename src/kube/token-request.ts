import * as v from 'valibot';
import { NetplugError } from '../base/errors.ts';
import type { ApiAnswer } from './answers.ts';
import type { OrchApi } from './orch-api.ts';

/** Properties of a token that the API is asked for. */
export interface TokenSpec {
  readonly expirationSeconds: number;
  /** The token ends with this object. */
  readonly boundObjectRef?: { readonly apiVersion: 'v1'; readonly kind: 'Node'; readonly name: string };
}

/** A token as the API has issued it. Its lifetime may differ from the requested one. */
export interface IssuedToken {
  readonly token: string;
  /** Milliseconds since the epoch. */
  readonly expiresAtMs: number;
}

export interface TokenOf {
  readonly namespace: string;
  readonly name: string;
  readonly node: string;
  readonly lifetimeSeconds: number;
}

const tokenRequest = v.looseObject({
  status: v.looseObject({ token: v.string(), expirationTimestamp: v.pipe(v.string(), v.isoTimestamp()) }),
});

/** Returns the token of an answer; undefined when there is none in it. */
export function readIssuedToken(raw: unknown): IssuedToken | undefined {
  const read = v.safeParse(tokenRequest, raw);
  if (!read.success) return undefined;
  const { token, expirationTimestamp } = read.output.status;
  return { token, expiresAtMs: Date.parse(expirationTimestamp) };
}

/**
 * Requests a token of a service account, bound to the Node where the API supports that, so that it ends with the Node.
 * @throws store/*, orch/not-found
 */
export async function requestToken(
  api: Pick<OrchApi, 'requestToken'>,
  { namespace, name, node, lifetimeSeconds }: TokenOf,
  signal: AbortSignal,
): Promise<IssuedToken> {
  const account = { namespace, name };
  const spec = { expirationSeconds: lifetimeSeconds };
  const boundObjectRef = { apiVersion: 'v1', kind: 'Node', name: node } as const;
  const bound = await api.requestToken(account, { ...spec, boundObjectRef }, signal);
  // Kubernetes before 1.29 binds tokens to Pods and Secrets only, and refuses other kinds as invalid.
  const answer = bound.outcome === 'invalid' ? await api.requestToken(account, spec, signal) : bound;
  if (answer.outcome === 'ok') return answer.value;
  throw notIssued({ namespace, name }, answer);
}

function notIssued(
  { namespace, name }: Pick<TokenOf, 'namespace' | 'name'>,
  { message }: Exclude<ApiAnswer<unknown>, { readonly outcome: 'ok' }>,
): NetplugError {
  return new NetplugError(
    'orch/not-found',
    `Cannot get a token of service account "${namespace}/${name}": ${message}`,
    { hint: 'Create the service account and the Node, or correct NETPLUG_CNI_ACCOUNT, NETPLUG_NAMESPACE or NODENAME' },
  );
}
