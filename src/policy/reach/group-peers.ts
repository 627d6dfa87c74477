import { counted } from '../../base/counted.ts';
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
  readonly #ofNamespace: ReadonlyMap<string, readonly PolicyEndpoint[]>;
  readonly #ofWorkload: ReadonlyMap<string, readonly PolicyEndpoint[]>;

  constructor(pods: readonly PolicyEndpoint[]) {
    this.#total = pods.length;
    this.#ofNamespace = Map.groupBy(pods, namespaceOf);
    this.#ofWorkload = Map.groupBy(pods, workloadTextOf);
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
        { kind: 'pods', text: `all ${counted(pods.length, 'pod')}`, count: pods.length, examples: examplesOf(pods) },
      ];
    }
    return groupsOf(pods, namespaceOf).flatMap(([namespace, own]): readonly PeerGroup[] => {
      if (own.length > 1 && own.length === this.#ofNamespace.get(namespace)?.length) {
        const text = `${namespace} (all ${counted(own.length, 'pod')})`;
        return [{ kind: 'pods', text, namespace, count: own.length, examples: examplesOf(own) }];
      }
      return groupsOf(own, workloadTextOf).flatMap(([key, same]) => this.#workloadGroup(key, same));
    });
  }

  #workloadGroup(key: string, pods: readonly PolicyEndpoint[]): readonly PeerGroup[] {
    const [first] = pods;
    if (first === undefined) return [];
    const { namespace, labels, name } = workloadOf(first);
    const total = this.#ofWorkload.get(key)?.length ?? pods.length;
    const size = pods.length === total ? counted(total, 'pod') : `${String(pods.length)} of ${counted(total, 'pod')}`;
    const text = total === 1 ? first.shown : `${namespace} ${name} (${size})`;
    return [{ kind: 'pods', text, namespace, labels, count: pods.length, examples: examplesOf(pods) }];
  }
}

export function workloadTextOf(endpoint: PolicyEndpoint): string {
  const { namespace, name } = workloadOf(endpoint);
  return JSON.stringify([namespace, name]);
}

function namespaceOf({ namespace = '' }: PolicyEndpoint): string {
  return namespace;
}

function groupsOf(
  pods: readonly PolicyEndpoint[],
  keyOf: (pod: PolicyEndpoint) => string,
): readonly [string, readonly PolicyEndpoint[]][] {
  return [...Map.groupBy(pods, keyOf)].toSorted(([a], [b]) => (a < b ? -1 : 1));
}

function nodeGroup(nodes: readonly string[]): PeerGroup {
  const text = nodes.length === 1 ? `node ${nodes.join('')}` : counted(nodes.length, 'node');
  return { kind: 'nodes', text, count: nodes.length, examples: nodes.slice(0, EXAMPLES) };
}

function examplesOf(pods: readonly PolicyEndpoint[]): readonly string[] {
  return pods.slice(0, EXAMPLES).map(({ shown }) => shown);
}
