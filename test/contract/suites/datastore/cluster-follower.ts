import { setTimeout as sleep } from 'node:timers/promises';
import { never } from '../../../../src/base/errors.ts';
import type { NodeName } from '../../../../src/model/names.ts';
import { formatAddress } from '../../../../src/net/address.ts';
import { formatCidr } from '../../../../src/net/cidr.ts';
import type { Store } from '../../../../src/datastore/store.ts';
import { type ClusterChange, followCluster, type RoutingResource } from '../../../../src/cache/cluster-view.ts';
import type { RoutedBlock } from '../../../../src/datastore/follow.ts';
import { nodeName } from '../../../support/fixtures.ts';
import { PATIENCE_MS } from '../../../support/until.ts';

const endless = new AbortController().signal;
const NODE = nodeName('node-a');

/** Watches the cluster as the agent of a node does, `node-a` unless given, and records the events. */
export class ClusterFollower {
  readonly changes: ClusterChange[] = [];
  /** Rejects with what the watch throws. */
  readonly ended: Promise<void>;
  readonly #store: Store;
  readonly #node: NodeName;
  readonly #over = new AbortController();
  readonly #resources = new Map<string, RoutingResource>();
  readonly #blocks = new Map<string, RoutedBlock>();

  constructor(store: Store, { node = NODE, signal = endless }: { node?: NodeName; signal?: AbortSignal } = {}) {
    this.#store = store;
    this.#node = node;
    this.ended = this.#run(AbortSignal.any([signal, this.#over.signal]));
    // Tests that expect an end await it.
    this.ended.catch(() => undefined);
  }

  /** The changes since the beginning, one line each. */
  get lines(): string[] {
    return this.changes.slice(1).map(lineOf);
  }

  find<K extends RoutingResource['kind']>(
    kind: K,
    name: string,
  ): Extract<RoutingResource, { readonly kind: K }> | undefined {
    // The key begins with the kind.
    return this.#resources.get(`${kind}/${name}`) as Extract<RoutingResource, { readonly kind: K }> | undefined;
  }

  /** Names of resources and forms of blocks, in their order. */
  observed(): string[] {
    const resources = [...this.#resources.keys()];
    return [...resources, ...[...this.#blocks.values()].map((block) => `block ${formOf(block)}`)].sort();
  }

  async started(): Promise<void> {
    await this.reaches(() => this.changes.length > 0);
  }

  /** Waits until the watch has yielded that many changes since the beginning. */
  async sees(count: number): Promise<string[]> {
    await this.reaches(() => this.changes.length > count);
    return this.lines;
  }

  async reaches(isThere: () => boolean): Promise<void> {
    const limit = performance.now() + PATIENCE_MS;
    const failed = this.ended.then(() => {
      throw new Error('the watch has ended');
    });
    // Only while something is waited for is an end a failure.
    failed.catch(() => undefined);
    while (!isThere()) {
      if (performance.now() > limit) throw new Error(`not reached; the watch has yielded: ${this.lines.join(', ')}`);
      await Promise.race([sleep(10), failed]);
    }
  }

  async end(): Promise<void> {
    this.#over.abort();
    await this.ended;
  }

  async #run(signal: AbortSignal): Promise<void> {
    for await (const change of followCluster(this.#store, this.#node, signal)) {
      this.#apply(change);
      this.changes.push(change);
    }
  }

  #apply(change: ClusterChange): void {
    switch (change.kind) {
      case 'all':
        this.#resources.clear();
        this.#blocks.clear();
        for (const resource of change.resources)
          this.#resources.set(`${resource.kind}/${resource.metadata.name}`, resource);
        for (const block of change.blocks) this.#blocks.set(formatCidr(block.cidr), block);
        break;
      case 'resource': {
        const key = `${change.which.kind}/${change.which.name}`;
        if (change.resource === undefined) this.#resources.delete(key);
        else this.#resources.set(key, change.resource);
        break;
      }
      case 'block':
        if (change.block === undefined) this.#blocks.delete(formatCidr(change.cidr));
        else this.#blocks.set(formatCidr(change.cidr), change.block);
        break;
    }
  }
}

function lineOf(change: ClusterChange): string {
  switch (change.kind) {
    case 'all':
      return 'all';
    case 'resource':
      return `${change.which.kind}/${change.which.name}${change.resource === undefined ? ' gone' : ''}`;
    case 'block':
      return `block ${change.block === undefined ? `${formatCidr(change.cidr)} gone` : formOf(change.block)}`;
    default:
      return never(change);
  }
}

/** `10.0.0.0/26 of n1, n2 has 10.0.0.3 10.0.0.7` */
function formOf({ cidr, node, borrowed }: RoutedBlock): string {
  const lent = [...borrowed].map(([borrower, all]) => `, ${borrower} has ${all.map(formatAddress).join(' ')}`);
  return `${formatCidr(cidr)} of ${node ?? 'no node'}${lent.sort().join('')}`;
}
