import { ALL_INTERFACES } from '../../../model/host-endpoint.ts';
import { protocolName } from '../../../model/protocol.ts';
import type { Labels } from '../../../model/selector.ts';
import { formatAddress } from '../../../net/address.ts';
import { formatCidr } from '../../../net/cidr.ts';
import { hostEndpointsOf } from '../../../policy/host-interfaces.ts';
import { type OpenPort, type OpenPorts } from '../../../policy/open-ports.ts';
import { hasDefault, type PacketPath, policiesOn } from '../../../policy/packet-path.ts';
import type { PolicyView } from '../../../policy/policy-view.ts';
import type { PolicyDirection, PolicyEndpoint } from '../../../policy/resolved-policy.ts';
import {
  type AppliedPolicy,
  type AppliedProfile,
  explainProfile,
  explainTiers,
  sortedLabels,
} from './explain-endpoint.ts';

/** Policies that decide about packets on one path, in order. */
interface AppliedOnPath {
  readonly path: PacketPath;
  readonly policies: readonly AppliedPolicy[];
  /** Fate of packets that no rule of the policies matches. */
  readonly otherwise: 'denied' | 'profiles decide' | 'pass' | 'go on';
}

interface AppliedAtHost {
  /** Traffic that passes before all policies, such as `TCP port 22 of 192.0.2.0/24 (failsafe)`. */
  readonly open: readonly string[];
  /** In the order in which a packet meets them: it meets one of the last two. */
  readonly paths: readonly AppliedOnPath[];
}

/** A host endpoint, as policies see it. */
export interface ExplainedHost {
  readonly hostEndpoint: string;
  readonly node: string;
  /** Where it decides, unless one before it does. */
  readonly interfaces: string;
  readonly addresses: readonly string[];
  readonly labels: Labels;
  readonly ingress: AppliedAtHost;
  readonly egress: AppliedAtHost;
  readonly profiles: readonly AppliedProfile[];
}

const PATHS: Readonly<Record<PolicyDirection, readonly PacketPath[]>> = {
  ingress: ['untracked', 'preDNAT', 'local', 'forwarded'],
  egress: ['untracked', 'local', 'forwarded'],
};

/** Returns what applies to each host endpoint of the node; those with the name of an interface first, then by precedence. */
export function explainHosts(view: PolicyView, node: string, open: OpenPorts): readonly ExplainedHost[] {
  const rank = ({ interfaceName }: PolicyEndpoint): number =>
    interfaceName === undefined ? 1 : interfaceName === ALL_INTERFACES ? 2 : 0;
  return hostEndpointsOf(view, node)
    .toSorted((a, b) => rank(a) - rank(b))
    .map((endpoint) => explainHost(view, endpoint, open));
}

function explainHost(view: PolicyView, endpoint: PolicyEndpoint, open: OpenPorts): ExplainedHost {
  const { shown, node, addresses, labels, profiles } = endpoint;
  const appliedIn = (direction: PolicyDirection): AppliedAtHost => ({
    open: open[direction].map((port) => describeOpen(port, direction)),
    paths: PATHS[direction].map((path) => appliedOn(view, { endpoint, direction, path })),
  });
  return {
    hostEndpoint: shown,
    node,
    interfaces: interfacesOf(endpoint),
    addresses: addresses.map(formatAddress),
    labels: sortedLabels(labels),
    ingress: appliedIn('ingress'),
    egress: appliedIn('egress'),
    profiles: profiles.map((name) => explainProfile(view, name)),
  };
}

function interfacesOf({ interfaceName }: PolicyEndpoint): string {
  if (interfaceName === ALL_INTERFACES) return 'all other interfaces';
  return interfaceName === undefined ? 'interfaces with one of its addresses' : `interface ${interfaceName}`;
}

function appliedOn(
  view: PolicyView,
  at: { readonly endpoint: PolicyEndpoint; readonly direction: PolicyDirection; readonly path: PacketPath },
): AppliedOnPath {
  const { direction, path } = at;
  const { policies, isDenied } = explainTiers(view, direction, (tier) => policiesOn(view, { ...at, tier }));
  const undecided = path === 'local' ? 'profiles decide' : path === 'forwarded' ? 'pass' : 'go on';
  return { path, policies, otherwise: hasDefault(path) && isDenied ? 'denied' : undecided };
}

function describeOpen({ kind, protocol, port, net }: OpenPort, direction: PolicyDirection): string {
  const what = port === undefined ? protocolName(protocol) : `${protocolName(protocol)} port ${String(port)}`;
  const whose = net === undefined ? '' : ` ${direction === 'ingress' ? 'from' : 'to'} ${formatCidr(net)}`;
  return `${what}${whose} (${kind})`;
}
