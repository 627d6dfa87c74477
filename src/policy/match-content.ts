import type { PacketContent } from './packet-content.ts';
import type { HttpMatch, PathMatch } from './resolved-policy.ts';

/** Reports whether the request has one of the methods and one of the paths. What is no request never matches. */
export function isRequestOf({ methods, paths }: HttpMatch, content: PacketContent): boolean {
  if (content.kind !== 'request') return false;
  const { method, path } = content;
  if (methods !== undefined && !methods.some((each) => each === '*' || each === method)) return false;
  return paths === undefined || (path !== undefined && paths.some((each) => isPathOf(each, path)));
}

/** A prefix ends at a segment: `/pub` has `/pub/x` below it, and not `/public`. */
function isPathOf(match: PathMatch, path: string): boolean {
  if ('exact' in match) return path === match.exact;
  const { prefix } = match;
  return path === prefix || path.startsWith(prefix.endsWith('/') ? prefix : `${prefix}/`);
}
