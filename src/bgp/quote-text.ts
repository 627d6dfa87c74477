/**
 * Quotes the text for BIRD's configuration. The language has no escapes, so a text with a double quote or a control
 * character is undefined.
 */
export function quoteText(text: string): string | undefined {
  return /["\p{Cc}]/u.test(text) ? undefined : `"${text}"`;
}
