import type { NodeStatusStore } from '../../../datastore/node-status-store.ts';
import type { ResourceStore } from '../../../datastore/resource-store.ts';
import { isNetplugError, never, NetplugError } from '../../../base/errors.ts';
import { forEachLimit } from '../../../base/for-each-limit.ts';
import type { AllocationStore, Change } from '../../../datastore/allocation-store.ts';
import { resourceIdOf } from '../../../model/resource-id.ts';
import type { Contents } from './contents.ts';
import { type StoredItem, itemName } from './items.ts';

/** Number of concurrent writes. */
const CONCURRENCY = 8;

export interface ItemWriting {
  readonly store: AllocationStore & ResourceStore & NodeStatusStore;
  readonly signal: AbortSignal;
  /** Called after each item. */
  readonly onDone: () => void;
}

/** Creates the items. After a lost response, the next run finds the item equal and skips it. */
export async function writeItems(writing: ItemWriting, items: readonly StoredItem[]): Promise<void> {
  await inOrder(writing, items, async (item) => {
    const { store, signal } = writing;
    switch (item.kind) {
      case 'resource':
        await store.createResource(item.resource, signal);
        return;
      case 'facts':
        await store.publishNode(item.node, item.facts, signal);
        return;
      case 'block':
        await commit(writing, item, { kind: 'create-block', block: item.block, pool: undefined });
        return;
      case 'endpoint':
        await commit(writing, item, { kind: 'put-endpoint', endpoint: item.endpoint });
        return;
      default:
        never(item);
    }
  });
}

/** Removes items that have not changed since they were read. An item that no longer exists counts as removed. */
export async function removeItems(writing: ItemWriting, items: readonly StoredItem[], read: Contents): Promise<void> {
  const { resources, blocks, endpoints } = versionsIn(read);
  await inOrder(writing, items, async (item) => {
    const { store, signal } = writing;
    const name = itemName(item);
    switch (item.kind) {
      case 'resource': {
        const resourceVersion = resources.get(name);
        const version = resourceVersion === undefined ? {} : { resourceVersion };
        await store.deleteResource({ ...resourceIdOf(item.resource), ...version }, signal).catch(ignoreNotFound);
        return;
      }
      case 'facts':
        await store.publishNode(item.node, {}, signal);
        return;
      case 'block': {
        const before = blocks.get(name);
        if (before !== undefined) await commit(writing, item, { kind: 'delete-block', before });
        return;
      }
      case 'endpoint': {
        const before = endpoints.get(name);
        if (before !== undefined) await commit(writing, item, { kind: 'delete-endpoint', before });
        return;
      }
      default:
        never(item);
    }
  });
}

/** Handles items of one kind concurrently, and one kind after the other, so that pools precede blocks. */
async function inOrder(
  { signal, onDone }: ItemWriting,
  items: readonly StoredItem[],
  act: (item: StoredItem) => Promise<void>,
): Promise<void> {
  for (const ofKind of Map.groupBy(items, ({ kind }) => kind).values()) {
    await forEachLimit(ofKind, CONCURRENCY, async (item) => {
      signal.throwIfAborted();
      await act(item);
      onDone();
    });
  }
}

async function commit({ store, signal }: ItemWriting, item: StoredItem, change: Change): Promise<void> {
  if ((await store.commit([change], signal)) === 'committed') return;
  throw new NetplugError('store/conflict', `Cannot write ${itemName(item)}: another program has just changed it`, {
    hint: 'Repeat the command: it resumes',
  });
}

function versionsIn({ resources, blocks, endpoints }: Contents) {
  return {
    resources: new Map(
      resources.map((resource) => [itemName({ kind: 'resource', resource }), resource.metadata.resourceVersion]),
    ),
    blocks: new Map(blocks.map((stored) => [itemName({ kind: 'block', block: stored.value }), stored])),
    endpoints: new Map(endpoints.map((stored) => [itemName({ kind: 'endpoint', endpoint: stored.value }), stored])),
  } as const;
}

function ignoreNotFound(cause: unknown): void {
  if (!isNetplugError(cause, 'resource/not-found')) throw cause;
}
