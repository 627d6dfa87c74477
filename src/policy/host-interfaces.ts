import { ALL_INTERFACES } from '../model/host-endpoint.ts';
import { formatAddress } from '../net/address.ts';
import { isPodLink, OWN_POD_LINKS, type PodLinkNames } from './pod-link-names.ts';
import type { PolicyView } from './policy-view.ts';
import type { PolicyEndpoint } from './resolved-policy.ts';

export const LOOPBACK = 'lo';

/** An interface of a node that is not one of its pods. */
export interface LinkWithAddresses {
  readonly name: string;
  /** Canonical texts. */
  readonly addresses: readonly string[];
}

/** Host endpoints that decide at the interfaces of a node. */
export interface HostEndpointsInForce {
  readonly byInterface: ReadonlyMap<string, PolicyEndpoint>;
  /** At all other interfaces, except loopback and those of pods. */
  readonly elsewhere: PolicyEndpoint | undefined;
  readonly podLinks: PodLinkNames;
}

/** Returns the host endpoints of the node, in order of precedence: those that people made first, then by name. */
export function hostEndpointsOf(view: Pick<PolicyView, 'hostEndpoints'>, node: string): readonly PolicyEndpoint[] {
  return [...view.hostEndpoints.values()]
    .filter((endpoint) => endpoint.node === node)
    .toSorted((a, b) => (precedence(a) < precedence(b) ? -1 : 1));
}

function precedence({ isAutomatic, shown }: PolicyEndpoint): string {
  return `${isAutomatic === true ? '1' : '0'} ${shown}`;
}

/**
 * One endpoint decides at each interface: one with its name, else one without a name that expects an address of it, else one
 * for all interfaces. An endpoint of people decides before an automatic one, so nothing changes until theirs is deleted. At
 * interfaces of pods, policies of the pod decide.
 */
export function hostEndpointsInForce(
  endpoints: readonly PolicyEndpoint[],
  interfaces: readonly LinkWithAddresses[],
  podLinks: PodLinkNames = OWN_POD_LINKS,
): HostEndpointsInForce {
  const byInterface = new Map<string, PolicyEndpoint>();
  const put = (name: string, endpoint: PolicyEndpoint): void => {
    if (!isPodLink(podLinks, name) && !byInterface.has(name)) byInterface.set(name, endpoint);
  };
  for (const endpoint of endpoints)
    if (endpoint.interfaceName !== undefined && endpoint.interfaceName !== ALL_INTERFACES)
      put(endpoint.interfaceName, endpoint);
  for (const endpoint of endpoints) {
    if (endpoint.interfaceName !== undefined) continue;
    const expected = new Set(endpoint.addresses.map(formatAddress));
    for (const { name, addresses } of interfaces)
      if (name !== LOOPBACK && addresses.some((address) => expected.has(address))) put(name, endpoint);
  }
  const elsewhere = endpoints.find(({ interfaceName }) => interfaceName === ALL_INTERFACES);
  return { byInterface, elsewhere, podLinks };
}

/** Returns the endpoint that decides at the interface. */
export function hostEndpointAt(
  { byInterface, elsewhere, podLinks }: HostEndpointsInForce,
  name: string,
): PolicyEndpoint | undefined {
  return byInterface.get(name) ?? (name === LOOPBACK || isPodLink(podLinks, name) ? undefined : elsewhere);
}
