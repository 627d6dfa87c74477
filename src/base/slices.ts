import { setImmediate as nextTurn } from 'node:timers/promises';

/** Yields the items in slices. Other work of the process can run between two of them. */
export async function* slices<T>(items: readonly T[], size: number): AsyncGenerator<readonly T[], void> {
  for (let start = 0; start < items.length; start += size) {
    if (start > 0) await nextTurn();
    yield items.slice(start, start + size);
  }
}
