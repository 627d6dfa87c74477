import type { ResourceChange } from '../../../cache/resource-view.ts';
import type { AnyResource } from '../../../model/kinds.ts';
import { type ResourceId, resourceIdOf, showResourceId } from '../../../model/resource-id.ts';
import { sameResource } from './merge-resource.ts';

/** An event in the format of kubectl. */
export interface ShownEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  readonly resource: AnyResource;
}

/** BoundedMutex changes into events: only of selected resources, and without repetition when a watch restarts. */
export class FollowedResources {
  readonly #shown = new Map<string, AnyResource>();
  readonly #isWanted: (resource: AnyResource) => boolean;

  constructor(isWanted: (resource: AnyResource) => boolean) {
    this.#isWanted = isWanted;
  }

  events(change: ResourceChange): readonly ShownEvent[] {
    if (change.kind === 'put') return this.#see(change.resource);
    if (change.kind === 'deleted') return this.#lose(change.which);
    const there = new Set(change.resources.map((resource) => showResourceId(resourceIdOf(resource))));
    const gone = [...this.#shown].filter(([id]) => !there.has(id)).map(([, resource]) => resourceIdOf(resource));
    return [
      ...gone.flatMap((which) => this.#lose(which)),
      ...change.resources.flatMap((resource) => this.#see(resource)),
    ];
  }

  #see(resource: AnyResource): readonly ShownEvent[] {
    const which = resourceIdOf(resource);
    if (!this.#isWanted(resource)) return this.#lose(which);
    const id = showResourceId(which);
    const before = this.#shown.get(id);
    this.#shown.set(id, resource);
    if (before === undefined) return [{ type: 'ADDED', resource }];
    return sameResource(before, resource) ? [] : [{ type: 'MODIFIED', resource }];
  }

  #lose(which: ResourceId): readonly ShownEvent[] {
    const id = showResourceId(which);
    const resource = this.#shown.get(id);
    this.#shown.delete(id);
    return resource === undefined ? [] : [{ type: 'DELETED', resource }];
  }
}
