import * as v from 'valibot';

const seconds = v.optional(v.pipe(v.number(), v.finite()));
const claims = v.looseObject({
  exp: seconds,
  iat: seconds,
  sub: v.optional(v.string(), ''),
  'kubernetes.io': v.optional(
    v.looseObject({ pod: v.optional(v.unknown()), node: v.optional(v.looseObject({ name: v.string() })) }),
  ),
});

/** Returns when a token expires, in milliseconds since the epoch; undefined when it does not say. */
export function tokenExpiry(token: string): number | undefined {
  return milliseconds(readClaims(token)?.exp);
}

/** Returns when a token was issued, in milliseconds since the epoch; undefined when it does not say. */
export function tokenIssuedAt(token: string): number | undefined {
  return milliseconds(readClaims(token)?.iat);
}

/** Reports whether a token ends with the pod that it was issued for. */
export function isBoundToPod(token: string): boolean {
  return readClaims(token)?.['kubernetes.io']?.pod !== undefined;
}

/** Returns the user of a token of a service account, and the node that the API server takes its requests for. */
export function tokenHolder(token: string): { readonly user: string; readonly node: string | undefined } | undefined {
  const read = readClaims(token);
  return read === undefined ? undefined : { user: read.sub, node: read['kubernetes.io']?.node?.name };
}

function milliseconds(value: number | undefined): number | undefined {
  return value === undefined ? undefined : value * 1000;
}

function readClaims(token: string): v.InferOutput<typeof claims> | undefined {
  const [, payload] = token.split('.');
  if (payload === undefined) return undefined;
  try {
    const read = v.safeParse(claims, JSON.parse(Buffer.from(payload, 'base64url').toString('utf8')));
    return read.success ? read.output : undefined;
  } catch (cause) {
    // Opaque tokens are no JSON inside.
    if (cause instanceof SyntaxError) return undefined;
    throw cause;
  }
}
