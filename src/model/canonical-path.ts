/**
 * Returns the path of a request target, without its query and decoded once; undefined for a path about which servers disagree: one with
 * an empty segment, `.`, `..`, `\`, `;`, a control character, or an encoded `/`, `\`, `.` or `%`, and what is no path or not UTF-8.
 */
export function canonicalPath(target: string): string | undefined {
  const [path = ''] = target.split('?', 1);
  if (!isPlainPath(path) || /%(?:2f|5c|2e|25)/i.test(path)) return undefined;
  const decoded = decodeOnce(path);
  return decoded !== undefined && isPlainPath(decoded) ? decoded : undefined;
}

/** Reports whether the text, which is not encoded, is a path of which all servers think alike. */
export function isPlainPath(path: string): boolean {
  return (
    path.startsWith('/') &&
    // A replaced character stands for bytes that are not UTF-8.
    !/[\p{Cc}\\;#\ufffd]|\/\//u.test(path) &&
    !path.split('/').some((segment) => segment === '.' || segment === '..')
  );
}

function decodeOnce(path: string): string | undefined {
  try {
    return decodeURIComponent(path);
  } catch (cause) {
    if (cause instanceof URIError) return undefined;
    throw cause;
  }
}
