import { getOrInsert } from '../../base/get-or-insert.ts';
import { FAMILIES, type Address, type Family, sameAddress } from '../../net/address.ts';
import { type EndVerdict, evaluateHost } from '../evaluate.ts';
import { echoRequest, type Packet } from '../match-packet.ts';
import type { PolicyView } from '../policy-view.ts';
import type { PolicyDirection } from '../resolved-policy.ts';
import { judgeEnd } from './judge-end.ts';
import { type NamedAddress, type PeerClass, peerClasses, type Subject } from './peer-classes.ts';
import { allTraffic, OTHER_PROTOCOLS, type Traffic } from './traffic.ts';

/** Source port of the packets that are evaluated: any port of clients. */
const CLIENT_PORT = 40_000;
/** Reserved for experiments: stands for protocols that no rule names. */
const UNNAMED_PROTOCOL = 253;
const HIGHEST_PROTOCOL = 255;

/** Verdict of one end of a connection about some traffic. */
export interface JudgedTraffic extends Traffic {
  readonly judged: EndVerdict;
  readonly packet: Packet;
}

/** Verdict of one end about all traffic. Ends that say the same for the same reasons share one. */
export interface Judgement {
  readonly number: number;
  /** In order, without gaps. */
  readonly parts: readonly JudgedTraffic[];
}

/** A connection between two classes, in one IP family. */
export interface Pair {
  readonly from: PeerClass;
  readonly to: PeerClass;
  readonly family: Family;
}

/** One end of a pair whose policies are asked. */
interface Judging {
  readonly pair: Pair;
  readonly direction: PolicyDirection;
  readonly subject: Subject;
}

/**
 * Answers what policies of one or more views say of all traffic between all ends. Equal questions are evaluated once: an end
 * sees of its peer only the addresses and labels that its own rules name.
 */
export class ReachModel {
  readonly classes: readonly PeerClass[];
  /** Everything that two ends can exchange. */
  readonly whole: readonly Traffic[];
  readonly #views: readonly PolicyView[];
  /** By place of view, direction and family, then by number of the subject, then by what the subject sees of its peer. */
  readonly #judged: Map<string, Judgement>[][] = [];
  readonly #distinct = new Map<string, Judgement>();

  constructor(views: readonly PolicyView[], named: readonly NamedAddress[]) {
    this.#views = views;
    this.classes = peerClasses(views, named);
    const protocols = this.classes.flatMap(({ subject }) =>
      (subject ?? []).flatMap((each) => [
        ...(each?.ingress.facts.protocols ?? []),
        ...(each?.egress.facts.protocols ?? []),
      ]),
    );
    this.whole = allTraffic(protocols);
  }

  /** Returns each pair of classes that differ, or have two members, in each family that both have. */
  *pairs(isWanted: (from: PeerClass, to: PeerClass) => boolean): Generator<Pair> {
    for (const from of this.classes) {
      for (const to of this.classes) {
        if (from.subject === undefined && to.subject === undefined) continue;
        // A pod reaches itself without a policy.
        if ((from === to && from.members.length === 1) || !isWanted(from, to)) continue;
        for (const family of FAMILIES) {
          if (from.addresses[family] !== undefined && to.addresses[family] !== undefined) yield { from, to, family };
        }
      }
    }
  }

  /** Returns what one end says in the view; undefined for an end without policies, which allows everything. */
  judge(view: number, pair: Pair, direction: PolicyDirection): Judgement | undefined {
    const own = direction === 'egress' ? pair.from : pair.to;
    const subject = own.subject?.[view]?.[direction];
    const known = own.subject?.find((each) => each !== undefined)?.[direction];
    // Host endpoints see nothing that stays on a node.
    if (known === undefined || (known.open !== undefined && staysOnNode(pair))) return undefined;
    return subject === undefined
      ? this.#withoutPolicies(pair, direction, known)
      : this.#judgeSubject(view, { pair, direction, subject });
  }

  /** A node without a host endpoint in this view allows everything. */
  #withoutPolicies({ from, to, family }: Pair, direction: PolicyDirection, { endpoint }: Subject): Judgement {
    const [source, destination] = [from.addresses[family], to.addresses[family]];
    const ends = source === undefined || destination === undefined ? undefined : { source, destination };
    const parts = this.whole.flatMap((each): JudgedTraffic[] => {
      if (ends === undefined) return [];
      const judged = {
        endpoint,
        direction,
        verdict: 'allow',
        decision: { kind: 'no policy' },
        considered: [],
      } as const;
      return [{ ...each, judged, packet: packetOf(each, ends, this.whole) }];
    });
    return this.#share(parts);
  }

  #judgeSubject(view: number, judging: Judging): Judgement {
    const { pair, direction, subject } = judging;
    const [own, peer] = direction === 'egress' ? [pair.from, pair.to] : [pair.to, pair.from];
    const { family } = pair;
    const { facts } = subject;
    const terms = peer.terms[view];
    let seen = '';
    for (const [at, key] of subject.termKeys[family].entries()) if (terms?.has(key) === true) seen += `${String(at)} `;
    // Names and services also depend on ports of the peer.
    if (direction === 'egress' && (facts.hasNamedPorts || facts.services.length > 0))
      seen += `peer ${String(peer.number)}`;
    const ofPlace = (this.#judged[view * 4 + (direction === 'egress' ? 0 : 2) + (family === 4 ? 0 : 1)] ??= []);
    const ofSubject = (ofPlace[own.number] ??= new Map<string, Judgement>());
    return getOrInsert(ofSubject, seen, () => this.#share(this.#evaluate(view, judging)));
  }

  #share(parts: readonly JudgedTraffic[]): Judgement {
    const key = JSON.stringify(
      parts.map(({ protocol, first, last, judged: { direction, ...judged } }) => [
        direction,
        protocol,
        first,
        last,
        decisionKey(judged),
      ]),
    );
    return getOrInsert(this.#distinct, key, () => ({ number: this.#distinct.size, parts }));
  }

  #evaluate(index: number, { pair, direction, subject }: Judging): readonly JudgedTraffic[] {
    const { from, to, family } = pair;
    const view = this.#views[index];
    const [source, destination] = [from.addresses[family], to.addresses[family]];
    if (view === undefined || source === undefined || destination === undefined) return [];
    const cuts = portCutsOf(view, subject, destination);
    const joined: JudgedTraffic[] = [];
    for (const each of splitAt(this.whole, cuts)) {
      const packet = packetOf(each, { source, destination }, this.whole);
      const judged = evaluateSubject(view, subject, { direction, packet });
      const before = joined.at(-1);
      if (before?.protocol === each.protocol && decisionKey(before.judged) === decisionKey(judged)) {
        joined[joined.length - 1] = { ...before, last: each.last };
      } else joined.push({ ...each, judged, packet });
    }
    return joined;
  }
}

function evaluateSubject(
  view: PolicyView,
  { endpoint, open }: Subject,
  { direction, packet }: { readonly direction: PolicyDirection; readonly packet: Packet },
): EndVerdict {
  if (open === undefined) return judgeEnd(view, { endpoint, direction, packet });
  const { paths } = evaluateHost(view, { endpoint, direction, path: 'local', packet, open });
  const last = paths.at(-1);
  if (last === undefined) throw new Error('A host endpoint judges on at least one path');
  return last.end;
}

/** Reports whether all members of both are on one node. */
function staysOnNode({ from, to }: Pair): boolean {
  return from.nodes.size === 1 && to.nodes.size === 1 && from.nodes.isSubsetOf(to.nodes);
}

/** Returns the traffic in parts, none of which contains one of the ports and a port before it. */
export function splitAt(traffic: readonly Traffic[], cuts: Iterable<number>): readonly Traffic[] {
  const ordered = [...new Set(cuts)].toSorted((a, b) => a - b);
  return traffic.flatMap(({ protocol, first, last }) => {
    const starts = [first, ...ordered.filter((cut) => first < cut && cut <= last)];
    return starts.map((start, index) => ({ protocol, first: start, last: (starts[index + 1] ?? last + 1) - 1 }));
  });
}

/** Returns a text that is equal for verdicts of the same reason. Profiles all count as one: they say what no policy decides. */
export function decisionKey({ verdict, decision, asks }: Pick<EndVerdict, 'verdict' | 'decision' | 'asks'>): string {
  const reason = decision.kind === 'open port' ? decision.open.kind : decision;
  return JSON.stringify([verdict, asks, decision.kind, decision.kind === 'profile rule' ? '' : reason]);
}

function portCutsOf(view: PolicyView, { facts }: Subject, destination: Address): readonly number[] {
  const named = facts.hasNamedPorts ? view.endpointsAt(destination).flatMap(({ ports }) => ports) : [];
  const served = facts.services
    .flatMap(({ namespace, name }) => view.services.portsOf(namespace, name))
    .filter(({ address }) => sameAddress(address, destination));
  return [...facts.portCuts, ...[...named, ...served].flatMap(({ port }) => [port, port + 1])];
}

function packetOf(
  { protocol, first }: Traffic,
  ends: { readonly source: Address; readonly destination: Address },
  whole: readonly Traffic[],
): Packet {
  if (protocol === 1) return echoRequest(ends);
  if (first > 0) return { ...ends, protocol, sourcePort: CLIENT_PORT, destinationPort: first };
  return { ...ends, protocol: protocol === OTHER_PROTOCOLS ? unnamedProtocol(whole) : protocol };
}

function unnamedProtocol(whole: readonly Traffic[]): number {
  for (let number = UNNAMED_PROTOCOL; number <= HIGHEST_PROTOCOL; number += 1) {
    if (whole.every(({ protocol }) => protocol !== number)) return number;
  }
  return UNNAMED_PROTOCOL;
}
