import { isAutomatic } from '../../model/automatic-host-endpoint.ts';
import { ALL_INTERFACES, type HostEndpoint } from '../../model/host-endpoint.ts';

export function coversAllInterfaces({ spec }: HostEndpoint): boolean {
  return spec.interfaceName === ALL_INTERFACES;
}

/** Those that people made for all interfaces of a node: the specification's procedures are about them. */
export function madeByPeople(endpoints: readonly HostEndpoint[]): HostEndpoint[] {
  return endpoints.filter((endpoint) => coversAllInterfaces(endpoint) && !isAutomatic(endpoint));
}
