import { never } from '../../../base/errors.ts';
import { protocolNumber } from '../../../model/protocol.ts';
import { type Address, formatAddress, sameAddress } from '../../../net/address.ts';
import { noProfileReason, tierDefaultReason } from '../../../policy/describe-decision.ts';
import {
  type ConnectionEnd,
  type ConnectionVerdict,
  type ConsideredPolicy,
  type EndVerdict,
  evaluateConnection,
  type HostVerdict,
  type PolicyVerdict,
  type SeenPacket,
} from '../../../policy/evaluate.ts';
import { echoRequest, type Packet, ruleMatches } from '../../../policy/match-packet.ts';
import type { PacketContent } from '../../../policy/packet-content.ts';
import type { OpenMatch, OpenPorts } from '../../../policy/open-ports.ts';
import type { PacketPath } from '../../../policy/packet-path.ts';
import type { PolicyView } from '../../../policy/policy-view.ts';
import type { PolicyDirection, PolicyRule } from '../../../policy/resolved-policy.ts';
import type { NamedDestination, NamedEnd, Targets } from './connection-ends.ts';
import { type AddressPlan, followPacket, type PacketEnds, type PacketWay } from './packet-way.ts';
import type { ExplainedProbe } from './probe-connection.ts';
import { type ShownRule, showRule } from './shown-rule.ts';

export type AskedProtocol = 'TCP' | 'UDP' | 'SCTP' | 'ICMP';

export interface AskedRequest {
  readonly method: string;
  readonly path: string;
}

export interface ConnectionQuestion {
  readonly plan: AddressPlan;
  readonly from: NamedEnd;
  readonly to: NamedDestination;
  readonly protocol: AskedProtocol;
  readonly port: number | undefined;
  /** What the connection carries, when it is asked about. */
  readonly content?: PacketContent;
  /** The request, as it was asked about. */
  readonly request?: AskedRequest;
  /** Whether pods of the node reach the node itself when their policies allow it. */
  readonly endpointToHost: (node: string) => 'Accept' | 'Drop';
  /** Ports that no policy of a host endpoint of the node closes; none unless set. */
  readonly openPorts?: (node: string) => OpenPorts;
}

interface ExplainedPolicy {
  readonly policy: string;
  readonly isStaged: boolean;
  /** The rule that matches; absent when none does. */
  readonly rule?: ShownRule;
  /** The first that would match if the request were another, when none does. */
  readonly aboutOtherRequests?: ShownRule;
  /** Places of matching `Log` rules before it. */
  readonly logs: readonly string[];
}

/** Verdict of the policies of one end. */
export interface ExplainedEnd {
  readonly pod: string;
  readonly node: string;
  readonly verdict: PolicyVerdict;
  /** The policy or profile whose rule decides. */
  readonly decidedBy?: string;
  readonly rule?: ShownRule;
  readonly reason: string;
  /** Policies that apply, in order, up to the one that decides. */
  readonly considered: readonly ExplainedPolicy[];
}

/** Verdict of a host endpoint about a packet that passes its interface. */
export interface ExplainedCrossing {
  readonly hostEndpoint: string;
  readonly node: string;
  readonly verdict: PolicyVerdict;
  /** In the order in which the packet meets them; those without a policy are left out. */
  readonly paths: readonly (Omit<ExplainedEnd, 'pod' | 'node'> & { readonly path: PacketPath })[];
}

/** The connection between one address of each end. */
export interface ExplainedConnection {
  readonly source: string;
  readonly destination: string;
  /** Source of the packet on the node of the destination, when it differs there. */
  readonly arrivesFrom?: string;
  /** What the source addresses, when that is translated. */
  readonly sentTo?: string;
  readonly verdict: PolicyVerdict;
  /** Absent when no pod sends. */
  readonly egress?: ExplainedEnd;
  /** Absent when no pod receives, or the pod's own node sends. */
  readonly ingress?: ExplainedEnd;
  /** Where the packet leaves the node of its source. Absent without a host endpoint there. */
  readonly leaving?: ExplainedCrossing;
  /** Where it reaches the node of its destination. */
  readonly entering?: ExplainedCrossing;
  /** Outcome of a packet in the kernel, when one was sent. */
  readonly probe?: ExplainedProbe;
  readonly notes: readonly string[];
}

export interface ExplainedConnections {
  readonly from: string;
  readonly to: string;
  readonly protocol: AskedProtocol;
  readonly port?: number;
  readonly request?: AskedRequest;
  /**
   * `deny` when one of the connections is denied; to a Service, when all are. `some`: a Service has backends with either verdict.
   * `none`: no backend is reached.
   */
  readonly verdict: PolicyVerdict | 'some' | 'none';
  /** One for each pair of addresses of the same IP family; to a Service, for each backend. */
  readonly connections: readonly ExplainedConnection[];
  readonly notes: readonly string[];
}

const OPEN: Readonly<Record<OpenMatch['kind'], string>> = {
  failsafe: 'a failsafe port of the AgentConfiguration: no policy of a host endpoint closes it',
  datastore: 'a server of the datastore: no policy of a host endpoint cuts the agent off from it',
  tunnel: 'a tunnel between nodes: policies see the packets inside',
};

/** Returns what policies say of connections between two ends, and which rules say so. */
export function explainConnections(question: ConnectionQuestion): ExplainedConnections {
  const { plan, from, to, protocol, port, request } = question;
  const connections = judgeConnections(question).map((judged) => explainOne(plan.view, judged));
  const reached = from.addresses.map((source) => targetsOf(to, source));
  const isService = to.kind === 'service';
  return {
    from: from.name,
    to: to.name,
    protocol,
    ...(port === undefined ? {} : { port }),
    ...(request === undefined ? {} : { request }),
    verdict: verdictOf(connections, isService),
    connections,
    notes: [
      ...new Set([
        ...from.notes,
        ...to.notes,
        ...reached.flatMap(({ notes }) => notes),
        // What one family of addresses lacks, another may have.
        ...(connections.length === 0 ? reached.flatMap(({ refusal }) => refusal ?? []) : []),
      ]),
      ...(port === undefined && protocol !== 'ICMP' ? ['without --port, rules that name ports do not match'] : []),
    ],
  };
}

function verdictOf(connections: readonly ExplainedConnection[], isService: boolean): ExplainedConnections['verdict'] {
  const denied = connections.filter(({ verdict }) => verdict === 'deny').length;
  if (!isService) return denied > 0 ? 'deny' : 'allow';
  if (connections.length === 0) return 'none';
  return denied === 0 ? 'allow' : denied === connections.length ? 'deny' : 'some';
}

function targetsOf({ addresses, targetsFrom }: NamedDestination, source: ConnectionEnd): Targets {
  return targetsFrom?.(source) ?? { targets: addresses.map((end) => ({ end })), notes: [] };
}

/** One way of a packet, and what policies say of it. */
export interface JudgedConnection extends Omit<PacketWay, 'here' | 'sent' | 'there'> {
  /** On the node of the source. */
  readonly leaving: SeenPacket;
  /** On the node of the destination. */
  readonly arriving: SeenPacket;
  readonly judged: ConnectionVerdict;
}

/** Returns one for each way of the same IP family, judged by the first packet; with ICMP, an echo request. */
export function judgeConnections(question: ConnectionQuestion): readonly JudgedConnection[] {
  const { plan, from, to, protocol, port, content, endpointToHost, openPorts } = question;
  const withOpen = (end: ConnectionEnd): ConnectionEnd => {
    const own = end.pod?.node ?? end.host;
    return own === undefined || openPorts === undefined ? end : { ...end, open: openPorts(own) };
  };
  const packetOf = ({ port: destinationPort, ...ends }: PacketEnds): Packet => {
    const first =
      protocol === 'ICMP' ? echoRequest(ends) : { ...ends, protocol: protocolNumber(protocol), destinationPort };
    return { ...first, ...(content === undefined ? {} : { content }) };
  };
  const seen = (ends: PacketEnds, sent: PacketEnds | undefined): SeenPacket => ({
    packet: packetOf(ends),
    ...(sent === undefined ? {} : { sent: packetOf(sent) }),
  });
  return from.addresses.flatMap((source) =>
    targetsOf(to, source)
      .targets.filter(({ end }) => end.address.family === source.address.family)
      .map((target): JudgedConnection => {
        const { here, sent, there, ...way } = followPacket(plan, source, { target, port });
        const leaving = seen(here, sent);
        const arriving = there === undefined ? leaving : seen(there.ends, there.sent);
        const node = source.pod?.node;
        const judged = way.isWithinPod
          ? WITHIN_POD
          : evaluateConnection(plan.view, {
              source: withOpen(way.source),
              destination: withOpen(way.destination),
              ...leaving,
              ...(there === undefined ? {} : { arriving }),
              via: way.via,
              endpointToHost: node === undefined ? 'Accept' : endpointToHost(node),
            });
        return { ...way, leaving, arriving, judged };
      }),
  );
}

const WITHIN_POD: ConnectionVerdict = {
  verdict: 'allow',
  source: undefined,
  destination: undefined,
  leaving: undefined,
  entering: undefined,
  isRefusedByHost: false,
};

/** Returns the packet as the policies of an end see it on a path. */
export function packetAt(
  { leaving, arriving }: Pick<JudgedConnection, 'leaving' | 'arriving'>,
  { direction, path = 'local' }: { readonly direction: PolicyDirection; readonly path?: PacketPath },
): Packet {
  const { packet, sent = packet } = direction === 'egress' ? leaving : arriving;
  return path === 'untracked' || path === 'preDNAT' ? sent : packet;
}

function explainOne(view: PolicyView, connection: JudgedConnection): ExplainedConnection {
  const { source, destination, tunnel, via, leaving, arriving, judged, isWithinPod, notes } = connection;
  const { verdict, isRefusedByHost } = judged;
  const node = source.pod?.node;
  const isFromOwnNode = source.host !== undefined && source.host === destination.pod?.node && via === undefined;
  const from = formatAddress(leaving.packet.source);
  const arrivesFrom = formatAddress(arriving.packet.source);
  // A node between those of the ends translates what its source sends as it is.
  const isPassed = !sameAddress(leaving.packet.destination, arriving.packet.destination);
  const sent = leaving.sent ?? arriving.sent ?? (isPassed ? leaving.packet : undefined);
  const scene = { view, connection };
  return {
    source: from,
    destination: formatAddress(destination.address),
    ...(from === arrivesFrom ? {} : { arrivesFrom }),
    ...(sent === undefined ? {} : { sentTo: addressedText(sent.destination, sent.destinationPort) }),
    verdict,
    ...(judged.source === undefined ? {} : { egress: explainEnd(scene, judged.source) }),
    ...(judged.destination === undefined ? {} : { ingress: explainEnd(scene, judged.destination) }),
    ...(judged.leaving === undefined ? {} : { leaving: explainCrossing(scene, judged.leaving) }),
    ...(judged.entering === undefined ? {} : { entering: explainCrossing(scene, judged.entering) }),
    notes: [
      ...notes,
      ...(tunnel === undefined
        ? []
        : [
            `packets pass the tunnel ${tunnel}: HostEndpoints of other interfaces see only the packets that carry them`,
          ]),
      ...requestNotes(arriving.packet, judged.destination),
      ...(isFromOwnNode ? ['a node always reaches its own pods, whatever their policies say'] : []),
      ...(isRefusedByHost
        ? [
            `the AgentConfiguration of node ${node ?? ''} drops packets of pods to their own node (defaultEndpointToHostAction)`,
          ]
        : []),
      ...(!isWithinPod &&
      source.pod === undefined &&
      destination.pod === undefined &&
      judged.leaving === undefined &&
      judged.entering === undefined
        ? ['no pod is an end: policies of pods do not apply']
        : []),
    ],
  };
}

function addressedText(address: Address, port: number | undefined): string {
  return `${formatAddress(address)}${port === undefined ? '' : ` port ${String(port)}`}`;
}

/** What the verdict does not say of rules about requests: a tool does not know what nodes have been shown. */
function requestNotes({ content }: Packet, ingress: EndVerdict | undefined): readonly string[] {
  if (ingress === undefined) return [];
  const { shown, node } = ingress.endpoint;
  const where = `where its sidecar guards the port: "netplugctl node status" on node ${node} shows it`;
  if (ingress.asks !== undefined)
    return [`some requests: the sidecar of ${shown} decides about each (--method, --path), ${where}`];
  const isCanonical = content?.kind !== 'request' || content.path !== undefined;
  return [
    ...(isCanonical
      ? []
      : ['the path is not canonical, and matches no paths of rules: servers read such paths differently']),
    ...(content?.kind === 'request' ? [`requests reach ${shown} by rules with http only ${where}`] : []),
  ];
}

interface Explaining {
  readonly view: PolicyView;
  readonly connection: JudgedConnection;
}

function explainEnd({ view, connection }: Explaining, judged: EndVerdict, path?: PacketPath): ExplainedEnd {
  const { endpoint, direction, verdict, considered } = judged;
  const at = { direction, ...(path === undefined ? {} : { path }) };
  const scene = { view, packet: packetAt(connection, at), direction };
  return {
    pod: endpoint.shown,
    node: endpoint.node,
    verdict,
    ...decidedBy(scene, judged),
    considered: considered.map((said) => explainPolicy(scene, said)),
  };
}

function explainCrossing(explaining: Explaining, { endpoint, verdict, paths }: HostVerdict): ExplainedCrossing {
  const met = paths.filter(({ end }, index) => index === paths.length - 1 || end.considered.length > 0);
  return {
    hostEndpoint: endpoint.shown,
    node: endpoint.node,
    verdict,
    paths: met.map(({ path, end }) => {
      const { pod: _pod, node: _node, ...said } = explainEnd(explaining, end, path);
      return { path, ...said };
    }),
  };
}

/** One end of a connection, and the packet that it judges. */
export interface Scene {
  readonly view: PolicyView;
  readonly packet: Packet;
  readonly direction: PolicyDirection;
}

/** Returns what decided at one end. */
export function decidedBy(
  scene: Scene,
  { endpoint, decision }: EndVerdict,
): Pick<ExplainedEnd, 'decidedBy' | 'rule' | 'reason'> {
  switch (decision.kind) {
    case 'rule': {
      const rule = shownRule(scene, rulesOfPolicy(scene, decision.policy), decision.index);
      return { decidedBy: decision.policy, rule, reason: `${decision.policy}, ${rule.place}: ${rule.text}` };
    }
    case 'profile rule': {
      const name = `Profile ${decision.profile}`;
      const rules = scene.view.profile(decision.profile)?.rules[scene.direction] ?? [];
      const rule = shownRule(scene, rules, decision.index);
      return { decidedBy: name, rule, reason: `no policy decides; ${name}, ${rule.place}: ${rule.text}` };
    }
    case 'tier default':
      return { reason: tierDefaultReason(decision.policies) };
    case 'no profile':
      return { reason: noProfileReason(endpoint.profiles) };
    case 'no policy':
      return { reason: 'no policy applies' };
    case 'neighbour discovery':
      return { reason: 'IPv6 needs the message: no policy sees it' };
    case 'open port':
      return { reason: OPEN[decision.open.kind] };
    default:
      return never(decision);
  }
}

function explainPolicy(scene: Scene, { policy, isStaged, action, index, logs }: ConsideredPolicy): ExplainedPolicy {
  const rules = rulesOfPolicy(scene, policy);
  const said = { policy, isStaged, logs: logs.map((each) => `${scene.direction}[${String(each)}]`) };
  if (action !== undefined && index !== undefined) return { ...said, rule: shownRule(scene, rules, index) };
  const other = ruleAboutOtherRequests(scene, rules);
  return { ...said, ...(other === undefined ? {} : { aboutOtherRequests: showRule(scene.direction, other) }) };
}

/** What a denied request was probably meant for. */
function ruleAboutOtherRequests({ view, packet }: Scene, rules: readonly PolicyRule[]): PolicyRule | undefined {
  if (packet.content?.kind !== 'request') return undefined;
  return rules.find(({ http, ...rest }) => http !== undefined && ruleMatches(view, rest, packet));
}

function rulesOfPolicy({ view, direction }: Scene, id: string): readonly PolicyRule[] {
  return view.tiers.flatMap(({ policies }) => policies.find((each) => each.id === id)?.rules[direction] ?? []);
}

/** Several resolved rules may come from one written rule: the one that matches is shown. */
function shownRule({ view, packet, direction }: Scene, rules: readonly PolicyRule[], index: number): ShownRule {
  const rule = rules.find((each) => each.index === index && each.action !== 'Log' && ruleMatches(view, each, packet));
  if (rule === undefined) throw new Error(`No rule ${String(index)} matches although it decided`);
  return showRule(direction, rule);
}
