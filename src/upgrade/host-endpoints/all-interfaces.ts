import { isAutomatic } from '../../model/automatic-host-endpoint.ts';
import { ALL_INTERFACES, type HostEndpoint } from '../../model/host-endpoint.ts';

export function coversAllInterfaces({ spec }: HostEndpoint): boolean {
  return spec.interfaceName === ALL_INTERFACES;
}

/** Returns the all-interfaces host endpoints that users created. */
export function userCreated(endpoints: readonly HostEndpoint[]): HostEndpoint[] {
  return endpoints.filter((endpoint) => coversAllInterfaces(endpoint) && !isAutomatic(endpoint));
}
