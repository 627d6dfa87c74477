import { isAutomatic } from '../../model/automatic-host-endpoint.ts';
import { ALL_INTERFACES, type HostEndpoint } from '../../model/host-endpoint.ts';
import { isNewerVersion } from '../../base/compare-versions.ts';

/** From this release on, host endpoints for all interfaces drop what no policy allows. */
const STRICT_FROM = 'v3.14.0';

/** Reports whether the cluster has a release before that; one that is unknown may be. */
export function isBeforeStrict({ from }: { readonly from: string | undefined }): boolean {
  return from === undefined || isNewerVersion(STRICT_FROM, from);
}

export function coversAllInterfaces({ spec }: HostEndpoint): boolean {
  return spec.interfaceName === ALL_INTERFACES;
}

/** Returns the all-interfaces host endpoints that users created. */
export function userCreated(endpoints: readonly HostEndpoint[]): HostEndpoint[] {
  return endpoints.filter((endpoint) => coversAllInterfaces(endpoint) && !isAutomatic(endpoint));
}
