import type { Labels } from '../../model/selector.ts';
import type { PolicyEndpoint } from '../resolved-policy.ts';
import type { Peer } from './peer-classes.ts';
import { workloadOf } from './workload-name.ts';

const EXAMPLES = 3;

/** Ends of connections under a name that users know. */
export interface PeerGroup {
  readonly kind: 'pods' | 'nodes' | 'addresses';
  /** Example: `shop app=web (3 pods)`. */
  readonly text: string;
  readonly namespace?: string;
  /** The labels of the workload; absent for all pods of a namespace or of the cluster. */
  readonly labels?: Labels;
  readonly count: number;
  /** Names of some of them. */
  readonly examples: readonly string[];
}

/** Names groups of ends, given all pods of the cluster: all pods of a namespace are one group. */
export class PeerNames {
  readonly #total: number;
  readonly #ofNamespace: ReadonlyMap<string, number>;
  readonly #ofWorkload: ReadonlyMap<string, number>;

  constructor(pods: readonly PolicyEndpoint[]) {
    this.#total = pods.length;
    this.#ofNamespace = countBy(pods, ({ namespace = '' }) => namespace);
    this.#ofWorkload = countBy(pods, workloadTextOf);
  }

  group(peers: readonly Peer[]): readonly PeerGroup[] {
    const pods = peers.flatMap((peer) => (peer.kind === 'pod' ? [peer.endpoint] : []));
    const nodes = new Set(peers.flatMap((peer) => (peer.kind === 'node' ? [peer.name] : [])));
    const services = new Set(peers.flatMap((peer) => (peer.kind === 'service' ? [peer.name] : [])));
    const nets = peers.flatMap((peer) => (peer.kind === 'net' ? [peer.text] : []));
    return [
      ...this.#podGroups(pods),
      ...(nodes.size === 0 ? [] : [nodeGroup([...nodes])]),
      ...[...services, ...nets].map((text) => ({ kind: 'addresses', text, count: 1, examples: [] }) as const),
    ];
  }

  #podGroups(pods: readonly PolicyEndpoint[]): readonly PeerGroup[] {
    if (pods.length > 1 && pods.length === this.#total) {
      return [
        { kind: 'pods', text: `all ${count(pods.length, 'pod')}`, count: pods.length, examples: examplesOf(pods) },
      ];
    }
    const byNamespace = [...Map.groupBy(pods, ({ namespace = '' }) => namespace)].toSorted(([a], [b]) =>
      a < b ? -1 : 1,
    );
    return byNamespace.flatMap(([namespace, own]): readonly PeerGroup[] => {
      if (own.length > 1 && own.length === this.#ofNamespace.get(namespace)) {
        const text = `${namespace} (all ${count(own.length, 'pod')})`;
        return [{ kind: 'pods', text, namespace, count: own.length, examples: examplesOf(own) }];
      }
      const byWorkload = [...Map.groupBy(own, workloadTextOf)].toSorted(([a], [b]) => (a < b ? -1 : 1));
      return byWorkload.flatMap(([key, same]) => this.#workloadGroup(key, same));
    });
  }

  #workloadGroup(key: string, pods: readonly PolicyEndpoint[]): readonly PeerGroup[] {
    const [first] = pods;
    if (first === undefined) return [];
    const { namespace, labels, name } = workloadOf(first);
    const total = this.#ofWorkload.get(key) ?? pods.length;
    const size = pods.length === total ? count(total, 'pod') : `${String(pods.length)} of ${count(total, 'pod')}`;
    const text = total === 1 ? first.shown : `${namespace} ${name} (${size})`;
    return [{ kind: 'pods', text, namespace, labels, count: pods.length, examples: examplesOf(pods) }];
  }
}

export function workloadTextOf(endpoint: PolicyEndpoint): string {
  const { namespace, name } = workloadOf(endpoint);
  return JSON.stringify([namespace, name]);
}

/** Returns a number with its noun, such as `1 pod` or `3 pods`. */
export function count(number: number, noun: string): string {
  return `${String(number)} ${noun}${number === 1 ? '' : 's'}`;
}

function nodeGroup(nodes: readonly string[]): PeerGroup {
  const text = nodes.length === 1 ? `node ${nodes.join('')}` : count(nodes.length, 'node');
  return { kind: 'nodes', text, count: nodes.length, examples: nodes.slice(0, EXAMPLES) };
}

function examplesOf(pods: readonly PolicyEndpoint[]): readonly string[] {
  return pods.slice(0, EXAMPLES).map(({ shown }) => shown);
}

function countBy<T>(items: readonly T[], keyOf: (item: T) => string): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const item of items) counts.set(keyOf(item), (counts.get(keyOf(item)) ?? 0) + 1);
  return counts;
}
