import { HOST_LINK_PREFIX } from '../dataplane/kernel.ts';

/** Interfaces of a node that are those of pods, by their names. */
export interface PodLinkNames {
  /** Beginnings of the names: that of netplug's own links first. */
  readonly prefixes: readonly string[];
  /** Interfaces that begin so, and are not of pods. */
  readonly others: readonly string[];
}

/** Names of pod links on a node on which netplug alone connects pods. */
export const OWN_POD_LINKS: PodLinkNames = { prefixes: [HOST_LINK_PREFIX], others: [] };

export function isPodLink({ prefixes, others }: PodLinkNames, name: string): boolean {
  return prefixes.some((prefix) => name.startsWith(prefix)) && !others.includes(name);
}
