import type { Address } from '../net/address.ts';
import { type Packet, ruleMatches } from './match-packet.ts';
import { findOpenMatch, NO_OPEN_PORTS, type OpenMatch, openMatches, type OpenPorts } from './open-ports.ts';
import { hasDefault, type PacketPath, policiesOn } from './packet-path.ts';
import { UNKNOWN_CONTENT } from './packet-content.ts';
import type { PolicyView } from './policy-view.ts';
import type { PolicyDirection, PolicyEndpoint, PolicyRule, PolicyTier, ResolvedPolicy } from './resolved-policy.ts';

export type PolicyVerdict = 'allow' | 'deny';

/** Rule or default that decided at one end. */
export type PolicyDecision =
  | { readonly kind: 'rule'; readonly tier: string; readonly policy: string; readonly index: number }
  /** Policies of the tier apply, and none of their rules matches. */
  | { readonly kind: 'tier default'; readonly tier: string; readonly policies: readonly string[] }
  | { readonly kind: 'profile rule'; readonly profile: string; readonly index: number }
  /** No policy decides, and no rule of a profile matches. */
  | { readonly kind: 'no profile' }
  /** No policy applies to packets on this path. */
  | { readonly kind: 'no policy' }
  /** IPv6 needs these messages on a link: there they pass before policies. */
  | { readonly kind: 'neighbour discovery' }
  /** A failsafe port of a host endpoint, or a tunnel between nodes: it passes before policies. */
  | { readonly kind: 'open port'; readonly open: OpenMatch };

/** A policy that was considered, and what it said. */
export interface ConsideredPolicy {
  readonly tier: string;
  readonly policy: string;
  /** Set for a staged policy, which would have decided so and does not. */
  readonly isStaged: boolean;
  /** Undefined when no rule matches. */
  readonly action: 'Allow' | 'Deny' | 'Pass' | undefined;
  /** The rule that matches, as numbered in the resource. */
  readonly index: number | undefined;
  /** The rule is about requests, of which nothing is known. */
  readonly asks?: 'sidecar';
  /** Matching `Log` rules before it. */
  readonly logs: readonly number[];
}

/** The verdict of one end of a connection on its first packet. */
export interface EndVerdict {
  readonly endpoint: PolicyEndpoint;
  readonly direction: PolicyDirection;
  readonly verdict: PolicyVerdict;
  readonly decision: PolicyDecision;
  /** In order, up to the one that decided. */
  readonly considered: readonly ConsideredPolicy[];
  /** The rule allows some requests, and nothing is known of what the connection carries: the sidecar decides about each. */
  readonly asks?: 'sidecar';
}

type Asks = Pick<EndVerdict, 'asks'>;

interface EndQuestion {
  readonly endpoint: PolicyEndpoint;
  readonly direction: PolicyDirection;
  readonly packet: Packet;
  /** The path of a host endpoint; pods have only `local`. */
  readonly path?: PacketPath;
  /** Ports of a host endpoint that no policy closes. */
  readonly open?: OpenPorts;
  /** The packet, which a pod sends, ends at the node of the pod. */
  readonly isToNode?: boolean;
}

/**
 * Returns what the policies of an endpoint say of the first packet of a connection, after translation of services. This is
 * what policies mean: rules of the kernel are compared with it.
 */
export function evaluateEnd(view: PolicyView, question: EndQuestion): EndVerdict {
  const { endpoint, direction, packet, path = 'local', open = NO_OPEN_PORTS, isToNode = false } = question;
  const considered: ConsideredPolicy[] = [];
  const decide = (verdict: PolicyVerdict, decision: PolicyDecision, asks: Asks = {}): EndVerdict => ({
    endpoint,
    direction,
    verdict,
    decision,
    considered,
    ...asks,
  });
  const isOnLink = endpoint.kind === 'host' ? path !== 'forwarded' : isToNode;
  if (isOnLink && isNeighbourMessage(packet)) return decide('allow', { kind: 'neighbour discovery' });
  const opened = findOpenMatch(openMatches(open, direction, path), direction, packet);
  if (opened !== undefined) return decide('allow', { kind: 'open port', open: opened });
  for (const tier of view.tiers) {
    const applied = policiesOn(view, { tier, endpoint, direction, path });
    const enforced = applied.filter(({ isStaged }) => !isStaged).map(({ id }) => id);
    let isPassed = enforced.length === 0;
    for (const policy of applied) {
      const said = consider(view, packet, { tier, policy, rules: rulesAt(endpoint, policy.rules[direction] ?? []) });
      considered.push(said);
      if (policy.isStaged || said.action === undefined) continue;
      isPassed = said.action === 'Pass';
      if (isPassed) break;
      const verdict = said.action === 'Allow' ? 'allow' : 'deny';
      const { index = 0, asks } = said;
      const decision = { kind: 'rule', tier: tier.name, policy: policy.id, index } as const;
      return decide(verdict, decision, asks === undefined ? {} : { asks });
    }
    const isUndecided = !isPassed && tier.defaultAction === 'Deny' && hasDefault(path);
    if (isUndecided) return decide('deny', { kind: 'tier default', tier: tier.name, policies: enforced });
  }
  if (path !== 'local') return decide('allow', { kind: 'no policy' });
  return decideByProfiles(view, question, decide);
}

/** Verdict of a host endpoint about a packet that passes its interface. */
export interface HostVerdict {
  readonly endpoint: PolicyEndpoint;
  readonly verdict: PolicyVerdict;
  /** In the order in which the packet meets them, up to the one that decides. */
  readonly paths: readonly { readonly path: PacketPath; readonly end: EndVerdict }[];
}

export interface HostQuestion {
  readonly endpoint: PolicyEndpoint;
  readonly direction: PolicyDirection;
  /** From or to a process of the node, or from or to a pod or another host. */
  readonly path: 'local' | 'forwarded';
  /** After translation of services. */
  readonly packet: Packet;
  /** Before it, when that differs. */
  readonly sent?: Packet | undefined;
  readonly open: OpenPorts;
}

/** Returns what a host endpoint says of the first packet of a connection. What an earlier path allows meets no later one. */
export function evaluateHost(view: PolicyView, question: HostQuestion): HostVerdict {
  const { endpoint, direction, path: last, packet, sent = packet, open } = question;
  const paths: { path: PacketPath; end: EndVerdict }[] = [];
  for (const path of pathsOf(direction, last)) {
    const end = evaluateEnd(view, { endpoint, direction, path, open, packet: path === last ? packet : sent });
    paths.push({ path, end });
    const isFinal = end.decision.kind === 'rule';
    if (path === last || end.verdict === 'deny' || isFinal) return { endpoint, verdict: end.verdict, paths };
  }
  return { endpoint, verdict: 'allow', paths };
}

/** Only what a process of the node sends passes the hook where tracking of sent packets begins. */
function pathsOf(direction: PolicyDirection, last: 'local' | 'forwarded'): readonly PacketPath[] {
  if (direction === 'ingress') return ['untracked', 'preDNAT', last];
  return last === 'local' ? ['untracked', last] : [last];
}

/** Verdict of both ends. */
export interface ConnectionVerdict {
  readonly verdict: PolicyVerdict;
  /** Egress of the pod that sends; undefined when no pod does. */
  readonly source: EndVerdict | undefined;
  /** Ingress of the pod that receives; undefined when no pod does, or the packet comes from its own node. */
  readonly destination: EndVerdict | undefined;
  /** Where the packet leaves the node of its source; undefined without a host endpoint there. */
  readonly leaving: HostVerdict | undefined;
  /** Where the packet reaches the node of its destination. */
  readonly entering: HostVerdict | undefined;
  /** The pod may send, and its own node does not accept from pods. */
  readonly isRefusedByHost: boolean;
}

/** One end of a connection. */
export interface ConnectionEnd {
  readonly address: Address;
  /** The pod whose interface the packet passes; undefined for a process of a host and for what is not in the cluster. */
  readonly pod?: PolicyEndpoint | undefined;
  /** The node whose own network this end is in. */
  readonly host?: string | undefined;
  /** The host endpoint of the interface by which packets of this end pass between its node and the network. */
  readonly hostEndpoint?: PolicyEndpoint | undefined;
  /** Ports of its node that no policy of a host endpoint closes; none unless set. */
  readonly open?: OpenPorts;
}

/** The first packet of a connection on one node. */
export interface SeenPacket {
  readonly packet: Packet;
  /** Before translation of services, when that differs. */
  readonly sent?: Packet | undefined;
}

export interface PolicyConnection extends SeenPacket {
  readonly source: ConnectionEnd;
  readonly destination: ConnectionEnd;
  /** On the node of the destination, when another address or port reaches it than its source sent. */
  readonly arriving?: SeenPacket | undefined;
  /** The node that passes it on between those of its ends: the packet leaves even a node that has both of them. */
  readonly via?: string | undefined;
  /** Whether pods reach their own node when their egress policies allow it. */
  readonly endpointToHost: 'Accept' | 'Drop';
}

/**
 * Returns whether policies let a connection begin: both ends must allow it. A node always reaches its own pods, and host
 * endpoints see nothing that stays on a node.
 */
export function evaluateConnection(view: PolicyView, connection: PolicyConnection): ConnectionVerdict {
  const { source, destination, packet, sent, via, endpointToHost } = connection;
  const arriving = connection.arriving ?? { packet, sent };
  const node = nodeOf(source);
  const staysOnNode = node !== undefined && node === nodeOf(destination) && via === undefined;
  const isToOwnNode = staysOnNode && source.pod !== undefined && destination.host !== undefined;
  const isToNode = isToOwnNode || isOfLink(packet.destination);
  const egress =
    source.pod === undefined
      ? undefined
      : evaluateEnd(view, { endpoint: source.pod, direction: 'egress', packet, isToNode });
  const isFromOwnNode = staysOnNode && source.host !== undefined;
  const ingress =
    destination.pod === undefined || isFromOwnNode
      ? undefined
      : evaluateEnd(view, { endpoint: destination.pod, direction: 'ingress', packet: arriving.packet });
  const crossing = (end: ConnectionEnd, direction: PolicyDirection): HostVerdict | undefined =>
    end.hostEndpoint === undefined || staysOnNode
      ? undefined
      : evaluateHost(view, {
          ...(direction === 'egress' ? { packet, sent } : arriving),
          open: end.open ?? NO_OPEN_PORTS,
          endpoint: end.hostEndpoint,
          direction,
          path: end.host === undefined ? 'forwarded' : 'local',
        });
  const [leaving, entering] = [crossing(source, 'egress'), crossing(destination, 'ingress')];
  const isRefusedByHost = isToOwnNode && egress?.verdict === 'allow' && endpointToHost === 'Drop';
  const isDenied = isRefusedByHost || [egress, ingress, leaving, entering].some((each) => each?.verdict === 'deny');
  return {
    verdict: isDenied ? 'deny' : 'allow',
    source: egress,
    destination: ingress,
    leaving,
    entering,
    isRefusedByHost,
  };
}

function nodeOf({ pod, host }: ConnectionEnd): string | undefined {
  return pod?.node ?? host;
}

/** Returns the end of a connection at an address: the pod that has it, when one has. */
export function endAt(view: PolicyView, address: Address): ConnectionEnd {
  return { address, pod: view.endpointsAt(address).find(({ kind }) => kind === 'workload') };
}

/** No request is judged at a host: what a pod serves is judged in the pod, and it alone opens to rules about requests. */
export function rulesAt({ kind }: PolicyEndpoint, rules: readonly PolicyRule[]): readonly PolicyRule[] {
  return kind === 'host' ? rules.filter(({ http }) => http === undefined) : rules;
}

function consider(
  view: PolicyView,
  packet: Packet,
  { tier, policy, rules }: { tier: PolicyTier; policy: ResolvedPolicy; rules: readonly PolicyRule[] },
): ConsideredPolicy {
  const logs: number[] = [];
  const said = { tier: tier.name, policy: policy.id, isStaged: policy.isStaged, logs };
  for (const rule of rules) {
    if (!ruleMatches(view, rule, packet)) continue;
    if (rule.action !== 'Log') return { ...said, action: rule.action, index: rule.index, ...asksOf(rule, packet) };
    logs.push(rule.index);
  }
  return { ...said, action: undefined, index: undefined };
}

function decideByProfiles(
  view: PolicyView,
  { endpoint, direction, packet }: EndQuestion,
  decide: (verdict: PolicyVerdict, decision: PolicyDecision, asks: Asks) => EndVerdict,
): EndVerdict {
  for (const profile of endpoint.profiles) {
    for (const rule of view.profile(profile)?.rules[direction] ?? []) {
      if (rule.action === 'Log' || !ruleMatches(view, rule, packet)) continue;
      // Continues with the next profile.
      if (rule.action === 'Pass') break;
      const verdict = rule.action === 'Allow' ? 'allow' : 'deny';
      return decide(verdict, { kind: 'profile rule', profile, index: rule.index }, asksOf(rule, packet));
    }
  }
  return decide('deny', { kind: 'no profile' }, {});
}

function asksOf({ http }: PolicyRule, { content = UNKNOWN_CONTENT }: Packet): Asks {
  return http !== undefined && content.kind === 'unknown' ? { asks: 'sidecar' } : {};
}

/** Multicast listener messages, router messages and neighbour discovery. */
const NEIGHBOUR_MESSAGES = [130, 131, 132, 133, 134, 135, 136, 143];

function isNeighbourMessage({ source, protocol, icmp }: Packet): boolean {
  return source.family === 6 && protocol === 58 && icmp !== undefined && NEIGHBOUR_MESSAGES.includes(icmp.type);
}

/** Reports whether packets to the address are not forwarded: it is link-local, or multicast. */
function isOfLink({ family, value }: Address): boolean {
  return family === 6 && (value >> 118n === 0x3fan || value >> 120n === 0xffn);
}
