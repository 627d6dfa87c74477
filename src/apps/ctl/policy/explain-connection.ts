import { never } from '../../../base/errors.ts';
import { protocolNumber } from '../../../model/protocol.ts';
import { formatAddress } from '../../../net/address.ts';
import { noProfileReason, tierDefaultReason } from '../../../policy/describe-decision.ts';
import {
  type ConnectionEnd,
  type ConnectionVerdict,
  type ConsideredPolicy,
  type EndVerdict,
  evaluateConnection,
  type HostVerdict,
  type PolicyVerdict,
} from '../../../policy/evaluate.ts';
import { echoRequest, type Packet, ruleMatches } from '../../../policy/match-packet.ts';
import type { PacketContent } from '../../../policy/packet-content.ts';
import type { OpenMatch, OpenPorts } from '../../../policy/open-ports.ts';
import type { PacketPath } from '../../../policy/packet-path.ts';
import type { PolicyView } from '../../../policy/policy-view.ts';
import type { PolicyDirection, PolicyRule } from '../../../policy/resolved-policy.ts';
import type { NamedEnd, RoutedEnds } from './connection-ends.ts';
import type { ExplainedProbe } from './probe-connection.ts';
import { type ShownRule, showRule } from './shown-rule.ts';

export type AskedProtocol = 'TCP' | 'UDP' | 'SCTP' | 'ICMP';

export interface AskedRequest {
  readonly method: string;
  readonly path: string;
}

export interface ConnectionQuestion {
  readonly from: NamedEnd;
  readonly to: NamedEnd;
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
  /** Puts a tunnel between two ends; no packet passes one unless set. */
  readonly route?: (source: ConnectionEnd, destination: ConnectionEnd) => RoutedEnds;
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
  /** `deny` when one of the connections is denied. */
  readonly verdict: PolicyVerdict;
  /** One for each pair of addresses of the same IP family. */
  readonly connections: readonly ExplainedConnection[];
  readonly notes: readonly string[];
}

const OPEN: Readonly<Record<OpenMatch['kind'], string>> = {
  failsafe: 'a failsafe port of the AgentConfiguration: no policy of a host endpoint closes it',
  datastore: 'a server of the datastore: no policy of a host endpoint cuts the agent off from it',
  tunnel: 'a tunnel between nodes: policies see the packets inside',
};

/** Returns what policies say of connections between two ends, and which rules say so. */
export function explainConnections(view: PolicyView, question: ConnectionQuestion): ExplainedConnections {
  const { from, to, protocol, port, request } = question;
  const connections = judgeConnections(view, question).map((judged) => explainOne(view, judged));
  return {
    from: from.name,
    to: to.name,
    protocol,
    ...(port === undefined ? {} : { port }),
    ...(request === undefined ? {} : { request }),
    verdict: connections.some(({ verdict }) => verdict === 'deny') ? 'deny' : 'allow',
    connections,
    notes: [
      ...new Set([...from.notes, ...to.notes]),
      ...(port === undefined && protocol !== 'ICMP' ? ['without --port, rules that name ports do not match'] : []),
    ],
  };
}

/** The connection between one address of each end, and what policies say of it. */
export interface JudgedConnection extends RoutedEnds {
  readonly packet: Packet;
  readonly judged: ConnectionVerdict;
}

/** Returns one for each pair of addresses of the same IP family, judged by the first packet; with ICMP, an echo request. */
export function judgeConnections(
  view: PolicyView,
  { from, to, protocol, port, content, endpointToHost, openPorts, route }: ConnectionQuestion,
): readonly JudgedConnection[] {
  const withOpen = (end: ConnectionEnd): ConnectionEnd => {
    const own = end.pod?.node ?? end.host;
    return own === undefined || openPorts === undefined ? end : { ...end, open: openPorts(own) };
  };
  return from.addresses.flatMap((source) =>
    to.addresses
      .filter(({ address }) => address.family === source.address.family)
      .map((destination) => {
        const addresses = { source: source.address, destination: destination.address };
        const first =
          protocol === 'ICMP'
            ? echoRequest(addresses)
            : { ...addresses, protocol: protocolNumber(protocol), destinationPort: port };
        const packet = { ...first, ...(content === undefined ? {} : { content }) };
        const node = source.pod?.node;
        const ends = route?.(source, destination) ?? { source, destination };
        const judged = evaluateConnection(view, {
          source: withOpen(ends.source),
          destination: withOpen(ends.destination),
          packet,
          endpointToHost: node === undefined ? 'Accept' : endpointToHost(node),
        });
        return { ...ends, packet, judged };
      }),
  );
}

function explainOne(
  view: PolicyView,
  { source, destination, tunnel, packet, judged }: JudgedConnection,
): ExplainedConnection {
  const { verdict, isRefusedByHost } = judged;
  const node = source.pod?.node;
  const isFromOwnNode = source.host !== undefined && source.host === destination.pod?.node;
  return {
    source: formatAddress(source.address),
    destination: formatAddress(destination.address),
    verdict,
    ...(judged.source === undefined ? {} : { egress: explainEnd(view, packet, judged.source) }),
    ...(judged.destination === undefined ? {} : { ingress: explainEnd(view, packet, judged.destination) }),
    ...(judged.leaving === undefined ? {} : { leaving: explainCrossing(view, packet, judged.leaving) }),
    ...(judged.entering === undefined ? {} : { entering: explainCrossing(view, packet, judged.entering) }),
    notes: [
      ...(tunnel === undefined
        ? []
        : [
            `packets pass the tunnel ${tunnel}: HostEndpoints of other interfaces see only the packets that carry them`,
          ]),
      ...requestNotes(packet, judged.destination),
      ...(isFromOwnNode ? ['a node always reaches its own pods, whatever their policies say'] : []),
      ...(isRefusedByHost
        ? [
            `the AgentConfiguration of node ${node ?? ''} drops packets of pods to their own node (defaultEndpointToHostAction)`,
          ]
        : []),
      ...(source.pod === undefined &&
      destination.pod === undefined &&
      judged.leaving === undefined &&
      judged.entering === undefined
        ? ['no pod is an end: policies of pods do not apply']
        : []),
    ],
  };
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

function explainEnd(view: PolicyView, packet: Packet, judged: EndVerdict): ExplainedEnd {
  const { endpoint, direction, verdict, considered } = judged;
  const scene = { view, packet, direction };
  return {
    pod: endpoint.shown,
    node: endpoint.node,
    verdict,
    ...decidedBy(scene, judged),
    considered: considered.map((said) => explainPolicy(scene, said)),
  };
}

function explainCrossing(
  view: PolicyView,
  packet: Packet,
  { endpoint, verdict, paths }: HostVerdict,
): ExplainedCrossing {
  const met = paths.filter(({ end }, index) => index === paths.length - 1 || end.considered.length > 0);
  return {
    hostEndpoint: endpoint.shown,
    node: endpoint.node,
    verdict,
    paths: met.map(({ path, end }) => {
      const { pod: _pod, node: _node, ...said } = explainEnd(view, packet, end);
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
