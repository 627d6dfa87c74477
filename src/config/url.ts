/** The rule for URLs; completes "allowed is …". */
export const URL_RULE = 'a URL that starts with http:// or https:// and names a host';

/** Reports whether the text is an HTTP or HTTPS URL without user and password. */
export function isHttpUrl(text: string): boolean {
  return /^https?:\/\/[^/?#\s@]+([/?#]\S*)?$/i.test(text) && URL.canParse(text);
}

/** Like `isHttpUrl`, but the URL must end after host and port. */
export function isEndpointUrl(text: string): boolean {
  return isHttpUrl(text) && /^https?:\/\/[^/?#]+\/?$/i.test(text);
}
