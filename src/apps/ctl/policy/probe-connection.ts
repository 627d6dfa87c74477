import { isOwnTable } from '../../../install/packet-tables.ts';
import { never, NetplugError } from '../../../base/errors.ts';
import type { PacketProbe, ProbePacket, ProbeSender } from '../../../dataplane/packet-probe.ts';
import { formatAddress } from '../../../net/address.ts';
import { describeOrigin } from '../../../policy/describe-decision.ts';
import type { PolicyVerdict } from '../../../policy/evaluate.ts';
import type { PolicyView } from '../../../policy/policy-view.ts';
import {
  type ComparedPlace,
  type ComparedTrail,
  compareTrail,
  type KernelVerdict,
} from '../../../policy/probe/compare-trail.ts';
import { originsIn } from '../../../policy/probe/decision-rules.ts';
import { POLICY_TABLE } from '../../../policy/ruleset/policy-ruleset.ts';
import { type AskedProtocol, decidedBy, type JudgedConnection, packetAt } from './explain-connection.ts';

interface ProbedVerdict {
  readonly verdict: PolicyVerdict;
  /** Reason of the verdict, a sentence without a full stop. */
  readonly reason: string;
}

/** One place where policies of this node see the packet. */
interface ProbedPlace {
  /** Example: `egress of shop/web`. */
  readonly place: string;
  readonly outcome: ComparedPlace['outcome'];
  /** Verdict by the definitions; absent where no policy should see the packet. */
  readonly expected?: ProbedVerdict;
  /** Verdict of the kernel; absent when the packet did not get there. */
  readonly kernel?: ProbedVerdict;
}

/** Outcome of a packet of the connection in the kernel of this node. */
export interface ExplainedProbe {
  readonly node: string;
  readonly outcome: ComparedTrail['outcome'];
  readonly places: readonly ProbedPlace[];
  readonly notes: readonly string[];
}

export interface ProbeQuestion {
  readonly view: PolicyView;
  /** On which the command runs. */
  readonly node: string;
  readonly connection: JudgedConnection;
  readonly protocol: AskedProtocol;
}

/** Sends a packet of the connection and compares what the kernel does with it. @throws policy/probe-impossible, kernel/* */
export async function probeConnection(
  probe: PacketProbe,
  { view, node, connection, protocol }: ProbeQuestion,
  signal: AbortSignal,
): Promise<ExplainedProbe> {
  const { source, isWithinPod } = connection;
  if (isWithinPod) throw impossible('it would never leave the pod', 'Ask without --probe: no policy sees such packets');
  const sender = senderOf(connection, node);
  const { packet: last, sent: first = last } = sender.kind === 'outside' ? connection.arriving : connection.leaving;
  const packet: ProbePacket = {
    source: first.source,
    destination: first.destination,
    sender,
    ...protocolOf(protocol, first.destinationPort),
  };
  const trail = await probe.follow(packet, POLICY_TABLE, signal);
  if (trail.end === 'unseen') throw unseen(packet);
  const isFromOutside = sender.kind === 'outside';
  const { destination, judged } = isFromOutside ? connection : untilItLeaves(connection);
  const compared = compareTrail(trail, { node, source, destination, judged, isFromOutside });
  const shown = { view, connection };
  const isSkipped = isFromOutside && judged.entering?.endpoint.node === node;
  return {
    node,
    outcome: compared.outcome,
    places: compared.places.map((each) => showPlace(shown, each)),
    notes: [
      ...notesOfEnd(trail.end, compared),
      ...(isSkipped
        ? ['the packet arrives by an interface of its own: only a host endpoint for all interfaces sees it']
        : []),
      ...(compared.places.length === 0 ? [`no policy of node ${node} sees the packet`] : []),
    ],
  };
}

/** What another node sends back is another packet, which the trail of the first does not have. */
function untilItLeaves({
  via,
  destination,
  judged,
}: JudgedConnection): Pick<JudgedConnection, 'destination' | 'judged'> {
  if (via === undefined) return { destination, judged };
  return {
    destination: { address: destination.address },
    judged: { ...judged, destination: undefined, entering: undefined },
  };
}

/** @throws cli/usage, policy/probe-impossible */
function protocolOf(protocol: AskedProtocol, port: number | undefined): Pick<ProbePacket, 'protocol' | 'port'> {
  if (protocol === 'SCTP') {
    throw impossible('packets of SCTP cannot be made', 'Probe TCP or UDP on a port to which the same rules apply');
  }
  if (protocol === 'ICMP') return { protocol };
  if (port !== undefined) return { protocol, port };
  throw new NetplugError('cli/usage', `Cannot probe ${protocol} without a port`, { hint: 'Add --port' });
}

/** @throws policy/probe-impossible when this node has neither end */
function senderOf({ source, destination }: JudgedConnection, node: string): ProbeSender {
  const [from, to] = [source.pod?.node ?? source.host, destination.pod?.node ?? destination.host];
  if (from === node) {
    if (source.pod === undefined) return { kind: 'host' };
    const { interfaceName, shown } = source.pod;
    if (interfaceName === undefined)
      throw impossible(
        `no record names the interface of pod ${shown} on its node`,
        'Wait until its network is complete; interfaces of pods of another plugin are in no record',
      );
    return { kind: 'pod', interfaceName };
  }
  if (to === node) return { kind: 'outside' };
  const nodes = [...new Set([from, to].filter((each) => each !== undefined))];
  throw impossible(
    `node ${node}, on which the command runs, has neither end`,
    nodes.length === 0
      ? 'Choose a pod or node as one end, and run the command there'
      : `Run the command as root on ${nodes.map((each) => `node ${each}`).join(' or ')}`,
  );
}

/** Returns the error for a packet that cannot be sent from here; `why` completes a sentence. */
export function impossible(why: string, hint: string): NetplugError {
  return new NetplugError('policy/probe-impossible', `Cannot send a packet: ${why}`, { hint });
}

function unseen({ source, destination }: ProbePacket): NetplugError {
  return impossible(
    `the kernel did not see it at any hook (${formatAddress(source)} -> ${formatAddress(destination)})`,
    `Check the route to ${formatAddress(destination)} and the neighbour entry of the gateway in the network of the sender`,
  );
}

function notesOfEnd(
  end: 'passed' | 'dropped' | 'lost' | 'unseen',
  { droppedElsewhere }: ComparedTrail,
): readonly string[] {
  if (droppedElsewhere !== undefined) {
    const { table, chain } = droppedElsewhere;
    const [family = '', name = ''] = table.split(' ');
    const isOwn = isOwnTable({ family, name });
    return [`not ${isOwn ? 'a policy' : 'netplug'} but chain ${chain} of table ${table} drops the packet`];
  }
  if (end !== 'lost') return [];
  return ['the packet was lost between hooks: routing, rp_filter or iptables-legacy dropped it'];
}

interface Shown {
  readonly view: PolicyView;
  readonly connection: JudgedConnection;
}

function showPlace(shown: Shown, { place, kernel, outcome }: ComparedPlace): ProbedPlace {
  return {
    place: placeText(place, kernel),
    outcome,
    ...expectedOf(shown, place),
    ...(kernel === undefined
      ? {}
      : { kernel: { verdict: kernel.verdict, reason: kernelReason(shown, place, kernel) } }),
  };
}

function placeText(place: ComparedPlace['place'], kernel: KernelVerdict | undefined): string {
  switch (place.kind) {
    case 'pod':
      return `${place.said.direction} of ${place.said.endpoint.shown}`;
    case 'host endpoint':
      return `${place.said.direction} at HostEndpoint ${place.said.endpoint.shown}, ${place.path}`;
    case 'to host':
      return 'packets of pods to their own node';
    case 'unexpected':
      return `chain ${kernel?.chain ?? ''}`;
    default:
      return never(place);
  }
}

function expectedOf({ view, connection }: Shown, place: ComparedPlace['place']): { readonly expected?: ProbedVerdict } {
  if (place.kind === 'unexpected') return {};
  if (place.kind === 'to host')
    return { expected: { verdict: place.verdict, reason: 'defaultEndpointToHostAction of the AgentConfiguration' } };
  const { said } = place;
  const { direction, verdict } = said;
  const packet = packetAt(connection, { direction, path: place.kind === 'host endpoint' ? place.path : 'local' });
  return { expected: { verdict, reason: decidedBy({ view, packet, direction }, said).reason } };
}

function kernelReason({ view }: Shown, place: ComparedPlace['place'], { rule, chain }: KernelVerdict): string {
  if (rule === undefined) return `no rule of chain ${chain} decides`;
  const origin = originsIn(view).get(rule);
  if (origin === undefined) return `rule ${rule} of chain ${chain}, which no policy of the datastore has`;
  return describeOrigin(view, origin, 'said' in place ? place.said.endpoint : undefined).reason;
}
