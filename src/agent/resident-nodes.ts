import type { Store } from '../datastore/store.ts';
import type { NodeName } from '../model/names.ts';
import type { Datastore } from '../netconf/connection.ts';
import { type ResidentPorts, type ResidentState, ResidentNode } from '../resident/resident-node.ts';
import { addressUse } from './address-use.ts';
import type { Standing } from './metrics.ts';
import { datastoreKey } from '../resident/segment-name.ts';

export interface NodeSettings {
  readonly node: NodeName;
  /** Addresses kept ready per pool even when no pod starts. */
  readonly stockFloor: number;
}

/** One resident node per datastore configuration, opened when a call first names it and kept until the agent ends. */
export class ResidentNodes implements AsyncDisposable {
  readonly #open: (datastore: Datastore) => Store;
  readonly #ports: ResidentPorts;
  readonly #settings: NodeSettings;
  readonly #nodes = new Map<string, ResidentNode>();
  /** By the object itself, which is the same for configurations that were decoded once. */
  readonly #seen = new WeakMap<Datastore, ResidentNode>();

  constructor(open: (datastore: Datastore) => Store, ports: ResidentPorts, settings: NodeSettings) {
    this.#open = open;
    this.#ports = ports;
    this.#settings = settings;
  }

  get(datastore: Datastore): ResidentNode {
    const seen = this.#seen.get(datastore);
    if (seen !== undefined) return seen;
    const key = datastoreKey(datastore);
    const known = this.#nodes.get(key);
    if (known !== undefined) {
      this.#seen.set(datastore, known);
      return known;
    }
    const opened = new ResidentNode(this.#open(datastore), this.#ports, { datastore, ...this.#settings });
    this.#nodes.set(key, opened);
    return opened;
  }

  /** The one for the datastore with that key, if a call has named it. */
  find(key: string): ResidentNode | undefined {
    return this.#nodes.get(key);
  }

  /** All datastores together. */
  standing(): Omit<Standing, 'network'> {
    const states = this.#states();
    return {
      addresses: addressUse(states),
      waiting: states.reduce((sum, state) => sum + state.waiting, 0),
      isDatastoreUp: states.length > 0 && states.every(({ problem }) => problem === undefined),
    };
  }

  /** Why calls cannot be served now; a datastore that is away while there is stock left is no reason. */
  problems(): readonly string[] {
    if (this.#nodes.size === 0) return ['no datastore is open yet'];
    return this.#states().flatMap(({ isReady, problem }) =>
      isReady ? [] : [problem ?? 'the datastore is being read'],
    );
  }

  #states(): readonly ResidentState[] {
    return this.#list().map(({ state }) => state);
  }

  #list(): readonly ResidentNode[] {
    return [...this.#nodes.values()];
  }

  /** Publishes what waits everywhere and gives the stock back, as far as the signal lets it. */
  async drain(signal: AbortSignal): Promise<void> {
    await Promise.all(this.#list().map(async (each) => each.drain(signal)));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#list().map(async (each) => each.end()));
    this.#nodes.clear();
  }
}
