import type { IpPool } from '../../../model/ip-pool.ts';
import type { Node } from '../../../model/node.ts';
import { hostAddressesOf } from '../../../model/node-addresses.ts';
import { type Address, formatAddress, sameAddress } from '../../../net/address.ts';
import { cidrContains, parseCidr } from '../../../net/cidr.ts';
import type { ConnectionEnd } from '../../../policy/evaluate.ts';
import { hostEndpointAt, hostEndpointsInForce, hostEndpointsOf } from '../../../policy/host-interfaces.ts';
import type { PolicyView } from '../../../policy/policy-view.ts';
import type { PolicyEndpoint } from '../../../policy/resolved-policy.ts';
import type { FloatingAddress } from '../../../routing/nat-floating.ts';
import { endsOf, tunnelAddressOf } from '../../../routing/node-ends.ts';
import { tunnelTo } from '../../../routing/tunnel-to.ts';

/** What decides which way packets take, and which addresses they have on it. */
export interface AddressPlan {
  readonly view: PolicyView;
  readonly nodes: readonly Node[];
  readonly pools: readonly IpPool[];
  /** Of all pods. */
  readonly floating: readonly FloatingAddress[];
}

/** One place where packets to a destination end. */
export interface PacketTarget {
  readonly end: ConnectionEnd;
  /** Set where the client addresses something else. */
  readonly translation?: Translation;
}

/** Translation of a destination: of a Service by kube-proxy, of a floating IP by the node of its pod. */
export interface Translation {
  readonly address: Address;
  /** Undefined for any port. */
  readonly port: number | undefined;
  /** Port behind it. */
  readonly targetPort: number | undefined;
  /** The node that translates; undefined where it is not known. */
  readonly node: string | undefined;
  /** Packets leave that node with its own address as source. */
  readonly isMasqueraded: boolean;
  /** What is translated, such as `Service shop/db`. */
  readonly of: string;
}

/** Addresses of a packet on one node. */
export interface PacketEnds {
  readonly source: Address;
  readonly destination: Address;
  readonly port: number | undefined;
}

/** The first packet of a connection on its way: where its addresses differ, with the reasons. */
export interface PacketWay {
  readonly source: ConnectionEnd;
  readonly destination: ConnectionEnd;
  /** The device of the tunnel on the way; undefined without one. In a tunnel, host endpoints of other interfaces do not see packets. */
  readonly tunnel?: string | undefined;
  /** The node between those of the ends that translates it, and passes it on; undefined without one. */
  readonly via?: string | undefined;
  /** The packet never leaves the pod that sends it. */
  readonly isWithinPod: boolean;
  /** On the node of the source, after translation of the destination there. */
  readonly here: PacketEnds;
  /** Before that, when it differs. */
  readonly sent?: PacketEnds | undefined;
  /** On the node of the destination, when it differs there. */
  readonly there?: { readonly ends: PacketEnds; readonly sent?: PacketEnds | undefined } | undefined;
  /** A sentence for each difference. */
  readonly notes: readonly string[];
}

/** Follows a packet from the source to where it ends. `port` is what the client asks for. */
export function followPacket(
  plan: AddressPlan,
  source: ConnectionEnd,
  { target: { end, translation }, port }: { readonly target: PacketTarget; readonly port: number | undefined },
): PacketWay {
  const [from, to] = [nodeOf(source), nodeOf(end)];
  const asked = { destination: translation?.address ?? end.address, port };
  const reached = { destination: end.address, port: translation?.targetPort ?? port };
  if (translation === undefined && isSamePod(source, end)) {
    const notes = ['the packet never leaves the pod: no policy sees it'];
    return { source, destination: end, isWithinPod: true, here: { source: source.address, ...reached }, notes };
  }
  // Where the node that translates is not known, it may be that of the destination.
  const at = translation === undefined ? from : (translation.node ?? to);
  const isHere = at === from;
  const between = isHere || at === to ? undefined : { address: asked.destination, host: at };
  const first = legBetween(plan, { source, end: between ?? end, to: isHere ? end.address : asked.destination });
  const last = between === undefined ? first : legBetween(plan, { source: between, end, to: end.address });
  const sent = isHere ? translation : undefined;
  // A process has the address of the tunnel for what it sends into it, unless a translation leads there.
  const own =
    source.host === undefined || sent !== undefined ? source.address : (first.tunnelAddress ?? source.address);
  const here = { source: own, ...(isHere ? reached : asked) };
  const left = leavingSource(plan, { source, here, leg: first, isMasqueraded: sent?.isMasqueraded === true });
  const arrived =
    (between === undefined ? undefined : passedSource(plan, { at, leg: last, left, translation })) ?? left;
  const staysOnNode = from !== undefined && from === to && between === undefined;
  const isSentThere = !isHere && between === undefined;
  const there = {
    ends: { source: arrived.address, ...reached },
    ...(isSentThere ? { sent: { source: arrived.address, ...asked } } : {}),
  };
  return {
    source: { ...source, address: own, ...first.leaving },
    destination: { ...end, ...last.entering },
    tunnel: last.tunnel,
    via: between?.host,
    isWithinPod: false,
    here,
    ...(sent === undefined ? {} : { sent: { source: own, ...asked } }),
    ...(to === undefined || staysOnNode ? {} : { there }),
    notes: [
      ...translationNotes({ source, end, translation, reached, isHere }),
      ...(sameAddress(own, source.address) ? [] : [tunnelNote(from, own, first)]),
      ...(staysOnNode ? [] : [left, ...(arrived === left ? [] : [arrived])].flatMap(({ why }) => why ?? [])),
      ...(between === undefined ? [] : passedNotes(plan, at)),
      ...(staysOnNode || to === undefined ? [] : unknownMasqueradeNotes(plan, { source, sent, to })),
    ],
  };
}

function isSamePod(source: ConnectionEnd, end: ConnectionEnd): boolean {
  return source.pod !== undefined && source.pod.key === end.pod?.key;
}

/** The way between two nodes. */
interface Leg {
  readonly tunnel: string | undefined;
  /** Of the tunnel, on the node that sends into it. */
  readonly tunnelAddress: Address | undefined;
  readonly leaving: Pick<ConnectionEnd, 'hostEndpoint'>;
  readonly entering: Pick<ConnectionEnd, 'hostEndpoint'>;
}

/** Puts a tunnel between two nodes when `to` is in a pool with such a mode. */
function legBetween(
  { view, nodes, pools }: AddressPlan,
  { source, end, to: address }: { readonly source: ConnectionEnd; readonly end: ConnectionEnd; readonly to: Address },
): Leg {
  const [from, to] = [source, end].map((each) => nodes.find(({ metadata }) => metadata.name === nodeOf(each)));
  const tunnel =
    from === undefined || to === undefined || from === to ? undefined : tunnelTo(address, { from, to, pools });
  if (from === undefined || to === undefined || tunnel === undefined)
    return { tunnel: undefined, tunnelAddress: undefined, leaving: {}, entering: {} };
  // An endpoint that expects the address of a tunnel does not decide there.
  const at = ({ metadata }: Node): PolicyEndpoint | undefined =>
    hostEndpointAt(hostEndpointsInForce(hostEndpointsOf(view, metadata.name), []), tunnel);
  return {
    tunnel,
    tunnelAddress: tunnelAddressOf(from, tunnel),
    leaving: { hostEndpoint: at(from) },
    entering: { hostEndpoint: at(to) },
  };
}

interface Sender {
  readonly address: Address;
  /** Reason why it differs from the one before. */
  readonly why?: string | undefined;
}

/** Returns the source with which a packet leaves the node of its source. */
function leavingSource(
  plan: AddressPlan,
  {
    source,
    here,
    leg,
    isMasqueraded,
  }: { readonly source: ConnectionEnd; readonly here: PacketEnds; readonly leg: Leg; readonly isMasqueraded: boolean },
): Sender {
  const unchanged = { address: here.source };
  const { pod, host } = source;
  if (host !== undefined) {
    const address = leg.tunnelAddress ?? here.source;
    return { address, ...(sameAddress(address, here.source) ? {} : { why: tunnelNote(host, address, leg) }) };
  }
  if (pod === undefined) return unchanged;
  const own = nodeAddress(plan, pod.node, { leg, family: here.source.family });
  if (isMasqueraded) return own === undefined ? unchanged : { address: own, why: masqueradeNote(pod.node, own) };
  const { family } = here.destination;
  const isInside = (address: Address, { spec }: IpPool): boolean => cidrContains(parseCidr(spec.cidr), address);
  if (plan.pools.every(({ spec }) => parseCidr(spec.cidr).base.family !== family)) return unchanged;
  if (plan.pools.some((pool) => isInside(here.destination, pool))) return unchanged;
  const floating = plan.floating.find(({ internal }) => sameAddress(internal, here.source));
  if (floating !== undefined) {
    const why = `it leaves node ${pod.node} from ${formatAddress(floating.external)}, the floating IP of the pod`;
    return { address: floating.external, why };
  }
  const pool = plan.pools.find((each) => each.spec.natOutgoing && isInside(here.source, each));
  if (pool === undefined || own === undefined) return unchanged;
  const why = `it leaves node ${pod.node} from ${formatAddress(own)}: IPPool ${pool.metadata.name} has natOutgoing`;
  return { address: own, why };
}

/** Returns the source with which a packet leaves a node between those of its ends. */
function passedSource(
  plan: AddressPlan,
  {
    at = '',
    leg,
    left,
    translation,
  }: {
    readonly at: string | undefined;
    readonly leg: Leg;
    readonly left: Sender;
    readonly translation: Translation | undefined;
  },
): Sender | undefined {
  const own = nodeAddress(plan, at, { leg, family: left.address.family });
  if (translation?.isMasqueraded !== true || own === undefined) return undefined;
  return { address: own, why: masqueradeNote(at, own) };
}

/** Returns the address that masquerading takes: that of the interface by which packets leave the node. */
function nodeAddress(
  { nodes }: AddressPlan,
  name: string,
  { leg, family }: { readonly leg: Leg; readonly family: Address['family'] },
): Address | undefined {
  const node = nodes.find(({ metadata }) => metadata.name === name);
  if (node === undefined) return undefined;
  return (
    leg.tunnelAddress ??
    endsOf(node).addresses.get(family) ??
    hostAddressesOf(node).find((address) => address.family === family)
  );
}

function passedNotes({ view }: AddressPlan, node = ''): readonly string[] {
  if (hostEndpointsOf(view, node).length === 0) return [];
  return [`HostEndpoints of node ${node}, which passes it on, are not considered`];
}

/** kube-proxy also masquerades for pods that its configuration does not count as pods of the cluster: one range for each IP family. */
function unknownMasqueradeNotes(
  { pools }: AddressPlan,
  {
    source: { address, pod },
    sent,
    to,
  }: { readonly source: ConnectionEnd; readonly sent: Translation | undefined; readonly to: string },
): readonly string[] {
  if (pod === undefined || sent === undefined || sent.isMasqueraded) return [];
  const ranges = pools.map(({ spec }) => parseCidr(spec.cidr)).filter(({ base }) => base.family === address.family);
  const [only, ...others] = ranges;
  if (only === undefined || (others.length === 0 && cidrContains(only, address))) return [];
  return [
    `not known is whether ${formatAddress(address)} is in the --cluster-cidr of kube-proxy: if not, node ${to} sees the address of node ${pod.node}`,
  ];
}

function masqueradeNote(node: string, address: Address): string {
  return `it leaves node ${node} from ${formatAddress(address)}: kube-proxy masquerades it there`;
}

function tunnelNote(node: string | undefined, address: Address, { tunnel }: Leg): string {
  return `node ${node ?? ''} sends it from ${formatAddress(address)}, the address of its tunnel ${tunnel ?? ''}, which policies take for the node`;
}

function translationNotes({
  source,
  end,
  translation,
  reached,
  isHere,
}: {
  readonly source: ConnectionEnd;
  readonly end: ConnectionEnd;
  readonly translation: Translation | undefined;
  readonly reached: Omit<PacketEnds, 'source'>;
  readonly isHere: boolean;
}): readonly string[] {
  if (translation === undefined) return [];
  const { of, node, isMasqueraded } = translation;
  const port = reached.port === undefined ? '' : ` port ${String(reached.port)}`;
  const where = node === undefined ? '' : ` on node ${node}`;
  return [
    `${of} (${formatAddress(translation.address)}) is translated to ${formatAddress(reached.destination)}${port}${where}`,
    ...(isSamePod(source, end) && isHere
      ? ['it comes back to the pod that sends it: policies see the address of the pod at both ends']
      : []),
    ...(node === undefined && isMasqueraded
      ? [
          'the node that translates is not known: from another one than that of the backend, it comes from the address of that node',
        ]
      : []),
  ];
}

function nodeOf({ pod, host }: ConnectionEnd): string | undefined {
  return pod?.node ?? host;
}
