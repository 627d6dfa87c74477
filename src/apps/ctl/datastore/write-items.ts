import type { NodeStatusStore } from '../../../datastore/node-status-store.ts';
import type { ResourceStore } from '../../../datastore/resource-store.ts';
import { isNetplugError, never, NetplugError } from '../../../base/errors.ts';
import { forEachLimit } from '../../../base/for-each-limit.ts';
import type { AllocationStore, Change } from '../../../datastore/allocation-store.ts';
import { resourceIdOf } from '../../../model/resource-id.ts';
import type { Contents } from './contents.ts';
import { type StoredItem, itemName } from './items.ts';

/** Writes under way at the same moment. */
const AT_ONCE = 8;

export interface ItemWriting {
  readonly store: AllocationStore & ResourceStore & NodeStatusStore;
  readonly signal: AbortSignal;
  /** Told after each thing. */
  readonly onDone: () => void;
}

/** Writes what is missing. What was carried out without an answer is found to be equal the next time. */
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

/** Removes things if they are still as they were read; what is gone meanwhile counts as removed. */
export async function removeItems(writing: ItemWriting, items: readonly StoredItem[], read: Contents): Promise<void> {
  const { resources, blocks, endpoints } = versionsIn(read);
  await inOrder(writing, items, async (item) => {
    const { store, signal } = writing;
    const name = itemName(item);
    switch (item.kind) {
      case 'resource': {
        const resourceVersion = resources.get(name);
        const version = resourceVersion === undefined ? {} : { resourceVersion };
        await store.deleteResource({ ...resourceIdOf(item.resource), ...version }, signal).catch(ignoreMissing);
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

/** Things of one kind at the same moment, one kind after the other: pools stand before blocks come. */
async function inOrder(
  { signal, onDone }: ItemWriting,
  items: readonly StoredItem[],
  act: (item: StoredItem) => Promise<void>,
): Promise<void> {
  for (const kind of new Set(items.map((item) => item.kind))) {
    const ofKind = items.filter((item) => item.kind === kind);
    await forEachLimit(ofKind, AT_ONCE, async (item) => {
      signal.throwIfAborted();
      await act(item);
      onDone();
    });
  }
}

async function commit({ store, signal }: ItemWriting, item: StoredItem, change: Change): Promise<void> {
  if ((await store.commit([change], signal)) === 'committed') return;
  throw new NetplugError('store/conflict', `Cannot write ${itemName(item)}: somebody else has just written it`, {
    hint: 'Repeat the command: it goes on where it ended',
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

function ignoreMissing(cause: unknown): void {
  if (!isNetplugError(cause, 'resource/not-found')) throw cause;
}
