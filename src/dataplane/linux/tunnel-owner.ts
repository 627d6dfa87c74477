import type { Link } from './link-messages.ts';

/** In the alias of every tunnel device of the agent. */
export const TUNNEL_ALIAS = 'netplug tunnel';

const KINDS: ReadonlySet<string> = new Set(['vxlan', 'ipip']);

/** Whether the link is a tunnel that the agent made and marked. */
export function isTunnel({ kind, alias }: Pick<Link, 'kind' | 'alias'>): boolean {
  return KINDS.has(kind) && alias === TUNNEL_ALIAS;
}

/**
 * Whether the link under the name of a tunnel may be changed or removed. Without any alias it is the trace of an agent
 * that died in the instant between making and marking it.
 */
export function isOwnTunnel(link: Pick<Link, 'kind' | 'alias'>): boolean {
  return isTunnel(link) || (KINDS.has(link.kind) && link.alias === '');
}
