/** The schemes netplug speaks. */
export const URL_RULE = 'a URL that starts with http:// or https:// and names a host';

/** Says whether the text is a URL netplug can poll or connect to. */
export function isHttpUrl(text: string): boolean {
  return /^https?:\/\/[^/?#\s@]+([/?#]\S*)?$/i.test(text) && URL.canParse(text);
}

/** Like `isHttpUrl`, with nothing behind host and port. */
export function isEndpointUrl(text: string): boolean {
  return isHttpUrl(text) && /^https?:\/\/[^/?#]+\/?$/i.test(text);
}
