import type { Link } from './link-messages.ts';

/** The alias of every tunnel device of the agent. */
export const TUNNEL_ALIAS = 'netplug tunnel';

const KINDS: ReadonlySet<string> = new Set(['vxlan', 'ipip']);

/** Reports whether the link is a tunnel that the agent made and marked. */
export function isTunnel({ kind, alias }: Pick<Link, 'kind' | 'alias'>): boolean {
  return KINDS.has(kind) && alias === TUNNEL_ALIAS;
}

/**
 * Reports whether the agent may change or remove the link with the name of a tunnel. A tunnel without an alias was left
 * by an agent that was killed before it could mark it.
 */
export function isOwnTunnel(link: Pick<Link, 'kind' | 'alias'>): boolean {
  return isTunnel(link) || (KINDS.has(link.kind) && link.alias === '');
}
