import type { HostNetwork } from '../../../dataplane/host-network.ts';
import { type Address, formatAddress } from '../../../net/address.ts';
import { hostEndpointAt, hostEndpointsInForce, hostEndpointsOf } from '../../../policy/host-interfaces.ts';
import type { PolicyView } from '../../../policy/policy-view.ts';
import type { PolicyEndpoint } from '../../../policy/resolved-policy.ts';
import type { HostLinks } from '../../../policy/ruleset/policy-ruleset.ts';

interface HostFacts {
  readonly view: Pick<PolicyView, 'hostEndpoints'>;
  readonly node: string;
  readonly links: HostLinks;
  /** Until the settings of the agent have been read, host endpoints decide nothing. */
  readonly areSettingsKnown: boolean;
  readonly host: Pick<HostNetwork, 'lookUp'>;
}

/**
 * Returns the host endpoints of the interfaces by which the node reaches the addresses, by canonical text. The kernel does not
 * record by which interface a flow came: it counts as the one by which the node answers.
 */
export async function hostEndpointsToward(
  remotes: Iterable<Address>,
  { view, node, links, areSettingsKnown, host }: HostFacts,
): Promise<ReadonlyMap<string, PolicyEndpoint>> {
  if (!areSettingsKnown) return new Map();
  const inForce = hostEndpointsInForce(hostEndpointsOf(view, node), links.interfaces);
  const isSame = inForce.byInterface.size === 0;
  const found = new Map<string, PolicyEndpoint>();
  for (const remote of remotes) {
    const device = isSame ? undefined : (await host.lookUp(remote))?.device;
    const endpoint = isSame ? inForce.elsewhere : device === undefined ? undefined : hostEndpointAt(inForce, device);
    if (endpoint !== undefined) found.set(formatAddress(remote), endpoint);
  }
  return found;
}
