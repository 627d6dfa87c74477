import { setTimeout as sleep } from 'node:timers/promises';
import { never } from '../../../../src/base/errors.ts';
import type { ResourceKind, ResourceOf } from '../../../../src/model/kinds.ts';
import { resourceIdOf, showResourceId } from '../../../../src/model/resource-id.ts';
import type { Store } from '../../../../src/datastore/store.ts';
import { followResources, type ResourceChange } from '../../../../src/cache/resource-view.ts';
import { PATIENCE_MS } from '../../../support/until.ts';

const endless = new AbortController().signal;

/** Keeps the changes that a watch of one kind yields. */
export class ResourceFollower<K extends ResourceKind> {
  readonly changes: ResourceChange<K>[] = [];
  /** Rejects with what the watch throws. */
  readonly ended: Promise<void>;
  readonly #over = new AbortController();
  readonly #resources = new Map<string, ResourceOf<K>>();

  constructor(store: Store, kind: K, signal: AbortSignal = endless) {
    this.ended = this.#run(followResources(store, kind, AbortSignal.any([signal, this.#over.signal])));
    // Tests that expect an end await it.
    this.ended.catch(() => undefined);
  }

  /** The changes since the beginning, one line each. */
  get lines(): string[] {
    return this.changes.slice(1).map(lineOf);
  }

  get resources(): readonly ResourceOf<K>[] {
    return [...this.#resources.values()];
  }

  async started(): Promise<this> {
    await this.reaches(() => this.changes.length > 0);
    return this;
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

  async #run(changes: AsyncIterable<ResourceChange<K>>): Promise<void> {
    for await (const change of changes) {
      if (change.kind === 'all') for (const each of change.resources) this.#put(each);
      if (change.kind === 'put') this.#put(change.resource);
      if (change.kind === 'deleted') this.#resources.delete(showResourceId(change.which));
      this.changes.push(change);
    }
  }

  #put(resource: ResourceOf<K>): void {
    this.#resources.set(showResourceId(resourceIdOf(resource)), resource);
  }
}

function lineOf(change: ResourceChange): string {
  switch (change.kind) {
    case 'all':
      return 'all';
    case 'put':
      return `put ${showResourceId(resourceIdOf(change.resource))}`;
    case 'deleted':
      return `gone ${showResourceId(change.which)}${change.problem === undefined ? '' : ' with a problem'}`;
    default:
      return never(change);
  }
}
