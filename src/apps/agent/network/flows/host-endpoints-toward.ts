import type { HostNetwork } from '../../../../dataplane/host-network.ts';
import { type Address, formatAddress } from '../../../../net/address.ts';
import { hostEndpointAt, hostEndpointsInForce, hostEndpointsOf, LOOPBACK } from '../../../../policy/host-interfaces.ts';
import type { PodLinkNames } from '../../../../policy/pod-link-names.ts';
import type { PolicyView } from '../../../../policy/policy-view.ts';
import type { PolicyEndpoint } from '../../../../policy/resolved-policy.ts';
import type { HostLinks } from '../../../../policy/ruleset/policy-ruleset.ts';
import { HostPaths } from '../host/host-paths.ts';

interface HostFacts {
  readonly view: Pick<PolicyView, 'hostEndpoints'>;
  readonly node: string;
  readonly links: HostLinks;
  /** The pod links of netplug alone unless set. */
  readonly podLinks?: PodLinkNames;
  /** Until the settings of the agent have been read, host endpoints decide nothing. */
  readonly areSettingsKnown: boolean;
  readonly host: Pick<HostNetwork, 'listPaths' | 'findSourceChecks'>;
}

/** Host endpoint that decides at an interface; undefined without one. */
export type AtInterface = PolicyEndpoint | undefined;

/** A packet between the node and a remote address. */
export interface Crossing {
  readonly remote: Address;
  /** The address of the node by which the packet was sent, or to which it was sent before translation, if it is one. */
  readonly own: Address | undefined;
  readonly isArriving: boolean;
}

/** Returns what may decide about a packet that crosses an interface of the node, at least one. */
export type HostEndpointsToward = (crossing: Crossing) => readonly AtInterface[];

/**
 * The kernel does not record by which interface the first packet of a flow came or left. Packets may leave by each interface by
 * which some routing table leads to the remote address, and by that of the own address, to which a process may be bound. They
 * may arrive by the same; those that are for no address of one interface may also arrive by every uplink, because routes of
 * other machines need not be the reverse of those of the node.
 */
export async function hostEndpointsToward({
  view,
  node,
  links,
  podLinks,
  areSettingsKnown,
  host,
}: HostFacts): Promise<HostEndpointsToward> {
  if (!areSettingsKnown) return () => [undefined];
  const inForce = hostEndpointsInForce(hostEndpointsOf(view, node), links.interfaces, podLinks);
  if (inForce.byInterface.size === 0) return () => [inForce.elsewhere];
  const paths = new HostPaths(await host.listPaths());
  const usable = links.interfaces.filter(({ name }) => name !== LOOPBACK && paths.devices.has(name));
  const owners = Map.groupBy(
    usable.flatMap(({ name, addresses }) => addresses.map((address) => ({ name, address }))),
    ({ address }) => address,
  );
  const uplinks = usable.map(({ name }) => name).filter((name) => paths.uplinks.has(name));
  const checked = host.findSourceChecks(usable.map(({ name }) => name));
  return ({ remote, own, isArriving }) => {
    const toward = paths.toward(remote);
    if (toward.length === 0) return [undefined];
    const owned = own === undefined ? [] : (owners.get(formatAddress(own)) ?? []).map(({ name }) => name);
    const others = isArriving && owned.length === 0 ? uplinks : owned;
    // A link with strict reverse path filtering drops IPv4 packets of sources that are not reached through it.
    const possible = others.filter((name) => !isArriving || remote.family === 6 || !checked.has(name));
    const devices = [...toward.flatMap((path) => path.devices), ...possible];
    return [...new Set(devices.map((device) => hostEndpointAt(inForce, device)))];
  };
}
