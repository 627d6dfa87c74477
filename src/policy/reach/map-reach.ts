import { counted } from '../../base/counted.ts';
import { getOrInsert } from '../../base/get-or-insert.ts';
import type { PolicyView } from '../policy-view.ts';
import { type PeerGroup, PeerNames, workloadTextOf } from './group-peers.ts';
import type { NamedAddress, Peer } from './peer-classes.ts';
import { type Judgement, ReachModel, splitAt } from './reach-model.ts';
import { joinTraffic, partWith, type Traffic } from './traffic.ts';

/** More workloads than this are shown by namespace unless asked for. */
const MOST_WORKLOADS = 40;

export type MapDivision = 'auto' | 'workload' | 'namespace';

/** Traffic that ends of one group may send to ends of another. */
export interface ReachCell {
  readonly from: number;
  readonly to: number;
  readonly traffic: readonly Traffic[];
  /** Not every pair of ends may exchange all of it. */
  readonly isPartial: boolean;
}

export interface ReachMap {
  /** Cells refer to them by their place. */
  readonly groups: readonly PeerGroup[];
  /**
   * Those whose ends were asked about; without traffic, nothing is allowed. Of others nothing is known: no end has policies, it is
   * one pod that reaches itself without any, they have no IP family in common, or both are outside the namespace in view.
   */
  readonly cells: readonly ReachCell[];
  readonly whole: readonly Traffic[];
}

interface MapQuestion {
  readonly named: readonly NamedAddress[];
  readonly division: MapDivision;
  /** Only its pods, and what they exchange traffic with. */
  readonly namespace: string | undefined;
}

/** Returns which groups of ends policies let reach which others. */
export function mapReach(view: PolicyView, { named, division, namespace }: MapQuestion): ReachMap {
  const model = new ReachModel([view], named);
  const peers = model.classes.flatMap(({ members }) => members);
  const pods = peers.flatMap((peer) => (peer.kind === 'pod' ? [peer.endpoint] : []));
  const isOfNamespace = (peer: Peer): boolean => peer.kind === 'pod' && peer.endpoint.namespace === namespace;
  const workloads = new Set(
    (namespace === undefined ? pods : pods.filter((pod) => pod.namespace === namespace)).map(workloadTextOf),
  );
  const isCoarse = division === 'namespace' || (division === 'auto' && workloads.size > MOST_WORKLOADS);
  // With a namespace in view, the pods of others are one group for each namespace.
  const keyOf = (peer: Peer): string =>
    keyOfPeer(view, peer, isCoarse || (namespace !== undefined && !isOfNamespace(peer)));
  const keys = [...new Set(peers.map(keyOf))].toSorted();
  const places = new Map(keys.map((key, place) => [key, place]));
  const membersOf = new Map(
    model.classes.map(
      (each) => [each, [...Map.groupBy(each.members, (peer) => places.get(keyOf(peer)) ?? 0)]] as const,
    ),
  );
  const byPlace = Map.groupBy(peers, (peer) => places.get(keyOf(peer)) ?? 0);
  const isAlone = (place: number): boolean => byPlace.get(place)?.length === 1;
  const cells = new Map<string, Cell>();
  const allowed = new AllowedTraffic(model.whole);
  for (const pair of model.pairs(() => true)) {
    const traffic = allowed.between(model.judge(0, pair, 'egress'), model.judge(0, pair, 'ingress'));
    // A class may have members in several groups: each of the one meets each of the other.
    for (const [from, senders] of membersOf.get(pair.from) ?? []) {
      for (const [to, receivers] of membersOf.get(pair.to) ?? []) {
        // A pod reaches itself without a policy.
        if (from === to && isAlone(from)) continue;
        const key = `${String(from)} ${String(to)}`;
        const { found } = getOrInsert(cells, key, () => ({ from, to, found: new Set<readonly Traffic[]>() }));
        const own = countOwnPods(senders, receivers);
        if (own > 0) found.add(allowed.everything);
        if (own < senders.length * receivers.length) found.add(traffic);
      }
    }
  }
  const filled = [...cells.values()].map(({ from, to, found }): ReachCell => {
    const [first = []] = found;
    const traffic = found.size === 1 ? first : unionOf([...found], model.whole);
    return { from, to, traffic, isPartial: found.size > 1 };
  });
  const names = new PeerNames(pods);
  const groups = keys.map((_key, place) => groupOf(names, byPlace.get(place) ?? []));
  const map = { groups, cells: filled, whole: model.whole };
  return namespace === undefined ? map : focused(map, namespace);
}

/** Returns how many of the pairs are a node and a pod of its own, which it always reaches. */
function countOwnPods(senders: readonly Peer[], receivers: readonly Peer[]): number {
  const pods = Map.groupBy(receivers, (peer) => (peer.kind === 'pod' ? peer.endpoint.node : undefined));
  return senders.reduce((sum, peer) => sum + (peer.kind === 'node' ? (pods.get(peer.name)?.length ?? 0) : 0), 0);
}

interface Cell {
  readonly from: number;
  readonly to: number;
  readonly found: Set<readonly Traffic[]>;
}

/** Pods come first, by namespace, then nodes, services and addresses. */
function keyOfPeer(view: PolicyView, peer: Peer, isCoarse: boolean): string {
  if (peer.kind === 'pod') {
    const { namespace = '' } = peer.endpoint;
    return isCoarse ? JSON.stringify([0, namespace]) : JSON.stringify([0, namespace, workloadTextOf(peer.endpoint)]);
  }
  // Nodes without a host endpoint are alike.
  if (peer.kind === 'node')
    return JSON.stringify(isCoarse || peer.hostEnd?.(view) === undefined ? [1] : [1, peer.name]);
  return peer.kind === 'net' ? JSON.stringify([3, peer.text]) : JSON.stringify([2, peer.name]);
}

function groupOf(names: PeerNames, peers: readonly Peer[]): PeerGroup {
  const groups = names.group(peers);
  const [first] = groups;
  if (first === undefined) throw new Error('A group without ends');
  if (groups.length === 1) return first;
  const { namespace = '' } = first;
  const pods = groups.reduce((total, group) => total + group.count, 0);
  const text = `${namespace} (${counted(pods, 'pod')})`;
  return { kind: 'pods', namespace, text, count: pods, examples: first.examples };
}

/** Traffic that both ends allow, computed once for each combination of what they say. */
class AllowedTraffic {
  readonly #whole: readonly Traffic[];
  readonly #known = new Map<string, readonly Traffic[]>();
  readonly #distinct = new Map<string, readonly Traffic[]>();

  constructor(whole: readonly Traffic[]) {
    this.#whole = whole;
  }

  /** What is allowed where no policy decides. */
  get everything(): readonly Traffic[] {
    return this.between(undefined, undefined);
  }

  between(egress: Judgement | undefined, ingress: Judgement | undefined): readonly Traffic[] {
    const key = `${String(egress?.number)} ${String(ingress?.number)}`;
    return getOrInsert(this.#known, key, () => this.#both([egress, ingress]));
  }

  #both(ends: readonly (Judgement | undefined)[]): readonly Traffic[] {
    const lists = ends.flatMap((judgement) =>
      judgement === undefined ? [] : [judgement.parts.filter(({ judged }) => judged.verdict === 'allow')],
    );
    const traffic = partsIn(lists, this.#whole).flatMap((part): Traffic[] => {
      const found = lists.flatMap((list) => partWith(list, part) ?? []);
      if (found.length < lists.length) return [];
      return [found.some(({ judged }) => judged.asks !== undefined) ? { ...part, requests: 'some' } : part];
    });
    const joined = joinTraffic(traffic);
    return getOrInsert(this.#distinct, JSON.stringify(joined), () => joined);
  }
}

function unionOf(lists: readonly (readonly Traffic[])[], whole: readonly Traffic[]): readonly Traffic[] {
  const union = partsIn(lists, whole).flatMap((part): Traffic[] => {
    const found = lists.flatMap((list) => partWith(list, part) ?? []);
    if (found.length === 0) return [];
    return [found.every(({ requests }) => requests !== undefined) ? { ...part, requests: 'some' } : part];
  });
  return joinTraffic(union);
}

/** Divides all traffic so that each list contains a part or nothing of it. */
function partsIn(lists: readonly (readonly Traffic[])[], whole: readonly Traffic[]): readonly Traffic[] {
  return splitAt(
    whole,
    lists.flat().flatMap(({ first, last }) => [first, last + 1]),
  );
}

/** Leaves out groups that exchange nothing with the namespace, and what others exchange among themselves. */
function focused({ groups, cells, whole }: ReachMap, namespace: string): ReachMap {
  const isOwn = (place: number): boolean => groups[place]?.namespace === namespace;
  const own = cells.filter(({ from, to }) => isOwn(from) || isOwn(to));
  const open = own.filter(({ traffic }) => traffic.length > 0);
  const kept = groups.flatMap((_, place) =>
    isOwn(place) || open.some(({ from, to }) => from === place || to === place) ? [place] : [],
  );
  const moved = new Map(kept.map((place, next) => [place, next]));
  return {
    groups: kept.flatMap((place) => groups[place] ?? []),
    cells: own.flatMap((cell) => {
      const [from, to] = [moved.get(cell.from), moved.get(cell.to)];
      return from === undefined || to === undefined ? [] : [{ ...cell, from, to }];
    }),
    whole,
  };
}
