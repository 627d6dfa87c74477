import * as v from 'valibot';

const claims = v.looseObject({ exp: v.pipe(v.number(), v.finite()) });

/** When a token stops being good, in milliseconds since the epoch; undefined when it does not say. */
export function tokenExpiry(token: string): number | undefined {
  const [, payload] = token.split('.');
  if (payload === undefined) return undefined;
  try {
    const read = v.safeParse(claims, JSON.parse(Buffer.from(payload, 'base64url').toString('utf8')));
    return read.success ? read.output.exp * 1000 : undefined;
  } catch (cause) {
    // Opaque tokens are no JSON inside.
    if (cause instanceof SyntaxError) return undefined;
    throw cause;
  }
}
