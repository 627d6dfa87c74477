import type { HostEndpoint } from './host-endpoint.ts';

export const CREATED_BY_LABEL = 'netplug/created-by';
export const CONTROLLERS = 'netplug-orch-controllers';
const SUFFIX = '-auto-hep';

/** The automatic endpoint of a node is called so. */
export function automaticName(node: string): string {
  return `${node}${SUFFIX}`;
}

/** The controllers made it, and keep it. */
export function isAutomatic({ metadata }: Pick<HostEndpoint, 'metadata'>): boolean {
  return metadata.labels?.[CREATED_BY_LABEL] === CONTROLLERS && metadata.name.endsWith(SUFFIX);
}

/** Returns the node whose automatic endpoint is called so; undefined for a name that no automatic endpoint has. */
export function nodeOfAutomaticName(name: string): string | undefined {
  return name.endsWith(SUFFIX) ? name.slice(0, -SUFFIX.length) : undefined;
}
