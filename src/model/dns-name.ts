/** Reports whether the text is an RFC 1123 subdomain, as resource names are: lower-case letters, digits, `-` and `.`, at most 253. */
export function isDnsSubdomain(text: string): boolean {
  return text.length <= 253 && /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/.test(text);
}

/** Reports whether the text is an RFC 1123 label, as names of namespaces are. */
export function isDnsLabel(text: string): boolean {
  return text.length <= 63 && isDnsSubdomain(text) && !text.includes('.');
}
