import { isDeepStrictEqual } from 'node:util';
import type { Pieces } from '../base/pieces.ts';
import { type Cidr, formatCidr } from '../net/cidr.ts';
import { type Seen, unversioned } from './seen.ts';
import type { ClusterChange, RoutedBlock, RoutingResource } from './watch-store.ts';

type Which = Extract<ClusterChange, { readonly kind: 'resource' }>['which'];

/** Turns records that a datastore finds into what a watcher of the cluster is told. It tells nothing twice. */
export class ClusterFeed {
  readonly #resources = new Map<string, Seen<RoutingResource>>();
  readonly #blocks = new Map<string, Seen<RoutedBlock>>();

  /** Everything found so far. */
  *all(): Pieces<ClusterChange> {
    const problems: string[] = [];
    const resources = yield* valuesOf(this.#resources, problems);
    const blocks = yield* valuesOf(this.#blocks, problems);
    return { kind: 'all', resources, blocks, problems };
  }

  /** Reports whether there is a record of the resource, readable or not. */
  has({ kind, name }: Which): boolean {
    return this.#resources.has(`${kind}/${name}`);
  }

  resource(which: Which, { value, problem }: Seen<RoutingResource>): ClusterChange[] {
    const seen = { value: value === undefined ? undefined : unversioned(value), problem };
    if (!note(this.#resources, `${which.kind}/${which.name}`, seen)) return [];
    return [{ kind: 'resource', which, resource: seen.value, ...(problem === undefined ? {} : { problem }) }];
  }

  block(cidr: Cidr, { value, problem }: Seen<RoutedBlock>): ClusterChange[] {
    if (!note(this.#blocks, formatCidr(cidr), { value, problem })) return [];
    return [{ kind: 'block', cidr, block: value, ...(problem === undefined ? {} : { problem }) }];
  }
}

function* valuesOf<T>(known: ReadonlyMap<string, Seen<T>>, problems: string[]): Pieces<readonly T[]> {
  const values: T[] = [];
  for (const { value, problem } of known.values()) {
    yield;
    if (value !== undefined) values.push(value);
    if (problem !== undefined) problems.push(problem);
  }
  return values;
}

/** Whether that is new. */
function note<T>(known: Map<string, Seen<T>>, name: string, seen: Seen<T>): boolean {
  if (isDeepStrictEqual(known.get(name) ?? { value: undefined, problem: undefined }, seen)) return false;
  if (seen.value === undefined && seen.problem === undefined) known.delete(name);
  else known.set(name, seen);
  return true;
}
