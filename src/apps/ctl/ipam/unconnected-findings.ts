import { describeUnconnected, UNCONNECTED_REMEDY } from '../../../install/host/unconnected-pods.ts';
import { visibleText } from '../../../base/visible-text.ts';
import type { WorkloadEndpoint } from '../../../model/workload-endpoint.ts';
import { holderOf } from '../../../model/ip-block.ts';
import { type Address, formatAddress } from '../../../net/address.ts';
import { cidrContains, parseCidr } from '../../../net/cidr.ts';
import { isPodThere, isServedHere } from './attachment-findings.ts';
import { type IpamFinding, ipamFinding, type IpamState } from './finding.ts';

/**
 * Finds pods that run on this machine without an interface of netplug: their namespace exists and their runtime recorded one, or
 * their kubelet reports an address of a pool to which no interface leads.
 */
export function unconnectedFindings(state: IpamState): readonly IpamFinding[] {
  const { local, pods } = state;
  if (local === undefined) return [];
  const recorded = local.unconnected.filter((each) => {
    const [namespace = '', pod = ''] = each.pod?.split('/') ?? [];
    return (
      each.pod === undefined ||
      pods === undefined ||
      isPodThere(state, { namespace, pod, ...(each.podUid === undefined ? {} : { podUid: each.podUid }) })
    );
  });
  const known = new Set(recorded.map(({ pod }) => pod));
  const found = [
    ...recorded.map((each) => [each.pod ?? each.containerId, describeUnconnected(each)] as const),
    ...local.running.flatMap((pod) => {
      const name = nameOf(pod);
      const lost = unlinked(state, pod);
      if (lost.length === 0 || known.has(name)) return [];
      const text = `pod "${name}" runs here with ${lost.join(' and ')}, to which no interface of this node leads`;
      return [[name, visibleText(text)] as const];
    }),
  ];
  return found.map(([subject, text]) =>
    ipamFinding('pod-without-interface', { subject, found: text, remedy: UNCONNECTED_REMEDY }),
  );
}

/** The addresses of a pod in pools of netplug; none when an interface leads to one of them, or another main plugin connects it. */
function unlinked(state: IpamState, { spec }: WorkloadEndpoint): readonly string[] {
  const { local, pools } = state;
  const cidrs = pools.map((pool) => parseCidr(pool.spec.cidr));
  const own = spec.ipNetworks
    .map(parseCidr)
    .filter(({ base, prefixBits }) => cidrs.some((cidr) => cidrContains(cidr, { base, prefixBits })));
  const texts = own.map(({ base }) => formatAddress(base));
  const isLinked = texts.some((text) => local?.used.has(text) === true);
  return isLinked || !own.some(({ base }) => isConnectedHere(state, base)) ? [] : texts;
}

/**
 * Whether netplug, on this machine, connects the network whose pod holds the address. When the record of the address is gone, its
 * network is not known, and any network that netplug connects here may be it.
 */
function isConnectedHere({ blocks, endpoints, local }: IpamState, address: Address): boolean {
  const network = blocks.map((block) => holderOf(block, address)).find((holder) => holder !== undefined)?.network;
  return (
    isServedHere(local, network) ||
    endpoints.some(
      ({ value: { spec } }) =>
        local?.nodes.has(spec.node) === true &&
        spec.interfaceName !== '' &&
        (network === undefined || spec.network === network),
    )
  );
}

function nameOf({ metadata, spec }: WorkloadEndpoint): string {
  return `${metadata.namespace ?? 'default'}/${spec.pod ?? ''}`;
}
