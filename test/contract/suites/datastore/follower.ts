import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { IpBlock } from '../../../../src/model/ip-block.ts';
import type { NodeName } from '../../../../src/model/names.ts';
import { endpointIdOf, type WorkloadEndpoint } from '../../../../src/model/workload-endpoint.ts';
import { compareCidrs, formatCidr } from '../../../../src/net/cidr.ts';
import { compareEndpointIds } from '../../../../src/datastore/order.ts';
import type { NodeSettings, Stored } from '../../../../src/datastore/allocation-store.ts';
import type { Store } from '../../../../src/datastore/store.ts';
import { followNode, type NodeChange } from '../../../../src/cache/node-view.ts';
import { PATIENCE_MS } from '../../../support/until.ts';

const never = new AbortController().signal;

type ChangeOf<K extends NodeChange['kind']> = Extract<NodeChange, { readonly kind: K }>;

/** Keeps the changes that a watch yields, as a program that watches does. */
export class Follower {
  readonly changes: NodeChange[] = [];
  /** Rejects with what the watch throws. */
  readonly ended: Promise<void>;
  readonly #store: Store;
  readonly #node: NodeName;
  readonly #over = new AbortController();
  readonly #blocks = new Map<string, Stored<IpBlock>>();
  readonly #endpoints = new Map<string, Stored<WorkloadEndpoint>>();
  #settings: NodeSettings | undefined;

  constructor(store: Store, node: NodeName, signal: AbortSignal = never) {
    this.#store = store;
    this.#node = node;
    this.ended = this.#run(AbortSignal.any([signal, this.#over.signal]));
    // Tests that expect an end await it.
    this.ended.catch(() => undefined);
  }

  get settings(): NodeSettings {
    if (this.#settings === undefined) throw new Error('the watch has yielded nothing yet');
    return this.#settings;
  }

  get blocks(): Stored<IpBlock>[] {
    return [...this.#blocks.values()].sort((a, b) => compareCidrs(a.value.cidr, b.value.cidr));
  }

  get endpoints(): Stored<WorkloadEndpoint>[] {
    return [...this.#endpoints.values()].sort((a, b) =>
      compareEndpointIds(endpointIdOf(a.value), endpointIdOf(b.value)),
    );
  }

  of<K extends NodeChange['kind']>(kind: K): ChangeOf<K>[] {
    return this.changes.filter((change): change is ChangeOf<K> => change.kind === kind);
  }

  async started(): Promise<void> {
    await this.sees('all', 1);
  }

  /** Waits until the watch has yielded that many changes of the kind. */
  async sees(kind: NodeChange['kind'], count: number): Promise<void> {
    await this.reaches(async () => Promise.resolve(this.of(kind).length >= count));
  }

  async reaches(isThere: () => Promise<boolean>): Promise<void> {
    const limit = performance.now() + PATIENCE_MS;
    const failed = this.ended.then(() => {
      throw new Error('the watch has ended');
    });
    while (!(await Promise.race([isThere(), failed]))) {
      if (performance.now() > limit)
        throw new Error(`not reached; the watch has yielded: ${JSON.stringify(this.observed())}`);
      await Promise.race([sleep(10), failed]);
    }
  }

  /** Reports whether a reader finds now what the watch has yielded. */
  async isTrue(): Promise<boolean> {
    return isDeepStrictEqual(await this.truth(), this.observed());
  }

  /** What `truth` would be if nothing changed since. */
  observed(): unknown {
    const { pools, reservations, config, node, isLocked, clusterId, problems } = this.settings;
    const blocks = this.blocks.map(plain);
    return {
      pools,
      reservations,
      config,
      node,
      isLocked,
      clusterId,
      problems: problems.length,
      blocks,
      endpoints: this.endpoints,
    };
  }

  /** What a reader finds now. */
  async truth(): Promise<unknown> {
    const view = await this.#store.readNodeView(this.#node, undefined, never);
    const { endpoints, problems } = await this.#store.listEndpoints(this.#node, never);
    const { pools, reservations, config, node, isLocked, clusterId, owned, borrowed } = view;
    const blocks = [...owned, ...borrowed].sort((a, b) => compareCidrs(a.value.cidr, b.value.cidr)).map(plain);
    const count = view.problems.length + problems.length;
    return { pools, reservations, config, node, isLocked, clusterId, problems: count, blocks, endpoints };
  }

  async end(): Promise<void> {
    this.#over.abort();
    await this.ended;
  }

  async #run(signal: AbortSignal): Promise<void> {
    for await (const change of followNode(this.#store, this.#node, signal)) {
      this.changes.push(change);
      this.#apply(change);
    }
  }

  #apply(change: NodeChange): void {
    switch (change.kind) {
      case 'all': {
        const { owned, borrowed, ...settings } = change.view;
        this.#settings = settings;
        this.#blocks.clear();
        this.#endpoints.clear();
        for (const block of [...owned, ...borrowed]) this.#blocks.set(formatCidr(block.value.cidr), block);
        for (const endpoint of change.endpoints) this.#endpoints.set(keyOf(endpointIdOf(endpoint.value)), endpoint);
        break;
      }
      case 'block':
        if (change.block === undefined) this.#blocks.delete(formatCidr(change.cidr));
        else this.#blocks.set(formatCidr(change.cidr), change.block);
        break;
      case 'endpoint':
        if (change.endpoint === undefined) this.#endpoints.delete(keyOf(change.id));
        else this.#endpoints.set(keyOf(change.id), change.endpoint);
        break;
      case 'settings':
        this.#settings = change.settings;
        break;
    }
  }
}

function keyOf(id: unknown): string {
  return JSON.stringify(id);
}

/** As JSON can tell it. */
function plain({ value, version }: Stored<IpBlock>): unknown {
  const { cidr, node, queue, slots } = value;
  return { cidr: formatCidr(cidr), node, queue: [...queue], slots: [...slots], version };
}
