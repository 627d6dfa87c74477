import { ALL_INTERFACES, type HostEndpoint } from '../../model/host-endpoint.ts';

export const CREATED_BY_LABEL = 'netplug/created-by';
export const CONTROLLERS = 'netplug-orch-controllers';
const SUFFIX = '-auto-hep';

/** The automatic endpoint of a node is called so. */
export function automaticName(node: string): string {
  return `${node}${SUFFIX}`;
}

/** The controllers made it, and keep it. */
export function isAutomatic({ metadata }: HostEndpoint): boolean {
  return metadata.labels?.[CREATED_BY_LABEL] === CONTROLLERS && metadata.name.endsWith(SUFFIX);
}

export function coversAllInterfaces({ spec }: HostEndpoint): boolean {
  return spec.interfaceName === ALL_INTERFACES;
}

/** Those that people made for all interfaces of a node: the specification's procedures are about them. */
export function madeByPeople(endpoints: readonly HostEndpoint[]): HostEndpoint[] {
  return endpoints.filter((endpoint) => coversAllInterfaces(endpoint) && !isAutomatic(endpoint));
}
