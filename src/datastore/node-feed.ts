import { isDeepStrictEqual } from 'node:util';
import { invariant } from '../base/errors.ts';
import type { IpBlock } from '../model/ip-block.ts';
import type { NodeName } from '../model/names.ts';
import { endpointIdOf, type WorkloadEndpoint } from '../model/workload-endpoint.ts';
import { compareCidrs } from '../net/cidr.ts';
import { borrowersOf } from './borrowers.ts';
import { compareEndpointIds } from './order.ts';
import type { NodeSettings, Stored } from './allocation-store.ts';
import type { NodeChange } from './watch-store.ts';

/** A record as it is now: readable, gone, or not to be understood. */
export type Found<T> = Stored<T> | undefined | { readonly problem: string };

/**
 * Turns records that a datastore finds, each under a name of its own, into what the watcher of a node is told. It tells
 * nothing twice, and of blocks only those that concern the node.
 */
export class NodeFeed {
  readonly node: NodeName;
  readonly #blocks = new Map<string, Stored<IpBlock>>();
  readonly #endpoints = new Map<string, Stored<WorkloadEndpoint>>();
  /** With blocks and endpoints, by their names. */
  readonly #problems = new Map<string, string>();
  #settings: NodeSettings | undefined;

  constructor(node: NodeName) {
    this.node = node;
  }

  /** Everything found so far. */
  all(): NodeChange {
    const blocks = [...this.#blocks.values()].sort((a, b) => compareCidrs(a.value.cidr, b.value.cidr));
    const endpoints = [...this.#endpoints.values()];
    return {
      kind: 'all',
      view: {
        ...this.#settingsNow(),
        owned: blocks.filter(({ value }) => value.node === this.node),
        borrowed: blocks.filter(({ value }) => value.node !== this.node),
      },
      endpoints: endpoints.sort((a, b) => compareEndpointIds(endpointIdOf(a.value), endpointIdOf(b.value))),
    };
  }

  block(name: string, found: Found<IpBlock>): NodeChange[] {
    const told = this.#blocks.get(name);
    const block = this.mayConcern(found) ? readable(found) : undefined;
    const changes = this.#problem(name, found);
    if (block?.version === told?.version) return changes;
    if (block === undefined) this.#blocks.delete(name);
    else this.#blocks.set(name, block);
    const cidr = (block ?? told)?.value.cidr;
    return cidr === undefined ? changes : [{ kind: 'block', cidr, block }, ...changes];
  }

  /** Whether the node owns the block or holds an address of it, or nobody can tell. */
  mayConcern(found: Found<IpBlock>): boolean {
    const block = readable(found)?.value;
    if (block === undefined) return found !== undefined;
    return block.node === this.node || borrowersOf(block).has(this.node);
  }

  endpoint(name: string, found: Found<WorkloadEndpoint>): NodeChange[] {
    const told = this.#endpoints.get(name);
    const endpoint = readable(found);
    const changes = this.#problem(name, found);
    if (isDeepStrictEqual(endpoint, told)) return changes;
    if (endpoint === undefined) this.#endpoints.delete(name);
    else this.#endpoints.set(name, endpoint);
    const value = (endpoint ?? told)?.value;
    return value === undefined ? changes : [{ kind: 'endpoint', id: endpointIdOf(value), endpoint }, ...changes];
  }

  /** `problems` are those of the settings themselves. */
  settings(settings: NodeSettings): NodeChange[] {
    if (isDeepStrictEqual(settings, this.#settings)) return [];
    this.#settings = settings;
    return [{ kind: 'settings', settings: this.#settingsNow() }];
  }

  #problem(name: string, found: Found<unknown>): NodeChange[] {
    const problem = found !== undefined && 'problem' in found ? found.problem : undefined;
    if (this.#problems.get(name) === problem) return [];
    if (problem === undefined) this.#problems.delete(name);
    else this.#problems.set(name, problem);
    return this.#settings === undefined ? [] : [{ kind: 'settings', settings: this.#settingsNow() }];
  }

  #settingsNow(): NodeSettings {
    invariant(this.#settings !== undefined, 'a watcher is told of a node before its settings are known');
    const { problems, ...settings } = this.#settings;
    return { ...settings, problems: [...problems, ...this.#problems.values()] };
  }
}

/** Changes until the signal ends them: what breaks because of that is no failure. */
export async function* untilEnded<T>(changes: AsyncIterable<T>, signal: AbortSignal): AsyncGenerator<T> {
  if (signal.aborted) return;
  try {
    for await (const change of changes) {
      yield change;
      if (signal.aborted) return;
    }
  } catch (cause) {
    if (!signal.aborted) throw cause;
  }
}

function readable<T>(found: Found<T>): Stored<T> | undefined {
  return found === undefined || 'problem' in found ? undefined : found;
}
