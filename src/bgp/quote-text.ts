/**
 * The text as a string of BIRD's configuration. The language has no escapes, so what holds a double quote or a control
 * character cannot be said, and is undefined.
 */
export function quoteText(text: string): string | undefined {
  return /["\p{Cc}]/u.test(text) ? undefined : `"${text}"`;
}
