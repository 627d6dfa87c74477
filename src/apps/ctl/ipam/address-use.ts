import type { HostLink } from '../../../dataplane/kernel.ts';
import type { Allocation } from '../../../model/ip-block.ts';
import type { Node } from '../../../model/node.ts';
import { tunnelAddressesOf } from '../../../model/node-addresses.ts';
import { isTunnelAddress } from '../../../model/tunnel-attachment.ts';
import { isEndpointOf, type WorkloadEndpoint } from '../../../model/workload-endpoint.ts';
import { type Address, formatAddress } from '../../../net/address.ts';
import { isStaticPodUid } from '../../../model/pod.ts';
import { isPodThere } from './attachment-findings.ts';
import type { IpamState } from './finding.ts';

/** Records and kernel state that show whether an address is used. */
export interface UseScene extends Pick<IpamState, 'endpoints' | 'pods'> {
  readonly nodes: readonly Node[];
  /** Interfaces of this machine; undefined when its kernel is left out. */
  readonly links: readonly HostLink[] | undefined;
}

export interface AddressUse {
  /** Description of what uses the address; undefined when nothing does. */
  readonly by: string | undefined;
  /** The endpoint of the holder, if it has no other address. */
  readonly endpoint: WorkloadEndpoint | undefined;
}

/** Returns what uses an address besides the slot that names its holder. */
export function useOf({ endpoints, pods, nodes, links }: UseScene, address: Address, holder: Allocation): AddressUse {
  const text = formatAddress(address);
  if (isTunnelAddress(holder)) {
    const node = nodes.find(({ metadata }) => metadata.name === holder.node);
    const isUsed = node !== undefined && tunnelAddressesOf(node).some((each) => formatAddress(each) === text);
    return { by: isUsed ? `a tunnel of node ${holder.node}` : undefined, endpoint: undefined };
  }
  const endpoint = endpoints.find(({ value }) => isEndpointOf(value, holder))?.value;
  const addresses = endpoint?.spec.ipNetworks.map((network) => network.split('/')[0]) ?? [];
  const link = links?.find(({ owner }) => owner?.containerId === holder.containerId && owner.ifName === holder.ifName);
  const by =
    endpoint !== undefined && addresses.includes(text)
      ? `endpoint ${endpoint.metadata.namespace ?? 'default'}/${endpoint.metadata.name}`
      : link !== undefined
        ? `interface ${link.name} of this machine`
        : isPodThere({ pods }, holder)
          ? `pod ${holder.namespace ?? ''}/${holder.pod ?? ''}, which ${isStaticPodUid(holder.podUid) ? 'is static' : 'exists'},`
          : undefined;
  const isItsOnly = addresses.length > 0 && addresses.every((each) => each === text);
  return { by, endpoint: isItsOnly ? endpoint : undefined };
}
